"""Move: a waiting job goes elsewhere in its line: between two neighbours, which are spread if they have no gap."""

from __future__ import annotations

import msgspec

from headway.model import refusals
from headway.model.move import check_movable, check_neighbour, check_ways
from headway.model.position import GAP, between, renumbered
from headway.model.status import Status
from headway.model.train import Moved
from headway.store.ops import Batch, Op, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.order.follow import follow

_SQL = statements("jobs/move")
_FIRST_COUNT, _MOST = 32, 1 << 62


class _Job(msgspec.Struct, frozen=True, array_like=True):
    rowid: int
    id: str
    tenant_id: str
    queue: str
    train: str | None
    status: Status
    priority: int
    position: int


class _Neighbour(msgspec.Struct, frozen=True, array_like=True):
    """The job that the moved one goes beside."""

    rowid: int
    id: str
    priority: int
    position: int


class MoveVerbs(Verbs):
    def move(
        self,
        job_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        first: bool = False,
        last: bool = False,
        tenant_id: str | None,
        actor: str | None,
    ) -> Op[Moved | None]:
        def steps() -> Steps[Moved | None]:
            check_ways(before, after, first, last)
            rows = yield Statement(_SQL["job"], (job_id, tenant_id))
            if not rows:
                return None
            job = _Job(*rows[0])
            check_movable(job)
            beside = before or after
            near = (yield from _neighbour(job, beside)) if beside is not None else (yield from _end(job, first))
            moved = yield from _put_beside(job, near, ahead=first or before is not None)
            now = self._clock.now()
            where = "first" if first else "last" if last else f"before {before}" if before else f"after {after}"
            yield record(now, job.tenant_id, job.id, actor, "move", where)
            if job.train is not None:
                # a head that waited for other jobs may not be the head any more
                yield from follow(now=now, trains=[(job.tenant_id, job.train)])
            return moved

        return SqliteOp(steps, writes=True)


def _neighbour(job: _Job, beside: str) -> Steps[_Neighbour]:
    """The job to move beside; raises `NotAllowed` where it does not stand in the same line."""
    rows = yield Statement(_SQL["job"], (beside, job.tenant_id))
    if not rows:
        raise refusals.no_such_neighbour(beside)
    near = _Job(*rows[0])
    check_neighbour(job, near)
    return _Neighbour(near.rowid, near.id, near.priority, near.position)


def _end(job: _Job, first: bool) -> Steps[_Neighbour | None]:
    """The first or the last of the others in the line; None where there are none."""
    end = "first" if first else "last"
    if job.train is not None:
        rows = yield Statement(_SQL[f"{end}_car"], (job.tenant_id, job.train, job.id))
    else:
        rows = yield Statement(_SQL[f"{end}_queued"], (job.queue, None, job.id))
    return _Neighbour(*rows[0]) if rows else None


def _put_beside(job: _Job, near: _Neighbour | None, *, ahead: bool) -> Steps[Moved]:
    """Put the job directly ahead of or behind its neighbour."""
    if near is None:
        return Moved(job.id, job.priority, job.position)
    priority = near.priority if job.train is None else job.priority
    other = yield from _line(job, near, "before" if ahead else "after", 1)
    low = near.position if not ahead else other[0][1] if other else near.position - 2 * GAP
    high = near.position if ahead else other[0][1] if other else None
    if high is None:
        position = max(low + 1, (yield from positions(1))[0])
    else:
        middle = between(low, high)
        position = (yield from _make_gap(job, near, low, ahead=ahead)) if middle is None else middle
    yield Statement(_SQL["put"], (job.rowid, priority, position))
    return Moved(job.id, priority, position)


def _line(job: _Job, near: _Neighbour, side: str, count: int) -> Steps[Rows]:
    """(rowid, position) of the next ones on that side of the neighbour, nearest first."""
    from_here = (job.id, near.position, near.id, count)
    if job.train is not None:
        return (yield Statement(_SQL[f"cars_{side}"], (job.tenant_id, job.train, *from_here)))
    return (yield Statement(_SQL[f"queued_{side}"], (job.queue, near.priority, *from_here)))


def _make_gap(job: _Job, near: _Neighbour, low: int, *, ahead: bool) -> Steps[int]:
    """Spread the jobs behind the new position, as few as make a gap; gives that position."""
    count = _FIRST_COUNT
    while True:
        behind = yield from _line(job, near, "after", count)
        following = [(near.rowid, near.position), *behind] if ahead else behind
        spread = renumbered(low, [position for _, position in following])
        if spread is not None or len(behind) < count:
            break
        count = min(count * 8, _MOST)
    if spread is None:
        spread = yield from positions(len(following) + 1)  # none behind them: there is always room at the end
    yield Batch(_SQL["shift"], [(rowid, position) for (rowid, _), position in zip(following, spread[1:], strict=False)])
    return spread[0]
