"""The options of kinds and of single jobs: defaults, what each accepts, and how they are laid over each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from headway.define import checks, enqueuer_may, uniqueness
from headway.define.keys import KEYS, Source
from headway.define.schema import Schema
from headway.errors import InvalidJob
from headway.model import tags
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.job import Delivery, NewJob, OnConflict, OnEnd, OnFailure, Replaceable
from headway.model.job import Source as Origin
from headway.model.retention import ages_of
from headway.model.retry import Backoff
from headway.model.status import UNFINISHED, Status


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Checked options: what a job's row carries, and what only a process with the kind's code needs."""

    # of the row, named as on NewJob
    tenant: str | None = None
    tenant_id: str = DEFAULT_TENANT_ID
    queue: str = "default"
    priority: int = 100
    delay_ms: int | None = None
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
    unique_group: str | None = None
    unique_for_ms: int | None = None
    on_conflict: OnConflict = "return"
    replace: tuple[Replaceable, ...] = ()
    debounce_max_ms: int | None = None
    correlation_id: str | None = None
    trace_id: str | None = None
    source: Origin = "manual"
    source_ref: str | None = None
    created_by: str | None = None
    meta: str | None = None  # JSON text
    tags: tuple[str, ...] = ()
    train: str | None = None
    on_canceled: OnEnd = "advance"
    on_dead: OnEnd = "advance"
    partition: str | None = None
    concurrency: int | None = None
    concurrency_key: str | None = None
    rate_count: int | None = None
    rate_period_ms: int | None = None
    rate_burst: int | None = None
    rate_key: str | None = None
    group_id: str | None = None
    after: tuple[str, ...] = ()
    on_failure: OnFailure = "stop"

    # of the process
    train_by: Source | None = None  # makes the key from each job's arguments
    partition_by: Source | None = None
    concurrency_key_by: Source | None = None
    rate_key_by: Source | None = None
    unique_key_by: Source | None = None
    unique_by: tuple[str, ...] = ()  # the arguments whose digest is the unique key
    debounce_ms: int | None = None  # the row has it as its delay
    backoff: Backoff | None = None  # only if it is a function; the row then has the default, which losses use
    retry_on: tuple[type[Exception], ...] | None = None  # None: all
    discard_on: tuple[type[Exception], ...] = ()
    schema: Schema | None = None
    batch: int | None = None  # how many calls its function takes at once; None: one call, as its arguments
    batch_wait_ms: int | None = None
    tenants: tuple[str, ...] | None = None  # whose jobs may be of it, by name or id; None: every tenant's
    enqueuer_may: Mapping[str, Any] = msgspec.field(default_factory=dict)  # bounds, as model/restricted.py reads them
    retention: Mapping[str, int] = msgspec.field(default_factory=dict)  # milliseconds by status; the definition has it
    spill: bool = False  # a payload or result over the limit becomes an artifact
    conn: Any = None
    own_losses: bool = False  # max_losses was given, so it does not follow max_attempts
    own_scope: bool = False

    def retries(self, error: BaseException) -> bool:
        """Whether `retry_on` and `discard_on` allow another attempt after this error."""
        if isinstance(error, self.discard_on):
            return False
        return self.retry_on is None or isinstance(error, self.retry_on)

    @property
    def made_keys(self) -> dict[str, Source]:
        """The options whose keys are made from each job's arguments."""
        sources = {option: getattr(self, f"{option}_by") for option in (*KEYS, "unique_key")}
        return {option: source for option, source in sources.items() if source is not None}

    def row(self, kind: str) -> NewJob:
        """A job with these options, still without id and payload."""
        return NewJob(id="", kind=kind, **{name: getattr(self, name) for name in _ROW})

    def merged(self, given: Mapping[str, Any]) -> Options:
        """These options, overridden by those of `using()`; raises `InvalidJob`."""
        return _replaced(self, self._changes(given))

    def merged_with(self, row: NewJob, given: Mapping[str, Any]) -> tuple[Options, NewJob]:
        """The same with its row, made from this row: most of it stays as it is."""
        changes = self._changes(given)
        merged = _replaced(self, changes)
        return merged, msgspec.structs.replace(row, **{name: to for name, to in changes.items() if name in _ROW})

    def _changes(self, given: Mapping[str, Any]) -> dict[str, Any]:
        changes = _checked(given, _USING, "using()")
        if given.get("tags") is not None:
            changes["tags"] = tags.merged(self.tags, changes["tags"])
        if _LINKED.isdisjoint(changes):
            return changes
        if "backoff" in changes:
            raise InvalidJob(
                f"backoff={given['backoff']!r} is a function, which a job's row cannot carry: "
                "give it to the kind, @app.job(backoff=…), or give (base, cap) here"
            )
        if self.backoff is not None and "backoff_base_ms" in changes:
            raise InvalidJob(
                f"backoff={given['backoff']!r} would never be used: the kind computes its backoff by a function"
            )
        # the key means nothing without its limit
        if changes.get("concurrency", self) is None:
            changes = {"concurrency_key": None, "concurrency_key_by": None} | changes
        if changes.get("rate_count", self) is None:
            changes = {"rate_burst": None, "rate_key": None, "rate_key_by": None} | changes
        if changes.get("after", self) == ():
            changes = {"on_failure": "stop"} | changes
        # a later using() overrides the time of an earlier one
        if changes.get("delay_ms") is not None:
            changes["scheduled_for"] = None
        elif changes.get("scheduled_for") is not None:
            changes["delay_ms"] = None
        if self.debounce_ms is not None and not {"delay", "scheduled_for"}.isdisjoint(given):
            changes |= {"debounce_ms": None, "debounce_max_ms": None}
        if "debounce_ms" in changes and "on_conflict" not in given and self.on_conflict == "replace_or_follow":
            changes.pop("on_conflict", None)
        return changes


def kind_options(given: Mapping[str, Any], where: str = "@job") -> Options:
    """The options of `@app.job(...)`, checked; raises `InvalidJob`. They do not include the name."""
    return _replaced(Options(), _checked(given, _KIND, where))


def overlaid(base: Options, own: Options, given: Collection[str]) -> Options:
    """The base, overridden by those options of `own` that were given, by their names in KindOptions."""
    fields = {field for option in given for field in _FIELDS_OF.get(option, (option,))}
    if "max_attempts" in given:
        fields.add("max_losses")
    return msgspec.structs.replace(base, **{field: getattr(own, field) for field in fields})


def new_job(kind: str, payload: str, options: Mapping[str, Any], *, now: int, default: Options | None = None) -> NewJob:
    """A job of a kind that may be unknown here, from JSON text and the options that `using()` takes.

    `now` is in microseconds; `default` are the options that the given ones override.
    """
    default = default or _DEFAULT
    return job_builder((default, default.row(checks.name(kind, "kind"))), options, now=now)(payload)


def job_builder(
    base: tuple[Options, NewJob],
    options: Mapping[str, Any],
    *,
    now: int,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[str], NewJob]:
    """Makes jobs from payloads, of a kind whose options, and the row of a job with just these, are known: the given
    ones win. They are checked once for all of its jobs. `defaults` are those of its parameters, for its keys."""
    merged, row = base
    if options:  # most enqueues give none
        merged, row = merged.merged_with(row, options)
    uniqueness.check_conflict(merged)
    checks.expiry(merged.expires_at, merged.scheduled_for, merged.delay_ms, now)
    row = msgspec.structs.replace(row, max_losses=merged.max_losses, unique_key=merged.unique_key)
    keys_of = uniqueness.keys_of_payload(merged, row.kind, defaults)

    def build(payload: str) -> NewJob:
        return msgspec.structs.replace(row, id=new_id(), payload=payload, **keys_of(payload))

    return build


def laid_over(job: NewJob, given: Mapping[str, Any], *, now: int) -> NewJob:
    """The job with these options of `using()` over its own; raises `InvalidJob`. `now` is in microseconds."""
    own = {name: getattr(job, name) for name in _ROW}
    base = Options(
        **own,
        own_losses=job.max_losses != job.max_attempts,
        own_scope=job.unique_key is not None and job.unique_scope != UNFINISHED,
    )
    merged, row = base.merged_with(job, given)
    uniqueness.check_conflict(merged)
    checks.expiry(merged.expires_at, merged.scheduled_for, merged.delay_ms, now)
    return msgspec.structs.replace(row, max_losses=merged.max_losses)


def check_stored_options(given: Mapping[str, Any]) -> None:
    """Raises `InvalidJob` for options that a template or trigger cannot carry; placeholders are checked later."""
    for option, value in given.items():
        if option not in _STORED:
            if option in _USING:
                raise InvalidJob(f"a template or trigger cannot carry option {option}: it belongs to one enqueue alone")
            raise InvalidJob(checks.unknown_option(option, sorted(_STORED), "a template or trigger"))
        if option == "tags" and isinstance(value, list | tuple):
            value = [each for each in value if not has_placeholder(each)]
        if not has_placeholder(value):
            _USING[option](value, option)


def has_placeholder(value: object) -> bool:
    return isinstance(value, str) and "{{" in value


def stored_options(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a template, overridden by those of its trigger or call; tags are added, unless they are None."""
    found = {**base, **over}
    if base.get("tags") is not None and over.get("tags") is not None:
        found["tags"] = [*_listed(base["tags"]), *_listed(over["tags"])]
    return found


def _listed(given: Any) -> Collection[Any]:
    return (given,) if isinstance(given, str) else given


def _checked(given: Mapping[str, Any], known: Mapping[str, checks.Check], where: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for option, value in given.items():
        check = known.get(option)
        if check is None:
            raise InvalidJob(checks.unknown_option(option, list(known), where, elsewhere=_KIND))
        changes |= check(value, option)
    if changes.get("delay_ms") is not None and changes.get("scheduled_for") is not None:
        raise InvalidJob(
            f"delay={given['delay']} and scheduled_for={given['scheduled_for']} exclude each other: give one"
        )
    if given.get("unique_key") is not None and given.get("unique_by") is not None:
        raise InvalidJob(
            f"unique_key={given['unique_key']!r} and unique_by={given['unique_by']!r} exclude each other: give one"
        )
    uniqueness.spread_debounce(changes, given)
    return changes


def _replaced(options: Options, changes: dict[str, Any]) -> Options:
    if "max_attempts" in changes and not (options.own_losses or "max_losses" in changes):
        changes["max_losses"] = changes["max_attempts"]
    options = msgspec.structs.replace(options, **changes)
    if options.batch is not None or options.batch_wait_ms is not None:
        _check_batch(options)
    if _JUDGED_TOGETHER.isdisjoint(changes):
        return options  # the others were checked before
    uniqueness.judge(options)
    if options.expires_at is not None:
        checks.expiry(options.expires_at, options.scheduled_for, None, None)
    checks.error_classes_apart(options.retry_on, options.discard_on)
    _check_limits(options)
    return options


def _check_limits(options: Options) -> None:
    if options.concurrency is None and (options.concurrency_key or options.concurrency_key_by) is not None:
        raise InvalidJob(
            "concurrency_key means nothing without concurrency: say how many of a key may run at once, concurrency=3"
        )
    if options.rate_count is None:
        if (options.rate_key or options.rate_key_by) is not None:
            raise InvalidJob("rate_key means nothing without rate: say how many of a key may start, rate='100/min'")
        if options.rate_burst is not None:
            raise InvalidJob(
                f"burst={options.rate_burst} means nothing without rate: say how many may start, rate='100/min'"
            )
    if options.on_failure != "stop" and not options.after:
        raise InvalidJob(f"on_failure={options.on_failure!r} means nothing without after: say which jobs it waits for")


def _check_batch(options: Options) -> None:
    if options.batch is None:
        raise InvalidJob("batch_wait means nothing without batch: say how many calls may run together, batch=100")
    for option, what in _NOT_IN_A_BATCH.items():
        if getattr(options, option) is not None or getattr(options, f"{option}_by") is not None:
            raise InvalidJob(f"{option} cannot go with batch: {what}, and the calls of a batch run together")
    if options.delivery == "at_most_once":
        raise InvalidJob(
            "delivery='at_most_once' cannot go with batch: a call that waits for its batch has started, and would fail "
            "unrun when its worker stops"
        )


_NOT_IN_A_BATCH = {
    "train": "the jobs of a train run one after another",
    "partition": "the jobs of a partition run one after another",
    "concurrency_key": "it limits how many jobs of a key run at once",
}
_BOTH: dict[str, checks.Check] = {
    "queue": lambda value, option: {"queue": checks.name(value, option)},
    "max_attempts": lambda value, option: {"max_attempts": checks.integer(value, option, 1, 32_767)},
    "max_losses": lambda value, option: {
        "max_losses": checks.integer(value, option, 1, 32_767),
        "own_losses": True,
    },
    "backoff": checks.backoff,
    "timeout": checks.timeout,
    "priority": lambda value, option: {"priority": checks.integer(value, option, -32_768, 32_767)},
    "delivery": checks.one_of(Delivery),
    "concurrency": checks.concurrency,
    "rate": checks.rate,
    "burst": checks.burst,
    "on_canceled": checks.one_of(OnEnd),
    "on_dead": checks.one_of(OnEnd),
    "tags": checks.tags,
    "unique_by": uniqueness.unique_by,
    "unique_scope": uniqueness.unique_scope,
    "unique_group": uniqueness.unique_group,
    "unique_for": uniqueness.positive,
    "on_conflict": checks.one_of(OnConflict),
    "replace": uniqueness.replace,
    "debounce": uniqueness.positive,
    "debounce_max": uniqueness.positive,
}
_KIND: dict[str, checks.Check] = {
    "name": lambda _value, _option: {},  # `Kind` reads it, and the aliases
    "aliases": lambda _value, _option: {},
    **_BOTH,
    **dict.fromkeys(KEYS, checks.key_of),
    "unique_key": uniqueness.unique_key_of,
    "retry_on": checks.error_classes,
    "discard_on": checks.error_classes,
    "schema": lambda value, _option: {"schema": Schema(value)},
    "batch": lambda value, option: {option: checks.integer(value, option, 1, 10_000)},
    "batch_wait": checks.batch_wait,
    "retention": lambda value, option: {option: ages_of(value, option)},
    "tenants": lambda value, option: {option: checks.tenants(value, option)},
    "enqueuer_may": lambda value, option: {option: enqueuer_may.bounds(value, option)},
    "spill": checks.switch,
}
_USING: dict[str, checks.Check] = {
    **_BOTH,
    **dict.fromkeys(KEYS, checks.key),
    "group": checks.group,
    "after": checks.after,
    "on_failure": checks.one_of(OnFailure),
    "tenant": checks.tenant,
    "delay": checks.delay,
    "scheduled_for": checks.moment,
    "expires_at": checks.moment,
    "idempotency_key": checks.text,
    "unique_key": uniqueness.unique_key,
    "meta": checks.meta,
    "correlation_id": checks.text,
    "trace_id": checks.text,
    "source": checks.one_of(Origin),
    "source_ref": checks.text,
    "created_by": checks.text,
    "conn": lambda value, _option: {"conn": value},
}
_STORED = frozenset({*_BOTH, *KEYS, "delay", "idempotency_key", "unique_key", "meta"}) | {
    "correlation_id",
    "trace_id",
}
_FIELDS_OF = {
    "partition": ("partition", "partition_by"),
    "timeout": ("timeout_ms",),
    "backoff": ("backoff", "backoff_base_ms", "backoff_cap_ms"),
}
# a change of one of these may require another to change, or conflict with it
_LINKED = frozenset(
    {
        *("backoff", "backoff_base_ms", "concurrency", "rate_count", "after", "delay_ms", "scheduled_for"),
        "debounce_ms",
    }
)
_JUDGED_TOGETHER = frozenset(
    {
        *("own_scope", "unique_scope", "unique_key", "expires_at", "scheduled_for", "retry_on", "discard_on"),
        *("on_conflict", "replace", "debounce_ms", "debounce_max_ms", "unique_for_ms"),
        *(
            "concurrency",
            "concurrency_key",
            "concurrency_key_by",
            "rate_count",
            "rate_burst",
            "rate_key",
            "rate_key_by",
        ),
        *("on_failure", "after"),
    }
)
_ROW = frozenset(NewJob.__struct_fields__) - {
    *("id", "kind", "payload", "checkpoint"),
    *("template_id", "template_revision", "trigger_id"),
}
_DEFAULT = Options()
