"""Move: a job that waits goes to another place in its line, into the gap there or into one that is made."""

from __future__ import annotations

import msgspec

from headway.errors import InvalidJob, NotAllowed
from headway.model.status import FINISHED, Status
from headway.model.train import Moved
from headway.store.ops import Batch, Op, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.order.follow import follow

_SQL = statements("jobs/move")
_GAP = 1024
_FIRST_LOOK, _MOST = 32, 1 << 62


class _Job(msgspec.Struct, frozen=True, array_like=True):
    rowid: int
    id: str
    tenant_id: str
    queue: str
    train: str | None
    status: Status
    priority: int
    position: int


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """A neighbour: where it stands."""

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
        if (before is not None) + (after is not None) + first + last != 1:
            raise InvalidJob("give exactly one of before, after, first and last")

        def steps() -> Steps[Moved | None]:
            rows = yield Statement(_SQL["job"], (job_id, tenant_id))
            if not rows:
                return None
            job = _Job(*rows[0])
            _check_waits(job)
            beside = before or after
            place = (yield from _neighbour(job, beside)) if beside is not None else (yield from _end(job, first))
            moved = yield from _place(job, place, ahead=first or before is not None)
            now = self._clock.now()
            where = "first" if first else "last" if last else f"before {before}" if before else f"after {after}"
            yield record(now, job.tenant_id, job.id, actor, "move", where)
            if job.train is not None:
                # a head that waited for other jobs may not be the head any more
                yield from follow(now=now, trains=[(job.tenant_id, job.train)])
            return moved

        return SqliteOp(steps, writes=True)


def _check_waits(job: _Job) -> None:
    if job.status == ("queued" if job.train is None else "held"):
        return
    if job.status == "running":
        why = "it is running"
    elif job.status in FINISHED:
        why = f"it is {job.status}"
    elif job.train is not None:
        why = f"it is the locomotive of train {job.train}, which goes first"
    elif job.status == "held":
        why = "it waits for other jobs, not in a line"
    elif job.status == "waiting":
        why = "it waits for its signals or children, not in a line"
    else:
        why = f"it is {job.status} and gets its place when it is due: change its time instead"
    raise NotAllowed(f"job {job.id} cannot be moved: {why}")


def _neighbour(job: _Job, beside: str) -> Steps[_Place]:
    """The job to move beside; raises `NotAllowed` where it does not stand in the same line."""
    rows = yield Statement(_SQL["job"], (beside, job.tenant_id))
    if not rows:
        raise NotAllowed(f"there is no job {beside} to move it to (or it is another tenant's)")
    near = _Job(*rows[0])
    if near.id == job.id:
        raise NotAllowed(f"job {job.id} cannot be moved to itself")
    if job.train is not None and near.train != job.train:
        raise NotAllowed(f"job {near.id} is not in the same train as job {job.id}")
    if job.train is None and near.queue != job.queue:
        raise NotAllowed(f"job {near.id} is not in the same queue as job {job.id}")
    if near.status != job.status:
        is_locomotive = near.train is not None and near.train == job.train and near.status not in FINISHED
        what = f"the locomotive ({near.status})" if is_locomotive else near.status
        raise NotAllowed(f"job {near.id} is {what} and has no place to move another to")
    return _Place(near.rowid, near.id, near.priority, near.position)


def _end(job: _Job, first: bool) -> Steps[_Place | None]:
    """The first or the last of the others in the line; None where there are none."""
    end = "first" if first else "last"
    if job.train is not None:
        rows = yield Statement(_SQL[f"{end}_car"], (job.tenant_id, job.train, job.id))
    else:
        rows = yield Statement(_SQL[f"{end}_queued"], (job.queue, job.id))
    return _Place(*rows[0]) if rows else None


def _place(job: _Job, near: _Place | None, *, ahead: bool) -> Steps[Moved]:
    """Put the job directly ahead of or behind its neighbour."""
    if near is None:
        return Moved(job.id, job.priority, job.position)
    priority = near.priority if job.train is None else job.priority
    other = yield from _line(job, near, "before" if ahead else "after", 1)
    low = near.position if not ahead else other[0][1] if other else near.position - 2 * _GAP
    high = near.position if ahead else other[0][1] if other else None
    if high is None:
        position = max(low + 1, (yield from positions(1))[0])
    elif high - low > 1:
        position = (low + high) // 2
    else:
        position = yield from _make_gap(job, near, low, ahead=ahead)
    yield Statement(_SQL["place"], (job.rowid, priority, position))
    return Moved(job.id, priority, position)


def _line(job: _Job, near: _Place, side: str, count: int) -> Steps[Rows]:
    """(rowid, position) of the next ones on that side of the neighbour, nearest first."""
    place = (job.id, near.position, near.id, count)
    if job.train is not None:
        return (yield Statement(_SQL[f"cars_{side}"], (job.tenant_id, job.train, *place)))
    return (yield Statement(_SQL[f"queued_{side}"], (job.queue, near.priority, *place)))


def _make_gap(job: _Job, near: _Place, low: int, *, ahead: bool) -> Steps[int]:
    """Spread those that come after the new place, as few as give room again; gives the place made."""
    look = _FIRST_LOOK
    while True:
        behind = yield from _line(job, near, "after", look)
        following = [(near.rowid, near.position), *behind] if ahead else behind
        for count, (_, place) in enumerate(following):
            # up to this one, which may stay, `count` others and the new one find room
            step = (place - low) // (count + 2)
            if step >= 2:
                moved = following[:count]
                break
        else:
            if len(behind) == look:
                look = min(look * 8, _MOST)
                continue
            moved, step = following, 0
        break
    if step:
        places: list[int] = [low + step * (n + 1) for n in range(len(moved) + 1)]
    else:
        places = yield from positions(len(moved) + 1)  # none behind them: there is always room at the end
    yield Batch(_SQL["shift"], [(rowid, place) for (rowid, _), place in zip(moved, places[1:], strict=True)])
    return places[0]
