"""The values that travel between the application, the worker and the stores."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from headway.errors import JobFailed, NotFinished
from headway.model.artifact import Artifact
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.status import UNFINISHED, AttemptStatus, Status
from headway.model.trace import trace_id, traceparent

if TYPE_CHECKING:
    from headway.model.machine import Checkpoint, Settled, Turn

Delivery = Literal["at_least_once", "at_most_once"]
OnConflict = Literal["return", "raise", "replace", "replace_or_follow"]
Replaceable = Literal[
    "payload",
    "scheduled_for",
    "priority",
    "queue",
    "expires_at",
    "max_attempts",
    "max_losses",
    "backoff",
    "timeout",
    "meta",
    "tags",
    "partition",
    "concurrency",
    "rate",
]
REPLACEABLE: tuple[Replaceable, ...] = get_args(Replaceable)
"""What an enqueue may replace of the job that has its key; the job keeps its identity, train, group and delivery."""
Source = Literal["manual", "event", "schedule", "system"]
OnEnd = Literal["advance", "hold"]
OnFailure = Literal["stop", "continue"]


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job to be enqueued: a row's worth of values, already checked."""

    id: str
    tenant: str | None = None  # its name or UUID; None is the enqueuing app's own
    tenant_id: str = DEFAULT_TENANT_ID
    kind: str
    queue: str = "default"
    payload: str = "{}"  # JSON text
    priority: int = 100
    delay_ms: int | None = None  # after the store's now; at most one of delay_ms and scheduled_for
    scheduled_for: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int = 5
    max_losses: int = 5
    backoff_base_ms: int = 1_000
    backoff_cap_ms: int = 3_600_000
    timeout_ms: int | None = None
    delivery: Delivery = "at_least_once"
    idempotency_key: str | None = None
    unique_key: str | None = None
    unique_scope: tuple[Status, ...] = UNFINISHED
    unique_group: str | None = None  # the kinds that share its unique key; None: its own kind alone
    on_conflict: OnConflict = "return"
    replace: tuple[Replaceable, ...] = ()  # what on_conflict="replace" sets; none: all
    unique_for_ms: int | None = None  # it has its unique key at least this long, whatever becomes of it
    debounce_max_ms: int | None = None  # replaced again and again, it waits no longer than this after its first enqueue
    correlation_id: str | None = None
    trace_id: str | None = None
    source: Source = "manual"
    source_ref: str | None = None
    created_by: str | None = None
    meta: str | None = None  # JSON text
    tags: tuple[str, ...] = ()
    # order and exclusion
    train: str | None = None
    on_canceled: OnEnd = "advance"
    on_dead: OnEnd = "advance"
    partition: str | None = None
    concurrency: int | None = None  # how many of its kind, or of its kind's key, may run at once
    concurrency_key: str | None = None
    rate_count: int | None = None  # how many starts …
    rate_period_ms: int | None = None  # … in this time, of its kind or of its kind's key
    rate_burst: int | None = None  # and how many at once; None: rate_count
    rate_key: str | None = None
    group_id: str | None = None
    after: tuple[str, ...] = ()  # ids of the jobs that must be over before
    on_failure: OnFailure = "stop"  # if one of those did not succeed: end canceled, or run anyway
    checkpoint: Checkpoint | None = None  # where a machine begins, and who spawned it
    # what it was made from
    template_id: str | None = None
    template_revision: int | None = None
    trigger_id: str | None = None  # the schedule or event trigger

    @property
    def starts_at_once(self) -> bool:
        """Whether it is due now and of the default tenant, which needs no row made for it."""
        return self.delay_ms is None and self.scheduled_for is None and self.tenant_id == DEFAULT_TENANT_ID

    @property
    def has_limits(self) -> bool:
        """Whether it has a partition or limits of its own."""
        return self.partition is not None or self.concurrency is not None or self.rate_count is not None

    @property
    def has_extras(self) -> bool:
        """Whether it has more than a plain job: a train, a limit, a group, parents, tags, a shared
        key, or a machine; or a window of its key, or may be another's."""
        return (
            self.train is not None
            or self.has_limits
            or self.group_id is not None
            or self.after != ()
            or self.on_canceled != "advance"
            or self.on_dead != "advance"
            or self.checkpoint is not None
            or self.tags != ()
            or self.unique_group is not None
            or self.unique_for_ms is not None
            or self.replaces
        )

    @property
    def replaces(self) -> bool:
        """Whether it changes the job that has its unique key, if there is one that never ran."""
        return self.on_conflict in ("replace", "replace_or_follow")


_ANY_PLAIN = (
    *("id", "tenant", "kind", "queue", "payload", "priority"),
    *("max_attempts", "max_losses", "backoff_base_ms", "backoff_cap_ms", "timeout_ms"),
)
_FIXED = attrgetter(*(name for name in NewJob.__struct_fields__ if name not in _ANY_PLAIN))
_DEFAULTS = _FIXED(NewJob(id="", kind=""))


def is_plain(job: NewJob) -> bool:
    """Whether it is the default tenant's, starts at once, and has no key, no order, no limit of its own and no
    source. PostgreSQL enqueues such a job, as most are, by a shorter function."""
    return _FIXED(job) == _DEFAULTS and job.tenant in (None, "default")


class Enqueued(msgspec.Struct, frozen=True):
    """What became of one NewJob: its own row, or the existing one that it met (`created` is False).

    `replaced`: that one has its values now. Where neither is true, the existing job was left as it is; `status` says
    why a replace could not be: it runs, waits for its retry, or has ended.
    """

    id: str
    status: Status
    created: bool
    replaced: bool = False


class Brief(msgspec.Struct, frozen=True):
    """The few columns of a job that an answer to its enqueue shows."""

    id: str
    tenant_id: str
    kind: str
    queue: str
    status: Status
    queued_at: datetime | None
    scheduled_for: datetime | None


CLAIM_BYTES = 64 * 1_048_576
"""How many bytes of payloads, states and signals one claim brings at most; a larger job comes alone. All of it is in
the worker's memory before the first of its jobs starts. headway.claim_bytes() is its twin on PostgreSQL."""


class Claim(msgspec.Struct, frozen=True):
    """A job that a worker may run now; (id, fence) is what every later write must show."""

    id: str
    tenant_id: str
    kind: str
    queue: str
    payload: str
    fence: int
    tries: int
    losses: int
    max_attempts: int
    max_losses: int
    backoff_base_ms: int
    backoff_cap_ms: int
    timeout_ms: int | None
    delivery: Delivery
    correlation_id: str | None
    trace_id: str | None
    meta: str | None
    followed: bool = False  # others wait for its end: its train, partition, limit or group
    checkpoint: str | None = None  # JSON text of a `Checkpoint`, where it is a machine that has one
    attempt: int = 1  # the number of this execution of its step

    @property
    def trace(self) -> str:
        """The id of its trace: of the one that came with it, or its own."""
        return trace_id(self.trace_id, self.id)

    @property
    def traceparent(self) -> str:
        """What to hand to whatever works for it."""
        return traceparent(self.trace_id, self.id)

    @property
    def size(self) -> int:
        """About how many bytes it was on its way from the database."""
        return len(self.payload) + len(self.checkpoint or "") + len(self.meta or "")


class SettledAndClaimed(msgspec.Struct, frozen=True):
    """What a settle that claims, too, answers."""

    settled: Settled
    claims: list[Claim]


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """How one execution ended: the attempt's status, and where the job goes from here."""

    id: str
    fence: int
    status: AttemptStatus
    to: Status  # succeeded, scheduled, queued, waiting, dead, failed or canceled; running: it goes on with fence + 1
    charge: int = 0  # 1 charges a try
    delay_ms: int = 0  # for scheduled; for failed: the delay of the job that retries it
    result: str | None = None  # JSON text
    error: str | None = None
    exit_code: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    pid: int | None = None
    turn: Turn | None = None  # a machine's
    followed: bool = False  # as in the claim: others wait for its end

    @property
    def has_output(self) -> bool:
        """Whether it has a program's exit code, output or process id."""
        return (
            self.exit_code is not None
            or self.stdout_tail is not None
            or self.stderr_tail is not None
            or self.pid is not None
        )

    @property
    def size(self) -> int:
        """About how many bytes it is on its way to the database."""
        size = (
            len(self.result or "") + len(self.error or "") + len(self.stdout_tail or "") + len(self.stderr_tail or "")
        )
        return size if self.turn is None else size + self.turn.size


class Report(msgspec.Struct, frozen=True):
    """What a running job says of itself; written only while (id, fence) still runs."""

    id: str
    fence: int
    progress: float | None
    note: str | None
    tail: str | None
    tail_end: int = 0  # how many characters were logged in all: the tail are the last of them
    said: int | None = None  # how many of them a worker over HTTP has said; one that said fewer comes too late


class Logged(msgspec.Struct, frozen=True):
    """What a running job has logged."""

    id: str
    fence: int
    tail: str | None
    end: int | None  # how many characters, in all; None: nothing yet
    said: int | None  # as a worker over HTTP counts them


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job as it is stored."""

    id: str
    tenant_id: str
    tenant: str
    kind: str
    queue: str
    status: Status
    priority: int
    position: int | None
    payload: Any
    fence: int
    tries: int
    losses: int
    max_attempts: int
    max_losses: int
    backoff_base_ms: int
    backoff_cap_ms: int
    timeout_ms: int | None
    delivery: Delivery
    idempotency_key: str | None
    unique_key: str | None
    unique_scope: tuple[Status, ...]
    scheduled_for: datetime | None
    expires_at: datetime | None
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker_id: str | None
    attempt_started_at: datetime | None
    cancel_requested_at: datetime | None
    progress: float | None
    progress_note: str | None
    log_tail: str | None
    result: Any
    error: str | None
    correlation_id: str | None
    trace_id: str | None
    source: Source
    source_ref: str | None
    created_by: str | None
    retry_of: str | None
    meta: Any
    train: str | None
    on_canceled: OnEnd
    on_dead: OnEnd
    partition: str | None
    concurrency: int | None
    concurrency_key: str | None
    rate_count: int | None
    rate_period_ms: int | None
    rate_burst: int | None
    rate_key: str | None
    limited_by: str | None  # while it is queued: the full limit that it waits for, as `limit.py` writes keys
    group_id: str | None
    pending: bool  # while it is held or waiting: it waits for other jobs (`after`, its group, its children)
    version: int | None  # a machine's, as are the following
    step: str | None
    state: Any  # what its last outcome committed; None: none yet, the payload is its state
    awaiting: tuple[str, ...]  # the signals that it waits for, or that woke the step that comes now
    match: Literal["any", "all"]
    deadline_at: datetime | None  # of its await
    joining: int | None
    woken: Literal["signal", "children", "timeout"] | None
    home_queue: str | None
    home_partition: str | None
    forked_from: str | None
    parent_id: str | None  # the machine that spawned it
    log_end: int | None  # how many characters were logged in all: log_tail are the last of them
    template_id: str | None  # the template that it was made from
    template_revision: int | None
    trigger_id: str | None  # the schedule or event trigger that made it
    tags: tuple[str, ...]
    unique_group: str | None  # the kinds that share its unique key

    @property
    def trace(self) -> str:
        """The id of its trace, as log lines have it: of the one that came with it, or its own."""
        return trace_id(self.trace_id, self.id)

    @property
    def etag(self) -> str:
        """Changes whenever the job does, but for its progress, its log and its place in line. For a job that was read
        with `raw=True`: compare only those."""
        seen = [
            value
            for name, value in zip(_JOB_FIELDS, msgspec.structs.astuple(self), strict=True)
            if name not in _VOLATILE
        ]
        return blake2b(msgspec.json.encode(seen), digest_size=12).hexdigest()

    @property
    def cursor(self) -> str:
        """Where a page that ends with it ends, for `after=` of the next one, in any order."""
        return f"{self.id}/{self.priority}/{'' if self.position is None else self.position}"


_JOB_FIELDS = Job.__struct_fields__
_VOLATILE = frozenset({"progress", "progress_note", "log_tail", "log_end", "position", "limited_by"})


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a job: open while it runs, immutable once it ended."""

    job_id: str
    fence: int
    status: AttemptStatus
    started_at: datetime
    finished_at: datetime | None
    worker_id: str | None
    error: str | None
    step: str | None = None
    state: Any = None
    exit_code: int | None = None
    stdout_tail: str | None = None
    stderr_tail: str | None = None
    pid: int | None = None
    version: int | None = None
    outcome: Literal["next", "replay", "await", "spawn", "sleep", "done", "stop", "park"] | None = None
    note: str | None = None  # what the outcome means, for people
    woken: Literal["signal", "children", "timeout"] | None = None  # what had woken the step
    artifacts: tuple[Artifact, ...] = ()  # what it stored


def with_artifacts(attempts: Sequence[Attempt], artifacts: Sequence[Artifact]) -> list[Attempt]:
    """The attempts, each with those of the artifacts that it stored."""
    if not artifacts:
        return list(attempts)
    return [
        msgspec.structs.replace(each, artifacts=tuple(found for found in artifacts if found.fence == each.fence))
        for each in attempts
    ]


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What changes of a job while somebody looks at it."""

    id: str
    status: Status
    fence: int
    tries: int
    losses: int
    queue: str
    priority: int
    scheduled_for: datetime | None
    worker_id: str | None
    cancel_requested_at: datetime | None
    finished_at: datetime | None
    progress: float | None
    progress_note: str | None
    step: str | None
    max_attempts: int
    max_losses: int
    timeout_ms: int | None
    expires_at: datetime | None
    log_end: int | None
    log_tail: str | None  # None if there is nothing new


class Counted(msgspec.Struct, frozen=True):
    """How many jobs of a kind are in a status on one queue."""

    queue: str
    kind: str
    status: Status
    count: int


class Waiter(msgspec.Struct, frozen=True):
    """A job that waits for another one."""

    id: str
    kind: str
    status: Status
    waits: Literal["after", "children", "train"]  # it comes after it (or its group), spawned it, or is behind it


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What `change` sets on a job that is not running; UNSET leaves it as it is."""

    priority: int | msgspec.UnsetType = msgspec.UNSET
    queue: str | msgspec.UnsetType = msgspec.UNSET
    max_attempts: int | msgspec.UnsetType = msgspec.UNSET
    max_losses: int | msgspec.UnsetType = msgspec.UNSET
    timeout_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    scheduled_for: datetime | msgspec.UnsetType | None = msgspec.UNSET  # None: now
    delay_ms: int | msgspec.UnsetType = msgspec.UNSET  # instead of scheduled_for: after the store's now
    expires_at: datetime | msgspec.UnsetType | None = msgspec.UNSET
    payload: str | msgspec.UnsetType = msgspec.UNSET  # only while the job never ran
    meta: str | msgspec.UnsetType | None = msgspec.UNSET  # JSON text; this and the tags also once it is over
    tags: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Outcome(msgspec.Struct, frozen=True):
    """What `result()` gives: the job's end, or where it is now."""

    status: Status
    value: Any = None
    error: str | None = None

    def unwrap(self) -> Any:
        """What the job returned; raises `JobFailed` with its error if it ended otherwise, `NotFinished` before."""
        if self.status == "succeeded":
            return self.value
        if self.status in UNFINISHED:
            raise NotFinished(f"the job is {self.status}, not over yet: wait longer, app.result(id, timeout=…)")
        error = self.error or "no reason given"
        raise JobFailed(f"the job ended {self.status}: {error}", status=self.status, error=self.error)


class AuditEntry(msgspec.Struct, frozen=True):
    """One thing that a person or program did to a job, a queue or a setting."""

    at: datetime
    actor: str | None
    action: str
    detail: str | None
    id: int = 0  # its number: a later entry has a higher one
    job_id: str | None = None
    tenant_id: str | None = None
    request_id: str | None = None  # of a change over HTTP
    address: str | None = None
    actor_name: str | None = None  # of a key, its name; of a PostgreSQL login of one tenant, who it says it is
    changes: dict[str, Any] | None = None  # the old and the new value of each field that changed, by its name
    seal: int | None = None  # the link of the chain that covers it; None: not sealed yet
    hash: str | None = None  # of the sealed entry, in hexadecimal
    erased_at: datetime | None = None  # since then only the hash tells what it said
