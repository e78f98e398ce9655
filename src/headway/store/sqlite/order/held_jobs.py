"""Held jobs: released, they are queued, or scheduled until their time; or they end if their unique key is taken, unless
they are in line for it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headway.model.departure import Departure
from headway.model.status import Status, enters, follows
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.unique import holder_of_key, supersede
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("order/held_jobs")


class Held(msgspec.Struct, frozen=True):
    """A held job that may go, and to which status."""

    rowid: int
    to: Status
    unique_key: str | None
    unique_scope: str


def release_held(jobs: Iterable[Held], now: int) -> Steps[list[Departure]]:
    """Release these jobs; gives those that ended instead, because another job has their unique key, and the machines
    that wait again."""
    going: dict[Status, list[int]] = {}
    left: list[Departure] = []
    for job in jobs:
        asks = job.unique_key is not None and enters(job.unique_scope, "held", job.to)
        holder = (yield from holder_of_key(job.rowid)) if asks else None
        if holder is not None:
            if follows(job.unique_scope) and (yield Statement(_SQL["has_run"], (holder,))):
                yield Statement(_SQL["wait_again"], (job.rowid,))
                yield Statement(_SQL["wait_for"], (job.rowid, holder))
            else:
                leaving = yield from leaving_jobs([job.rowid])
                yield from supersede(job.rowid, job.unique_key, holder, now)
                left.append(Departure(leaving[job.rowid], "canceled"))
            continue
        if job.to == "waiting":
            leaving = yield from leaving_jobs([job.rowid])
            left.append(Departure(leaving[job.rowid], "waiting"))
        elif not asks:
            going.setdefault(job.to, []).append(job.rowid)
            continue
        # at once, not in the batch: the next job with this key must find it taken
        yield _release([job.rowid], job.to, now)
    for to, rowids in going.items():
        yield _release(rowids, to, now)
    return left


def no_longer_pending(rowids: Iterable[int]) -> Batch:
    """Notes that these held cars wait only for their train now."""
    return Batch(_SQL["no_longer_pending"], [(rowid,) for rowid in rowids])


def _release(rowids: list[int], to: Status, now: int) -> Statement:
    return Statement(_SQL["release"], (json_list(rowids), to, now if to == "queued" else None))
