"""Wakes machines that wait: they are queued at their old position, or end if their unique key is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headway.model.departure import Departure
from headway.model.machine import Woken
from headway.model.status import enters
from headway.store.ops import Batch, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.unique import holder_of_key, supersede
from headway.store.sqlite.machines.inbox import meets, names_there
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("machines/wake")


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A machine that waits."""

    rowid: int
    id: str
    unique_key: str | None
    unique_scope: str


def wake(machines: Iterable[Waiting], woken: Woken, now: int) -> Steps[list[Departure]]:
    """Queue these machines; gives those that ended instead, because another job has their unique key."""
    going: list[tuple[int, Woken, int]] = []
    ended: list[Departure] = []
    for machine in machines:
        move = (machine.rowid, woken, now)
        if machine.unique_key is None or not enters(machine.unique_scope, "waiting", "queued"):
            going.append(move)
            continue
        holder = yield from holder_of_key(machine.rowid)
        if holder is None:
            # at once, not in the batch: the next job with this key must find it taken
            yield Statement(_SQL["wake"], move)
        else:
            leaving = yield from leaving_jobs([machine.rowid])
            yield from supersede(machine.rowid, machine.unique_key, holder, now)
            ended.append(Departure(leaving[machine.rowid], "canceled"))
    if going:
        yield Batch(_SQL["wake"], going)
    return ended


def wake_signaled(ids: Sequence[str], now: int) -> Steps[list[Departure]]:
    """Wake those of these machines that have the signals they await; gives those that ended instead."""
    rows = (yield Statement(_SQL["awaiting"], (json_list(ids),))) if ids else []
    if not rows:
        return []
    there = yield from names_there([row[1] for row in rows])
    ready = [Waiting(*row[:4]) for row in rows if meets(row[4], row[5], there.get(row[1], ()))]
    return (yield from wake(ready, "signal", now))


def late_rows(now: int, limit: int) -> Steps[Rows]:
    """The machines whose await has timed out, as rows of `Waiting`."""
    return (yield Statement(_SQL["timed_out"], (now, limit)))
