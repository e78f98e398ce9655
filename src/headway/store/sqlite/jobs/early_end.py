"""Ends jobs early: those that wait at once, those that run by asking their worker to stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headway.model.departure import Departure
from headway.store.ops import Batch, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.flows.tell import ask_flows
from headway.store.sqlite.order.leaving_jobs import LeavingRow
from headway.store.sqlite.stats.deltas import count_canceled

_SQL = statements("jobs/early_end")


def cancel_rows(reasons: Mapping[int, str], now: int) -> Steps[None]:
    """End jobs that do not run; each is a rowid and a reason."""
    yield Batch(_SQL["cancel"], [(rowid, now, reason) for rowid, reason in reasons.items()])
    yield count_canceled(list(reasons), now)


def end_early(
    jobs: Iterable[LeavingRow], reason: str | None, now: int, *, spared: bool = False
) -> Steps[list[Departure]]:
    """Cancel these unfinished jobs, running ones and flows that have begun by request; gives the departures of those
    that ended."""
    plain: list[LeavingRow] = []
    flows: list[str] = []
    for job in jobs:
        if not job.flow:
            plain.append(job)
        elif job.flow == 1:
            flows.append(job.id)
    ended = yield from end_now(plain, reason, now, spared=spared)
    if flows:
        ended += yield from ask_flows(flows, reason, now)
    return ended


def end_now(
    jobs: Iterable[LeavingRow], reason: str | None, now: int, *, spared: bool = False
) -> Steps[list[Departure]]:
    """The same for flows like any other job."""
    asked: list[LeavingRow] = []
    ended: list[LeavingRow] = []
    for job in jobs:
        (asked if job.status == "running" else ended).append(job)
    if asked:
        yield Batch(_SQL["ask"], [(job.rowid, now, reason) for job in asked])
    if ended:
        yield from cancel_rows({job.rowid: reason or "canceled" for job in ended}, now)
    return [Departure(job, "canceled", spared=spared) for job in ended]
