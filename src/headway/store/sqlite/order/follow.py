"""What a job's end sets free: the next car, dependents, machines, slots under limits; and the group that it stops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.model.departure import Departure
from headway.model.status import FINISHED
from headway.model.train import TrainKey
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.machines.children import await_again, join, stop_orphans, stop_siblings
from headway.store.sqlite.machines.wake import wake_signaled
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.group_members import stop_groups
from headway.store.sqlite.order.joins import decide, release_ready
from headway.store.sqlite.order.leaving_jobs import Ends, leaving_jobs
from headway.store.sqlite.order.limit_waiters import admit
from headway.store.sqlite.order.next_car import hold_trains, release_first_cars, release_next_cars
from headway.store.sqlite.triggers.events import announce

_SQL = statements("order/follow")


def follow(
    departures: Iterable[Departure] = (),
    *,
    now: int,
    ended: Iterable[str] = (),
    held: Sequence[str] = (),
    trains: Iterable[TrainKey] = (),
    machines: Iterable[str] = (),
    parked: Iterable[str] = (),
) -> Steps[int]:
    """Do what follows from these departures; also decide these held jobs, trains, machines with children, and machines
    that wait again (`parked`). Gives how many other jobs this has ended.

    `ended` are jobs that ended, too, without others waiting for them: only the event is emitted.

    A job that this ends may set others free, and so on. Once a piece of them has ended, the rest is postponed, so that
    other writers do not wait long.
    """
    spent = 0
    todo = list(departures)
    waiting = list(held)
    moving = dict.fromkeys(trains)
    joining = dict.fromkeys(machines)
    again = list(parked)
    freed: dict[str, int] = {}
    announced = dict.fromkeys(ended)
    while todo or waiting or moving or joining or again:
        for each in todo:
            for key in each.freed():
                freed[key] = freed.get(key, 0) + 1
        over = [each for each in todo if each.to in FINISHED]
        again += [each.job.id for each in todo if each.to == "waiting" and each.job.status == "held"]
        todo = []
        if over:
            announced |= dict.fromkeys(each.job.id for each in over)
            yield from hold_trains(over, now)
            moving |= _trains_of(over)
            todo += yield from stop_groups(over, now)
            if spent >= postponed.PIECE:
                awaited = [each.job.id for each in over if each.job.awaited and each.heir is None]
                yield from postponed.postpone("ended", awaited)
                waited = [each.job.id for each in over if each.job.status == "waiting" or each.job.calls]
                yield from postponed.postpone("orphaned", waited)
                over = [each for each in over if each.heir is not None]
            decided = yield from decide(over, now)
            waiting += decided.held
            joining |= dict.fromkeys(decided.machines)
            todo += yield from wake_signaled(decided.flows, now)
            todo += yield from stop_siblings(decided.failed, now)
            todo += yield from stop_orphans(over, now)
        if again:
            yield from await_again(again)
            todo += yield from wake_signaled(again, now)
            joining |= dict.fromkeys(again)
            again = []
        if joining:
            todo += yield from join(list(joining), now)
            joining = {}
        if waiting:
            stopped, cars = yield from release_ready(waiting, now)
            todo += stopped
            moving |= dict.fromkeys(cars)
            waiting = []
        if moving and not todo:
            todo = yield from release_first_cars(moving, now)
            moving = {}
        spent += len(todo)
    if freed:
        yield from admit(freed)
    if announced:
        yield from announce(list(announced), now)
    return spent


def follow_ends(ends: Ends, now: int) -> Steps[None]:
    """Do what follows from ended executions."""
    departures = (yield from release_next_cars(ends.locomotives, now)) if ends.locomotives else []
    departures += ends.departures
    if departures or ends.over:
        yield from follow(departures, now=now, ended=ends.over)


def follow_late(job_id: str, now: int) -> Steps[int]:
    """The same for a job that is over and whose followers were postponed."""
    rows = yield Statement(_SQL["over"], (job_id,))
    if not rows:
        return 0  # it runs again
    leaving = yield from leaving_jobs([rows[0][0]])
    (job,) = leaving.values()
    decided = yield from decide([Departure(job, job.status)], now)
    ended = yield from stop_siblings(decided.failed, now)
    ended += yield from wake_signaled(decided.flows, now)
    return len(ended) + (yield from follow(ended, now=now, held=decided.held, machines=decided.machines))


def _trains_of(over: Iterable[Departure]) -> dict[TrainKey, None]:
    # a new job that retries another takes over as the locomotive: the train does not move
    return {
        (each.job.tenant_id, each.job.train): None for each in over if each.job.train is not None and each.heir is None
    }
