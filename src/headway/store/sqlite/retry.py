"""Retry: finished jobs run again with a full budget, in their old place."""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import Duplicate
from headway.model.status import Status
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.advance import unhold
from headway.store.sqlite.aftermath import follow
from headway.store.sqlite.ending import write_fresh_copy
from headway.store.sqlite.op import SqliteOp, Verbs, json_list, positions
from headway.store.sqlite.operate import refuse_taken
from headway.store.sqlite.sql import statements
from headway.store.sqlite.tied import TrainKey
from headway.store.sqlite.unique import covers

_SQL = statements("operate")
_JOINS = statements("joins")
_GROUPS = statements("groups")


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
    for row in (yield Statement(_SQL["finished"], (json_list(ids), tenant_id))):
        job_id, tenant, train = row[1], row[2], row[-1]
        runs[job_id] = yield from _retry(row, now, pending=pending)
        yield from _reopen(job_id, runs[job_id])
        yield Statement(_SQL["audit"], (now, tenant, job_id, actor, "retry", runs[job_id]))
        if train is not None:
            yield from unhold(tenant, train, job_id)
            trains.append((tenant, train))
    return runs, trains


def _retry(row: Row, now: int, *, pending: bool) -> Steps[str]:
    """Put one finished job back, or make the job that retries it; gives the id that will run."""
    rowid, job_id, _, kind, delivery, fence, position, key, scope, status, train = row
    to: Status = "held" if pending or train is not None else "queued"
    anew = delivery == "at_most_once" and fence > 0
    if anew:
        rows = yield Statement(_SQL["retried_by"], (job_id,))
        if rows:
            raise Duplicate(
                f"job {job_id} ({kind}) was retried already, by job {rows[0][0]}: retry that one",
                rows[0][0],
            )
    if key is not None and covers(scope, to):
        yield from refuse_taken(job_id, rowid, key)
        if anew and covers(scope, status):
            yield Statement(_SQL["drop_key"], (rowid,))
    if anew:
        return (yield from write_fresh_copy(rowid, now, key, to, pending=pending))
    if position is None:
        position = (yield from positions(1))[0]
    yield Statement(_SQL["retry"], (rowid, now, position, to, pending))
    return str(job_id)


def _reopen(job_id: str, runs_as: str) -> Steps[None]:
    """Let those that still wait for this job wait for it again, by the id that runs now."""
    yield Statement(_JOINS["reopen"], (job_id, runs_as))
    if runs_as != job_id:
        yield Statement(_JOINS["pass_on"], (job_id, runs_as))
        yield Statement(_GROUPS["call_back"], (job_id, runs_as))
