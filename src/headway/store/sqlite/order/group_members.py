"""Members of groups: a new job joins a group, and a failed one may stop it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headway.model import refusals
from headway.model.departure import Departure
from headway.model.group import NewGroup
from headway.model.job import NewJob
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.early_end import end_early
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.joins import add_edge_rows
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("order/group_members")


def make_group(group: NewGroup, now: int) -> Statement:
    return Statement(_SQL["new"], (group.id, group.tenant_id, group.mode, group.on_failure, group.callback_id, now))


def join_groups(members: Iterable[NewJob]) -> Steps[None]:
    """Add new members to existing groups, whose callbacks wait for them, too."""
    by_group: dict[str, list[NewJob]] = {}
    for job in members:
        if job.group_id is not None:
            by_group.setdefault(job.group_id, []).append(job)
    rows = yield Statement(_SQL["joined"], (json_list(list(by_group)),))
    found = {row[0]: row[1:] for row in rows}
    for group_id, jobs in by_group.items():
        tenant_id, on_failure, stopped_at, callback_id, callback = found.get(group_id, (None,) * 5)
        if any(job.tenant_id != tenant_id for job in jobs):
            raise refusals.no_such_group(group_id)
        if stopped_at is not None:
            raise refusals.group_stopped(group_id)
        if callback_id is None:
            continue
        if callback != "held":
            raise refusals.group_over(group_id, callback_id, callback)
        policy = "continue" if on_failure == "continue" else "stop"
        yield add_edge_rows([(job.id, callback_id, 0, tenant_id, policy, "pending", None, None) for job in jobs])


def inherit_callbacks(heirs: Mapping[str, str]) -> Batch:
    """Makes the new jobs that retry these the callbacks of their groups."""
    return Batch(_SQL["call_back"], list(heirs.items()))


def stop_groups(over: Iterable[Departure], now: int) -> Steps[list[Departure]]:
    """Stop the groups with on_failure=stop that one of these failed; gives the jobs that this ended."""
    failed = {each.job.group_id for each in over if each.job.group_id is not None and each.failed}
    if not failed:
        return []
    ended: list[Departure] = []
    for (group_id,) in (yield Statement(_SQL["stop"], (json_list(sorted(failed)), now))):
        ended += yield from stop_some(group_id, now)
    return ended


def stop_some(group_id: str, now: int) -> Steps[list[Departure]]:
    """Cancel the next piece of a stopped group's members, and its callback; gives the jobs that this ended."""
    reasons = yield Statement(_SQL["stopping"], (group_id,))
    if not reasons:
        return []  # it was retried meanwhile
    members = [rowid for (rowid,) in (yield Statement(_SQL["to_stop"], (group_id, postponed.PIECE)))]
    if len(members) == postponed.PIECE:
        yield from postponed.postpone("stopping", [group_id])
    members += [rowid for (rowid,) in (yield Statement(_SQL["callback"], (group_id,)))]
    if not members:
        return []
    leaving = yield from leaving_jobs(members)
    return (yield from end_early(leaving.values(), reasons[0][0], now))
