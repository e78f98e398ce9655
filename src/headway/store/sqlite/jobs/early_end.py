"""Ends jobs early: those that wait at once, those that run by asking their worker to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.model.departure import Departure
from headway.store.ops import Batch, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.order.ties import TiedRow

_SQL = statements("jobs/early_end")


def cancel_rows(rows: Sequence[tuple[int, int, str]]) -> Batch:
    """Ends jobs that do not run, each (rowid, now, reason)."""
    return Batch(_SQL["cancel"], rows)


def end_early(jobs: Iterable[TiedRow], reason: str | None, now: int, *, spared: bool = False) -> Steps[list[Departure]]:
    """Cancel these unfinished jobs, running ones by request; gives the departures of those that ended."""
    asked: list[TiedRow] = []
    ended: list[TiedRow] = []
    for job in jobs:
        (asked if job.status == "running" else ended).append(job)
    if asked:
        yield Batch(_SQL["ask"], [(job.rowid, now, reason) for job in asked])
    if ended:
        yield cancel_rows([(job.rowid, now, reason or "canceled") for job in ended])
    return [Departure(job, "canceled", spared=spared) for job in ended]
