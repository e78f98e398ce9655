"""Joins: jobs wait for other jobs by edges, each decided when its parent is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.model import refusals
from headway.model.departure import Departure
from headway.model.job import NewJob, Waiter
from headway.model.reasons import ended_by
from headway.model.status import FINISHED, Status, edge_state
from headway.model.train import TrainKey
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.flows.journal import has_seen
from headway.store.sqlite.flows.tell import tell_flows
from headway.store.sqlite.jobs.early_end import cancel_rows
from headway.store.sqlite.order import postponed
from headway.store.sqlite.order.held_jobs import Held, no_longer_pending, release_held
from headway.store.sqlite.order.leaving_jobs import leaving_jobs

_SQL = statements("order/joins")


class JoinVerbs(Verbs):
    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        def steps() -> Steps[list[tuple[str, Status | None]]]:
            rows = yield Statement(_SQL["awaited"], (job_id, tenant_id))
            return [(parent_id, status) for parent_id, status in rows]

        return SqliteOp(steps, writes=False)

    def waiters(self, job_id: str, *, tenant_id: str | None, limit: int) -> Op[list[Waiter]]:
        def steps() -> Steps[list[Waiter]]:
            after = yield Statement(_SQL["waiters"], (job_id, tenant_id, limit))
            behind = yield Statement(_SQL["cars_behind"], (job_id, tenant_id, limit - len(after)))
            return [Waiter(*row) for row in after + behind]

        return SqliteOp(steps, writes=False)


class Decided(msgspec.Struct, frozen=True):
    """Which jobs waited for parents that are over."""

    held: list[str] = []
    machines: list[str] = []
    failed: dict[str, str] = {}  # machine → the child that failed it: its other children must stop
    flows: list[str] = []  # which were told that a child is over


def decide(over: Iterable[Departure], now: int) -> Steps[Decided]:
    """Decide the edges of jobs that are over."""
    ended: list[tuple[str, str]] = []
    inherited: list[tuple[str, str]] = []
    for left in over:
        if not left.job.awaited:
            continue
        if left.heir is not None:
            inherited.append((left.job.id, left.heir))
        else:
            ended.append((left.job.id, edge_state(left.to)))
    if inherited:
        yield Batch(_SQL["inherit_dependents"], inherited)
    return (yield from _decide(ended, now))


def _decide(ended: Sequence[tuple[str, str]], now: int) -> Steps[Decided]:
    if not ended:
        return Decided()
    held: dict[str, None] = {}
    machines: dict[str, None] = {}
    failed: dict[str, str] = {}
    called: list[tuple[str, str]] = []
    room = postponed.PIECE
    for n, (parent_id, state) in enumerate(ended):
        rows = yield Statement(_SQL["end"], (parent_id, state, room))
        for _, child_id, fence, on_failure in rows:
            if fence < 0:
                called.append((child_id, parent_id))
                continue
            (machines if fence else held)[child_id] = None
            if fence and on_failure == "stop" and state == "failed":
                failed.setdefault(child_id, parent_id)
        room -= len(rows)
        if room <= 0:
            yield from postponed.postpone("ended", [job_id for job_id, _ in ended[n:]])
            break
    if called:
        yield tell_flows(called, now)
    return Decided(list(held), list(machines), failed, [flow for flow, _ in called])


def decide_gone(children: Sequence[str], now: int) -> Steps[Decided]:
    """Decide the edges of these jobs whose parent is over, or was deleted, which counts as failed."""
    if not children:
        return Decided()
    rows = yield Statement(_SQL["over"], (json_list(children),))
    ended: dict[str, str] = {}
    for parent_id, status in rows:
        heirs = (yield Statement(_SQL["heir"], (parent_id,))) if status == "failed" else []
        if heirs and heirs[0][0] != parent_id:
            yield Statement(_SQL["inherit_dependents"], (parent_id, heirs[0][0]))
            parent_id, status = heirs[0]
        if status is None or status in FINISHED:
            ended[parent_id] = "failed" if status is None else edge_state(status)
    return (yield from _decide(list(ended.items()), now))


def release_ready(children: Sequence[str], now: int) -> Steps[tuple[list[Departure], list[TrainKey]]]:
    """Release or end those of these jobs that wait for no parent any more; gives what ended, and the trains of cars."""
    rows = yield Statement(_SQL["ready"], (json_list(children), now))
    going: list[Held] = []
    cars: list[int] = []
    trains: list[TrainKey] = []
    failed: dict[int, str] = {}
    for rowid, tenant, train, to, key, scope, failed_by in rows:
        if failed_by is not None:
            failed[rowid] = failed_by
        elif train is None:
            going.append(Held(rowid, to, key, scope))
        else:
            cars.append(rowid)
            trains.append((tenant, train))
    if cars:
        yield no_longer_pending(cars)
    ended = yield from release_held(going, now)
    if failed:
        ended += yield from _stop(failed, now)
    return ended, trains


def add_edges(children: Sequence[NewJob], stands_for: Mapping[str, str]) -> Steps[None]:
    """Add the edges of new jobs with `after`; `stands_for` maps ids of this call to the existing jobs that they met.

    Raises `InvalidJob` for a parent that does not exist."""
    named = {stands_for.get(parent_id, parent_id): None for job in children for parent_id in job.after}
    if not named:
        return
    rows = yield Statement(_SQL["parents"], (json_list(list(named)),))
    parents = {job_id: (tenant_id, status) for job_id, tenant_id, status in rows}
    heirs: dict[str, tuple[str, Status]] = {}
    for job_id, (_, status) in parents.items():
        if status == "failed":
            ((heir, now_is),) = yield Statement(_SQL["heir"], (job_id,))
            heirs[job_id] = (heir, now_is)
    edges: list[Row] = []
    for job in children:
        for parent_id in job.after:
            real = stands_for.get(parent_id, parent_id)
            tenant_id, status = parents.get(real, (None, None))
            if tenant_id != job.tenant_id or status is None:
                raise refusals.no_such_parent(parent_id)
            heir, status = heirs.get(real, (real, status))
            edges.append((heir, job.id, 0, job.tenant_id, job.on_failure, edge_state(status), None, None))
    yield Batch(_SQL["add"], edges)


def add_edge_rows(edges: Sequence[Row]) -> Batch:
    """Adds edges, each (parent, child, fence, tenant, on_failure, state, place, needed)."""
    return Batch(_SQL["add"], edges)


def inherit_edges(heirs: Mapping[str, str]) -> Batch:
    """Makes the new jobs that retry these wait for what these waited for."""
    return Batch(_SQL["inherit_parents"], list(heirs.items()))


def reopen_edges(runs: Mapping[str, str], behind: Sequence[str]) -> Steps[None]:
    """Make jobs wait again for retried ones, by the ids that run now; `behind` wait for unfinished parents only."""
    new = {old: runs_as for old, runs_as in runs.items() if runs_as != old}
    if new:
        yield Batch(_SQL["inherit_canceled"], list(new.items()))
    yield Batch(_SQL["reopen"], list(runs.items()))
    yield Statement(_SQL["rejoin"], (json_list(behind),))
    for job_id, flow in (yield Statement(_SQL["called"], (json_list(list(runs)),))):
        if not (yield from has_seen(flow, job_id)):
            yield Statement(_SQL["call_again"], (job_id, flow, runs[job_id]))


def behind_others(ids: Sequence[str]) -> Steps[list[str]]:
    """Those of these jobs that wait for an unfinished one, or for another of these."""
    rows = yield Statement(_SQL["behind"], (json_list(ids),))
    return [job_id for (job_id,) in rows]


def read_heir(job_id: str) -> Steps[tuple[str, Status] | None]:
    """The last of the jobs that retry this one, or itself, with its status."""
    rows = yield Statement(_SQL["heir"], (job_id,))
    return (rows[0][0], rows[0][1]) if rows else None


def read_statuses(ids: Iterable[str]) -> Steps[dict[str, Status]]:
    return dict((yield Statement(_SQL["statuses"], (json_list(list(set(ids))),))))


def _stop(failed: dict[int, str], now: int) -> Steps[list[Departure]]:
    """Cancel the jobs whose parent failed."""
    statuses = yield from read_statuses(failed.values())
    leaving = yield from leaving_jobs(failed)
    reasons = {rowid: ended_by(parent_id, statuses.get(parent_id)) for rowid, parent_id in failed.items()}
    yield from cancel_rows(reasons, now)
    return [Departure(job, "canceled") for job in leaving.values()]
