"""The end of an execution, which settle, release and reap share: where the job goes, and the writes of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headway.model.departure import Departure, LeavingJob
from headway.model.ids import new_id
from headway.model.machine import Turn, Woken
from headway.model.reasons import superseded
from headway.model.retry import destination
from headway.model.status import FINISHED, AttemptStatus, Status, covers, enters
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.artifacts import copy_payloads
from headway.store.sqlite.jobs.insert import index_tags
from headway.store.sqlite.jobs.unique import holder_of_key
from headway.store.sqlite.machines.inbox import move_inboxes
from headway.store.sqlite.machines.turns import change_queues, requeue_last, write_turns
from headway.store.sqlite.order.group_members import inherit_callbacks
from headway.store.sqlite.order.joins import inherit_edges
from headway.store.sqlite.order.leaving_jobs import Ends, leaving_jobs
from headway.store.sqlite.stats.deltas import count_canceled, count_copies, count_endings
from headway.store.sqlite.stats.errors import note_errors

_SQL = statements("jobs/ending")
_BY_ITS_TRAIN = 2


class Running(msgspec.Struct, frozen=True, array_like=True):
    """A running job as `running` reads it."""

    rowid: int
    id: str
    fence: int
    worker_id: str | None
    started_at: int
    log_tail: str | None
    canceling: int
    cancel_reason: str | None
    unique_key: str | None
    unique_scope: str
    counted_as: str  # its tenant, queue and kind, separated by spaces
    queued_at: int | None
    followed: int  # others may wait for its end; 2: only the next car of its train does
    machine: int  # it has a step, or signals
    announced: int  # a trigger listens to how jobs end

    def covers(self, status: Status) -> bool:
        return covers(self.unique_scope, status)


class Ending(msgspec.Struct, kw_only=True):
    """Where one running job goes from here, and what it is charged."""

    job: Running
    to: Status
    status: AttemptStatus  # of the execution
    charge: int = 0
    loss: int = 0
    delay_ms: int = 0
    result: str | None = None
    error: str | None = None
    drops_key: bool = False
    heir: str | None = None  # the job that retries it
    heir_ended: bool = False  # because its unique key is taken
    turn: Turn | None = None  # a machine's
    woken: Woken | None = None  # what it awaits is there already
    position: int | None = None  # a new one

    @property
    def retried(self) -> bool:
        """Whether a new job retries it, as for at_most_once; a machine that returned Stop has failed for good."""
        return self.to == "failed" and (self.turn is None or self.turn.outcome != "stop")


def ending(job: Running, to: Status, status: AttemptStatus, **values: Any) -> Ending:
    """An ending that respects a requested cancel; without a delay, the job is queued at once."""
    end = Ending(job=job, to=to, status=status, **values)
    end.to = destination(to, canceling=bool(job.canceling), retried=end.retried, delay_ms=end.delay_ms)
    if job.canceling and end.to in ("canceled", "failed"):
        end.error = job.cancel_reason if end.error is None else end.error
    if job.canceling and end.to == "canceled":
        forget_spawn(end)
    return end


def read_running(ids: Sequence[str]) -> Steps[dict[str, Running]]:
    """Those of these jobs that are running, by id."""
    rows = yield Statement(_SQL["running"], (json_list(ids),))
    return {row[1]: Running(*row) for row in rows}


def forget_spawn(end: Ending) -> None:
    """Undo the turn of a machine that ends before its children exist: if it is retried, it runs that step again."""
    if end.turn is not None and end.turn.outcome == "spawn":
        end.turn = None


def write_attempts(attempts: Sequence[tuple[Any, ...]]) -> Batch:
    return Batch(_SQL["attempt"], attempts)


def write_attempts_alike(rowids: Sequence[int], status: AttemptStatus, now: int) -> Statement:
    """Writes the attempts of jobs that ended in this status without an error, output or exit code."""
    return Statement(_SQL["attempt_alike"], (json_list(rowids), status, now))


def write_endings(endings: Sequence[Ending], now: int) -> Steps[Ends | None]:
    """Write the moves: in batches, but those of unique keys one after another, as each may take the next one's.

    Gives what is left for `follow_ends`, if anything."""
    finish: list[tuple[Any, ...]] = []
    again: list[tuple[Any, ...]] = []
    keyed: list[Ending] = []
    turned: list[Ending] = []
    copies: list[Ending] = []
    alike: dict[tuple[Status, int], list[int]] = {}
    locomotives: list[int] = []
    followed: list[Ending] = []
    for end in endings:
        if end.job.followed == _BY_ITS_TRAIN and end.to == "succeeded":
            locomotives.append(end.job.rowid)
        elif end.job.followed:
            followed.append(end)
    leaving = (yield from leaving_jobs(end.job.rowid for end in followed)) if followed else {}
    for end in endings:
        if end.job.unique_key is not None and _asks_for_key(end):
            keyed.append(end)
            continue
        if end.turn is not None:
            turned.append(end)
        elif end.to in FINISHED:
            if end.result is None and end.error is None and not end.loss:
                alike.setdefault((end.to, end.charge), []).append(end.job.rowid)
            else:
                finish.append(_finish(end, now))
        else:
            again.append(_again(end, now))
        if end.retried:
            copies.append(end)
    machines = [end for end in endings if end.turn is not None or end.job.machine]
    if machines:
        yield from requeue_last(machines, leaving)
        yield from write_turns(turned, now)
    for (to, charge), rowids in alike.items():
        yield Statement(_SQL["finish_alike"], (json_list(rowids), to, now, charge))
    yield from _batches(finish=finish, again=again, copy=[_copy(end, now) for end in copies])
    for end in keyed:
        yield from _write_keyed(end, now)
    if machines:
        yield from change_queues(machines)
    heirs = {end.job.id: end.heir for end in endings if end.heir is not None}
    if heirs:
        yield from _hand_over(heirs)
        yield from copy_payloads(heirs, now)
        yield index_tags(list(heirs.values()))
    if endings:
        counts, bad = count_endings(endings, now)
        yield counts
        if bad:
            yield note_errors(bad, now)
    if not (locomotives or followed or (endings and endings[0].job.announced)):
        return None
    departures = [each for end in followed if end.to != "running" for each in _departures(end, leaving[end.job.rowid])]
    over = list(_over(endings)) if endings[0].job.announced else []
    return Ends(departures, locomotives, over)


def write_releases(jobs: Sequence[Running], delay_ms: int, now: int) -> Steps[Ends]:
    """Put back executions that never started: no attempt, no charge. Gives what is left for `follow_ends`."""
    followed = [job.rowid for job in jobs if job.followed]
    leaving = (yield from leaving_jobs(followed)) if followed else {}
    departures: list[Departure] = []
    over: list[str] = []
    for job in jobs:
        end = ending(job, "scheduled", "released", delay_ms=delay_ms)
        if end.to != "canceled" and _asks_for_key(end):
            yield from _supersede(end)
        if end.to == "canceled":
            if job.canceling:
                yield Statement(_SQL["unstart"], (job.rowid,))
            yield Statement(_SQL["finish"], _finish(end, now))
            yield count_canceled([job.rowid], now)
        else:
            yield Statement(_SQL["release"], _again(end, now)[:4])
        if job.followed:
            departures += _departures(end, leaving[job.rowid])
        if job.announced and end.to in FINISHED:
            over.append(job.id)
    return Ends(departures, [], over)


def write_fresh_copy(
    rowid: int,
    retry_of: str,
    now: int,
    key: str | None,
    status: Status,
    *,
    pending: bool,
    position: int,
    sleeps_until: int | None,
) -> Steps[str]:
    """Insert the new job that retries an at_most_once one, with a full budget; gives its id."""
    job_id = new_id()
    start = now if sleeps_until is None else sleeps_until
    yield Statement(_SQL["copy"], (rowid, job_id, now, start, True, None, key, status, pending, position))
    yield from copy_payloads({retry_of: job_id}, now)
    yield count_copies([rowid], now)
    yield index_tags([job_id])
    return job_id


def _hand_over(heirs: Mapping[str, str]) -> Steps[None]:
    """Move signals, edges and the group's callback from a job to the new job that retries it."""
    yield from move_inboxes(heirs)
    yield inherit_edges(heirs)
    yield inherit_callbacks(heirs)


def _departures(end: Ending, job: LeavingJob) -> Iterator[Departure]:
    yield Departure(job, end.to, end.heir)
    if end.heir is not None and end.heir_ended:
        # its retry was canceled at once, so the train moves on
        yield Departure(msgspec.structs.replace(job, id=end.heir, status="scheduled"), "canceled")


def _over(endings: Sequence[Ending]) -> Iterator[str]:
    """The ids of the jobs that are over."""
    for end in endings:
        if end.to in FINISHED:
            yield end.job.id
        if end.heir is not None and end.heir_ended:
            yield end.heir


def _asks_for_key(end: Ending) -> bool:
    """Whether the move may conflict with another job's key: it enters the unique scope, or passes the key on."""
    job = end.job
    return job.unique_key is not None and (end.retried or enters(job.unique_scope, "running", end.to))


def _write_keyed(end: Ending, now: int) -> Steps[None]:
    if end.retried:
        yield from _fail_keyed(end, now)
        return
    yield from _supersede(end)
    if end.turn is not None:
        yield from write_turns([end], now)
    elif end.to in FINISHED:
        yield Statement(_SQL["finish"], _finish(end, now))
    else:
        yield Statement(_SQL["again"], _again(end, now))


def _supersede(end: Ending) -> Steps[None]:
    """Drop the key if another job has it: a finished job stays as it ended, one that would run again is canceled."""
    holder = yield from holder_of_key(end.job.rowid)
    if holder is None:
        return
    end.drops_key = True
    if end.to not in FINISHED:
        end.to = "canceled"
        end.error = superseded(end.job.unique_key, holder)
        forget_spawn(end)


def _fail_keyed(end: Ending, now: int) -> Steps[None]:
    """Fail a job; the new job that retries it inherits its key, unless another job has taken it."""
    job = end.job
    holder = yield from holder_of_key(job.rowid)
    end.drops_key = job.covers("failed")
    if end.turn is not None:
        yield from write_turns([end], now)
    else:
        yield Statement(_SQL["finish"], _finish(end, now))
    wanted = job.covers("scheduled" if end.delay_ms > 0 else "queued")
    error = superseded(job.unique_key, holder) if holder is not None and wanted else None
    end.heir_ended = error is not None
    yield Statement(_SQL["copy"], _copy(end, now, error))


def _finish(end: Ending, now: int) -> tuple[Any, ...]:
    return (end.job.rowid, end.to, now, end.charge, end.loss, end.result, end.error, end.drops_key)


def _again(end: Ending, now: int) -> tuple[Any, ...]:
    later = end.to == "scheduled"
    return (
        end.job.rowid,
        end.to,
        now + end.delay_ms * 1000 if later else None,
        None if later else now,
        end.charge,
        end.loss,
        end.error,
    )


def _copy(end: Ending, now: int, error: str | None = None) -> tuple[Any, ...]:
    scheduled_for = now + max(0, end.delay_ms) * 1000
    end.heir = new_id()
    status = "canceled" if error is not None else "scheduled" if scheduled_for > now else "queued"
    return (end.job.rowid, end.heir, now, scheduled_for, False, error, end.job.unique_key, status, False, None)


def _batches(**rows: list[tuple[Any, ...]]) -> Steps[None]:
    for name, batch in rows.items():
        if batch:
            yield Batch(_SQL[name], batch)
