"""The next car of a train: released when its locomotive ends, unless that puts the train on hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.model.departure import Departure
from headway.model.status import Status
from headway.model.train import TrainKey
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.order.held_jobs import Held, release_held

_SQL = statements("order/next_car")
_ENDED: dict[Status, str] = {"dead": "is dead", "failed": "has failed", "canceled": "was canceled"}


def busy_trains(trains: Iterable[TrainKey]) -> Steps[set[TrainKey]]:
    """Those of these trains that have an unfinished car or are on hold: a new car must wait."""
    rows = yield Statement(_SQL["busy"], (json_list(list(trains)),))
    return {(tenant, train) for tenant, train in rows}


def hold_trains(left: Iterable[Departure], now: int) -> Steps[None]:
    """Put trains on hold whose locomotive ended in a way that holds them (on_dead, on_canceled)."""
    holds = [
        (job.tenant_id, job.train, now, job.id, f"job {job.id} {_ENDED[to]}", None)
        for job, to in ((each.job, each.to) for each in left if each.holds())
    ]
    if holds:
        yield Batch(_SQL["hold"], holds)


def release_first_cars(trains: Iterable[TrainKey], now: int) -> Steps[list[Departure]]:
    """Release the first car of each train without locomotive and hold; gives the cars that ended instead."""
    ended: list[Departure] = []
    looked_at = list(trains)
    while looked_at:
        rows = yield Statement(_SQL["heads"], (json_list(looked_at), now))
        heads = [Held(rowid, to, key, scope) for rowid, _, _, to, key, scope in rows]
        gone = yield from release_held(heads, now)
        ended += gone
        looked_at = [(each.job.tenant_id, each.job.train) for each in gone if each.job.train is not None]
    return ended


def release_next_cars(locomotives: Sequence[int], now: int) -> Steps[list[Departure]]:
    """The same behind these locomotives (by rowid), which are over; fast path: nothing else has moved."""
    rows = yield Statement(_SQL["next"], (json_list(locomotives), now))
    return (yield from release_held([Held(*row) for row in rows], now))


def stuck_trains(trains: Iterable[TrainKey], now: int) -> Steps[list[TrainKey]]:
    """Those of these trains whose first car could go but was not released."""
    rows = yield Statement(_SQL["heads"], (json_list(list(trains)), now))
    return [(tenant, train) for _, tenant, train, *_ in rows]


def hold(tenant_id: str, train: str, now: int, *, reason: str | None, actor: str | None) -> Statement:
    """Puts a train on hold, unless it is already."""
    return Statement(_SQL["hold"], (tenant_id, train, now, None, reason, actor))


def end_hold(tenant_id: str, train: str, job_id: str | None = None) -> Steps[bool]:
    """End a train's hold (if this job put it there); the caller releases the next car."""
    rows = yield Statement(_SQL["end_hold"], (tenant_id, train, job_id))
    return bool(rows)
