"""Ends jobs before their time: at once, or, where they run, by asking their worker. Stops groups that way."""

from __future__ import annotations

from collections.abc import Iterable

from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.departures import Left, Tied, ties

_SQL = statements("order/groups")
_CANCEL = statements("jobs/cancel")


def end_early(jobs: Iterable[Tied], reason: str | None, now: int, *, spared: bool = False) -> Steps[list[Left]]:
    """Cancel these unfinished jobs, those that run by asking; gives those that ended, with followers to see to."""
    asked: list[Tied] = []
    ended: list[Tied] = []
    for job in jobs:
        (asked if job.status == "running" else ended).append(job)
    if asked:
        yield Batch(_CANCEL["ask"], [(job.rowid, now, reason) for job in asked])
    if ended:
        yield Batch(_CANCEL["cancel"], [(job.rowid, now, reason or "canceled") for job in ended])
    return [Left(job, "canceled", spared=spared) for job in ended]


def stop_groups(over: Iterable[Left], now: int) -> Steps[list[Left]]:
    """Stop the groups that end when one of their members does not succeed; gives what this ended."""
    failed = {each.job.group_id for each in over if each.job.group_id is not None and each.failed}
    if not failed:
        return []
    ended: list[Left] = []
    for (group_id,) in (yield Statement(_SQL["stop"], (json_list(sorted(failed)), now))):
        ended += yield from stop_some(group_id, now)
    return ended


def stop_some(group_id: str, now: int) -> Steps[list[Left]]:
    """Cancel members of a group that is stopped, so many at a time, and its callback; gives what this ended."""
    reasons = yield Statement(_SQL["stopping"], (group_id,))
    if not reasons:
        return []  # somebody has retried it meanwhile
    members = [rowid for (rowid,) in (yield Statement(_SQL["to_stop"], (group_id, postponed.PIECE)))]
    if len(members) == postponed.PIECE:
        yield from postponed.leave("stopping", [group_id])
    members += [rowid for (rowid,) in (yield Statement(_SQL["callback"], (group_id,)))]
    if not members:
        return []
    tied = yield from ties(members)
    return (yield from end_early(tied.values(), reasons[0][0], now))
