"""What an enqueue does about keys that are taken: it answers with the job that has the key, replaces that one, or
lines up its successor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from headway.clock import to_micros
from headway.model import refusals
from headway.model.departure import Departure
from headway.model.job import Enqueued, NewJob
from headway.model.replacing import LIMITS, columns_of, is_replaceable, successor_scope
from headway.model.status import FINISHED, Status
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.jobs.insert import names_text, present, renew_tags, starts_at
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs
from headway.store.sqlite.order.limit_waiters import guard_queues_of

_SQL = statements("jobs/taken_keys")
_encode = msgspec.json.Encoder().encode

Insert = Callable[[Mapping[int, NewJob]], Steps[list[Enqueued]]]  # by their index in the call
Key = tuple[str, str, str]
# as `by_unique_key` reads them and `replace` writes them
_COLUMNS = (
    *("payload", "version", "step", "state", "scheduled_for", "priority", "queue", "home_queue", "expires_at"),
    *("max_attempts", "max_losses", "backoff_base_ms", "backoff_cap_ms", "timeout_ms", "meta", "tags"),
    *("partition", "home_partition", "concurrency", "concurrency_key"),
    *("rate_count", "rate_period_ms", "rate_burst", "rate_key"),
)


class _Holder(msgspec.Struct):
    """A job that has a unique key, or is in line for it, and the values that it gets."""

    rowid: int
    id: str
    status: Status
    fence: int
    continues: int  # it retries another job, or was forked
    follows: int  # it is in line for the key
    position: int | None
    created_at: int
    replacement_id: str | None
    values: dict[str, Any]
    to: Status
    replaced: bool = False
    moves: bool = False  # to another queue, or under other limits
    tags: str | None = None  # as they were

    def can_be_replaced(self) -> bool:
        return is_replaceable(self.status, self.fence, continues=bool(self.continues))

    def replace(self, job: NewJob, now: int) -> Enqueued:
        """Take the values of this job, unless it has them already; the answer."""
        if self.replacement_id == job.id:
            return Enqueued(self.id, self.to, False, True)
        new = _stored(job, now, self.created_at)
        changes = {name: new[name] for name in columns_of(job.replace) if new[name] != self.values[name]}
        self.values |= changes
        self.moves = self.moves or not LIMITS.isdisjoint(changes)
        self.replaced = True
        self.replacement_id = job.id
        if self.status != "held" and (not job.replace or "scheduled_for" in job.replace):
            due = self.values["scheduled_for"]
            self.to = "scheduled" if due is not None and due > now else "queued"
        return Enqueued(self.id, self.to, False, True)


def replace_successors(jobs: Sequence[NewJob], now: int) -> Steps[dict[int, Enqueued]]:
    """Before the insert: replace those that are in line for the keys of these jobs: they run last. Gives what is
    answered then, by the job's index in the call."""
    asked = {n: job for n, job in enumerate(jobs) if job.replaces}
    _, successors = yield from _look_up(asked)
    if not successors:
        return {}
    stored = yield from present([job.id for job in asked.values()])
    known = {job_id for job_id, _ in stored}
    met = {n: job for n, job in asked.items() if job.id not in known}
    repeats = yield from by_idempotency_key(met)
    given: dict[int, Enqueued] = {}
    for n, job in met.items():
        key = key_of(job)
        if n not in repeats and key is not None and key in successors:
            given[n] = successors[key].replace(job, now)
    yield from _write([each for each in successors.values() if each.replaced], now)
    return given


def answers(
    jobs: Sequence[NewJob], new: int, now: int, insert: Insert, given: dict[int, Enqueued]
) -> Steps[list[Enqueued]]:
    """Each job's answer: itself if it is new, else the existing job that it met. The last `new` rows are new; `insert`
    adds successors; `given` are the answers that are known already."""
    found = yield from present([job.id for job in jobs])
    made = {job_id for (job_id,) in (yield Statement(_SQL["newest"], (new,)))} if new else set()
    given = dict(given)
    met: dict[int, NewJob] = {}
    for n, job in enumerate(jobs):
        if n in given:
            continue
        status = found.get((job.id, job.tenant_id))
        if status is not None:
            given[n] = Enqueued(job.id, status, job.id in made)
            made.discard(job.id)  # if an id comes twice, the first one is new
        else:
            met[n] = job
    if met:
        given |= yield from by_idempotency_key(met)
    while met := {n: job for n, job in met.items() if n not in given}:
        some, successors = yield from _by_unique_key(met, now)
        given |= some
        if successors:
            given |= zip(successors, (yield from insert(successors)), strict=True)
    return [given[n] for n in range(len(jobs))]


def by_idempotency_key(met: dict[int, NewJob]) -> Steps[dict[int, Enqueued]]:
    """Those that were enqueued before with the same idempotency key: the job of that, by its index in the call."""
    asked = {n: (job.tenant_id, job.kind, job.idempotency_key) for n, job in met.items() if job.idempotency_key}
    if not asked:
        return {}
    rows = yield Statement(_SQL["by_idempotency_key"], (_encode(list(asked.values())).decode(),))
    found = {index: Enqueued(job_id, status, False) for index, job_id, status in rows}
    return {n: found[index] for index, n in enumerate(asked) if index in found}


def _by_unique_key(met: dict[int, NewJob], now: int) -> Steps[tuple[dict[int, Enqueued], dict[int, NewJob]]]:
    """Answer those that met the holder of their key, in call order; the others are successors to be inserted. A further
    one with the same key has no answer yet: it meets the successor in the next round."""
    holders, successors = yield from _look_up(met)
    given: dict[int, Enqueued] = {}
    following: dict[int, NewJob] = {}
    lined_up: set[Key] = set()
    for n, job in met.items():
        key = key_of(job)
        holder = holders.get(key) if key is not None else None
        if key is None or holder is None:
            raise refusals.id_taken("job", job.id)
        if job.on_conflict == "raise":
            raise refusals.unique_key_taken(key[2], job.kind, holder.id, holder.status)
        successor = successors.get(key)
        if not job.replaces:
            given[n] = Enqueued(holder.id, holder.to, False)
        elif successor is not None:
            given[n] = successor.replace(job, now)
        elif holder.replacement_id == job.id or holder.can_be_replaced():
            given[n] = holder.replace(job, now)
        elif job.on_conflict == "replace" or holder.status in FINISHED:
            given[n] = Enqueued(holder.id, holder.status, False)
        elif key not in lined_up:
            lined_up.add(key)
            following[n] = msgspec.structs.replace(
                job, after=(holder.id,), on_failure="continue", unique_scope=successor_scope(job.unique_scope)
            )
    yield from _write([each for each in (*holders.values(), *successors.values()) if each.replaced], now)
    return given, following


def _look_up(met: dict[int, NewJob]) -> Steps[tuple[dict[Key, _Holder], dict[Key, _Holder]]]:
    """Who holds these jobs' unique keys, and who is in line for them."""
    keys = list({key: None for job in met.values() if (key := key_of(job)) is not None})
    holders: dict[Key, _Holder] = {}
    successors: dict[Key, _Holder] = {}
    for index, *row in (yield Statement(_SQL["by_unique_key"], (_encode(keys).decode(),))) if keys else ():
        rowid, job_id, status, fence, continues, follows, position, created_at, replacement_id, *values = row
        columns = dict(zip(_COLUMNS, values, strict=True))
        found = _Holder(
            rowid,
            job_id,
            status,
            fence,
            continues,
            follows,
            position,
            created_at,
            replacement_id,
            columns,
            status,
            tags=columns["tags"],
        )
        (successors if found.follows else holders)[keys[index]] = found
    return holders, successors


def key_of(job: NewJob) -> Key | None:
    """The tenant, who shares the key, and the unique key."""
    return None if job.unique_key is None else (job.tenant_id, job.unique_group or job.kind, job.unique_key)


def _write(replaced: Sequence[_Holder], now: int) -> Steps[None]:
    if not replaced:
        return
    leaving = yield from leaving_jobs(each.rowid for each in replaced)
    unplaced = [each for each in replaced if each.to == "queued" and each.position is None]
    for each, position in zip(unplaced, (yield from positions(len(unplaced))), strict=True):
        each.position = position
    yield Batch(
        _SQL["replace"],
        [
            (each.rowid, each.to, each.position, now, each.replacement_id, each.moves, *each.values.values())
            for each in replaced
        ],
    )
    for each in replaced:
        if each.values["tags"] != each.tags:
            yield from renew_tags(each.id, each.tags)
    yield guard_queues_of([each.rowid for each in replaced])
    left = [each for each in replaced if each.status == "queued" and (each.to != "queued" or each.moves)]
    if left:
        yield from follow([Departure(leaving[each.rowid], each.to) for each in left], now=now)


def _stored(job: NewJob, now: int, created_at: int) -> dict[str, Any]:
    """What the job's row would have, by column."""
    due = starts_at(job, now)
    if due is not None and job.debounce_max_ms is not None:
        due = min(due, created_at + job.debounce_max_ms * 1000)
    values = {name: getattr(job, name, None) for name in _COLUMNS}
    values |= {
        "tags": names_text(job.tags),
        "scheduled_for": due,
        "expires_at": None if job.expires_at is None else to_micros(job.expires_at),
    }
    if job.checkpoint is not None:
        values |= {
            "version": job.checkpoint.version,
            "step": job.checkpoint.step,
            "state": bytes(job.checkpoint.state).decode() or None,
            "home_queue": job.checkpoint.home_queue,
            "home_partition": job.checkpoint.home_partition,
        }
    return values
