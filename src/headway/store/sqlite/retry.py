"""Retry: finished jobs run again with a full budget, in their old place."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.errors import Duplicate
from headway.model.status import Status
from headway.store.ops import Op, Statement, Steps
from headway.store.sqlite.advance import unhold
from headway.store.sqlite.aftermath import follow
from headway.store.sqlite.children import await_again
from headway.store.sqlite.ending import write_fresh_copy
from headway.store.sqlite.inbox import move_inboxes
from headway.store.sqlite.op import SqliteOp, Verbs, json_list, positions
from headway.store.sqlite.operate import refuse_taken
from headway.store.sqlite.sql import statements
from headway.store.sqlite.tied import TrainKey
from headway.store.sqlite.unique import covers
from headway.store.sqlite.waking import wake_signaled

_SQL = statements("operate")
_JOINS = statements("joins")
_GROUPS = statements("groups")
_GIVE_BACK = statements("signals")["give_back"]


class RetryVerbs(Verbs):
    def retry(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[dict[str, str]]:
        def steps() -> Steps[dict[str, str]]:
            now = self._clock.now()
            runs, trains = yield from retry_jobs(ids, now, tenant_id=tenant_id, actor=actor, pending=False)
            yield from follow(now=now, trains=trains)
            return runs

        return SqliteOp(steps, writes=True)


def retry_jobs(
    ids: Sequence[str], now: int, *, tenant_id: str | None, actor: str | None, pending: bool
) -> Steps[tuple[dict[str, str], list[TrainKey]]]:
    """Let the finished ones of these jobs run again, or wait to (`pending`, and cars); gives job id → id that will
    run, and the trains to look at. Raises `Duplicate`."""
    runs: dict[str, str] = {}
    trains: list[TrainKey] = []
    waiting: list[str] = []
    for row in (yield Statement(_SQL["finished"], (json_list(ids), tenant_id))):
        job = _Finished(*row)
        to = _goes_to(job, pending)
        if job.machine and job.status in ("succeeded", "dead"):
            # the step that ended it is to see again what it saw; one that was canceled has gone on from there
            yield Statement(_GIVE_BACK, (job.id, job.fence))
        runs[job.id] = yield from _retry(job, to, now, pending=pending or (to == "waiting" and bool(job.joins)))
        yield from _reopen(job.id, runs[job.id])
        if job.machine and runs[job.id] != job.id:
            yield from move_inboxes({job.id: runs[job.id]})
        if to == "waiting":
            waiting.append(runs[job.id])
        yield Statement(_SQL["audit"], (now, job.tenant_id, job.id, actor, "retry", runs[job.id]))
        if job.train is not None:
            yield from unhold(job.tenant_id, job.train, job.id)
            trains.append((job.tenant_id, job.train))
    if waiting:
        yield from await_again(waiting)
        ended = yield from wake_signaled(waiting, now)
        yield from follow(ended, now=now, machines=waiting)
    return runs, trains


class _Finished(msgspec.Struct, frozen=True, array_like=True):
    rowid: int
    id: str
    tenant_id: str
    kind: str
    delivery: str
    fence: int
    position: int | None
    unique_key: str | None
    unique_scope: str
    status: Status
    waited: int  # a machine that was canceled while it waited
    joins: int  # for its children
    machine: int
    train: str | None


def _goes_to(job: _Finished, pending: bool) -> Status:
    if pending or job.train is not None:
        return "held"
    return "waiting" if job.waited else "queued"


def _retry(job: _Finished, to: Status, now: int, *, pending: bool) -> Steps[str]:
    """Put one finished job back, or make the job that retries it; gives the id that will run."""
    rowid, job_id, key, scope, position = job.rowid, job.id, job.unique_key, job.unique_scope, job.position
    anew = job.delivery == "at_most_once" and job.fence > 0
    if anew:
        rows = yield Statement(_SQL["retried_by"], (job_id,))
        if rows:
            raise Duplicate(
                f"job {job_id} ({job.kind}) was retried already, by job {rows[0][0]}: retry that one",
                rows[0][0],
            )
    if key is not None and covers(scope, to):
        yield from refuse_taken(job_id, rowid, key)
        if anew and covers(scope, job.status):
            yield Statement(_SQL["drop_key"], (rowid,))
    if anew:
        return (yield from write_fresh_copy(rowid, now, key, to, pending=pending))
    if position is None:
        position = (yield from positions(1))[0]
    yield Statement(_SQL["retry"], (rowid, now, position, to, pending))
    return job_id


def _reopen(job_id: str, runs_as: str) -> Steps[None]:
    """Let those that still wait for this job wait for it again, by the id that runs now."""
    yield Statement(_JOINS["reopen"], (job_id, runs_as))
    if runs_as != job_id:
        yield Statement(_JOINS["pass_on"], (job_id, runs_as))
        yield Statement(_GROUPS["call_back"], (job_id, runs_as))
