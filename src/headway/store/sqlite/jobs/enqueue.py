"""Enqueue: inserts new jobs, all or none; a job that met an existing one is answered with that."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache

import msgspec

from headway.clock import to_micros
from headway.model import refusals
from headway.model.group import NewGroup
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Enqueued, NewJob
from headway.model.position import spread
from headway.model.status import Status
from headway.model.train import first_statuses
from headway.store.ops import Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.fleet.tenants import name_tenants
from headway.store.sqlite.jobs.insert import (
    extended_row,
    index_tags,
    insert_all,
    present,
    starts_at,
)
from headway.store.sqlite.jobs.quotas import check_jobs, quotas_of, refuse_suspended
from headway.store.sqlite.jobs.taken_keys import answers, replace_successors
from headway.store.sqlite.jobs.unique_windows import answer_by_window, meet_windows, write_windows
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.group_members import join_groups, make_group
from headway.store.sqlite.order.joins import add_edges
from headway.store.sqlite.order.limit_waiters import guard_queues
from headway.store.sqlite.order.next_car import busy_trains

_SQL = statements("jobs/enqueue")

_scope_text = lru_cache(maxsize=256)(json_list)


class EnqueueVerbs(Verbs):
    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        if len(jobs) == 1 and group is None and jobs[0].starts_at_once and not jobs[0].has_extras:
            return SqliteOp(lambda: _enqueue_one(jobs[0], self._clock.now()), writes=True)

        def steps() -> Steps[list[Enqueued]]:
            if not jobs and group is None:
                return []
            return (yield from enqueue_jobs(jobs, group, self._clock.now()))

        return SqliteOp(steps, writes=True)


class _Batch(msgspec.Struct, frozen=True):
    """What new jobs need before they are inserted."""

    starts: list[int | None]
    positions: list[int | None]  # of those that are in a line from the start, or may follow the holder of their key
    metered: int  # some tenant has quotas
    shared: Container[str]  # queues in which the default tenant's jobs are marked, too (order/fair.py)
    guarded: int  # some kind is inactive, or for some tenants only
    met: dict[int, Enqueued] = {}  # the answers of those that are not inserted, by their index in the call


def enqueue_jobs(jobs: Sequence[NewJob], group: NewGroup | None, now: int) -> Steps[list[Enqueued]]:
    """Insert the jobs. Raises `NotAllowed` for an inactive kind, `UnknownKind`, `TenantSuspended`."""
    batch = yield from _number(jobs, now)
    if batch.guarded:
        yield from _check_kinds(jobs, now)
    if batch.metered:
        yield from refuse_suspended(job.tenant_id for job in jobs)
    return (yield from _insert(jobs, group, batch, now, {}))


def enqueue_for_machines(jobs: Sequence[NewJob], now: int, parents: Mapping[str, str]) -> Steps[list[Enqueued]]:
    """The same for children and forks, also of inactive kinds; `parents` are machines by the id of their child."""
    batch = yield from _number(jobs, now)
    return (yield from _insert(jobs, None, batch, now, parents))


def _number(jobs: Sequence[NewJob], now: int) -> Steps[_Batch]:
    starts = [starts_at(job, now) for job in jobs]
    in_line = [
        _is_in_line(job, start, now) or job.on_conflict == "replace_or_follow"
        for start, job in zip(starts, jobs, strict=True)
    ]
    count = in_line.count(True)
    ((last, metered, shared, guarded),) = yield Statement(_SQL["positions"], (count,))
    following = iter(spread(last, count))
    positions = [next(following) if each else None for each in in_line]
    return _Batch(starts, positions, metered, (yield from _shared(shared)), guarded)


def _shared(some: int) -> Steps[Container[str]]:
    return {name for (name,) in (yield Statement(_SQL["shared"]))} if some else ()


def _is_in_line(job: NewJob, start: int | None, now: int) -> bool:
    return start is None or start <= now or job.train is not None or bool(job.after)


def _insert(
    jobs: Sequence[NewJob], group: NewGroup | None, batch: _Batch, now: int, parents: Mapping[str, str]
) -> Steps[list[Enqueued]]:
    yield from name_tenants(jobs, now)
    if any(job.replaces for job in jobs):
        batch.met.update((yield from replace_successors(jobs, now)))
    if group is not None or parents or batch.metered or any(job.has_extras for job in jobs):
        return (yield from _enqueue_extended(jobs, group, batch, now, parents))
    return (yield from _enqueue_plain(jobs, batch, now))


def _enqueue_one(job: NewJob, now: int) -> Steps[list[Enqueued]]:
    """Fast path: one plain job of the default tenant, due now."""
    ((position, metered, shared, guarded),) = yield Statement(_SQL["positions"], (1,))
    if metered or guarded:  # it gets another position there, and this one stays unused
        return (yield from enqueue_jobs((job,), None, now))
    batch = _Batch([None], [position], metered, (yield from _shared(shared)), guarded)
    yield Statement(_SQL["insert"], _plain_row(job, now, None, "queued", position, batch.shared))
    if (yield Statement(_SQL["count_new"], (now, job.tenant_id, job.queue, job.kind))):
        return [Enqueued(job.id, "queued", True)]
    return (yield from _answers((job,), 0, now, {}, batch))


def _plain_row(
    job: NewJob, now: int, scheduled_for: int | None, status: Status, position: int | None, shared: Container[str]
) -> Row:
    """The columns that any job has."""
    return (
        job.id,
        job.tenant_id,
        job.kind,
        job.queue,
        status,
        job.priority,
        position,
        job.max_attempts,
        job.max_losses,
        job.backoff_base_ms,
        job.backoff_cap_ms,
        job.timeout_ms,
        job.delivery,
        job.idempotency_key,
        job.unique_key,
        _scope_text(job.unique_scope) if job.unique_key is not None else "[]",
        scheduled_for,
        None if job.expires_at is None else to_micros(job.expires_at),
        now,
        now if status == "queued" else None,
        job.correlation_id,
        job.trace_id,
        job.source,
        job.source_ref,
        job.created_by,
        job.payload,
        job.meta,
        job.template_id,
        job.template_revision,
        job.trigger_id,
        job.tenant_id != DEFAULT_TENANT_ID or job.queue in shared,
    )


def _check_kinds(jobs: Sequence[NewJob], now: int) -> Steps[None]:
    """Refuse jobs of a kind that an operator has deactivated, or that is not for their tenant."""
    rows = yield Statement(_SQL["guarded"], (json_list(sorted({job.kind for job in jobs})),))
    if any(scoped for *_, scoped in rows):
        yield from name_tenants(jobs, now)  # the lists have names
        rows = yield Statement(_SQL["guarded"], (json_list(sorted({job.kind for job in jobs})),))
    guarded = {kind: (active, json.loads(tenants) if scoped else None) for kind, active, tenants, scoped in rows}
    for job in jobs:
        active, tenants = guarded.get(job.kind, (1, None))
        if tenants is not None and job.tenant_id not in tenants:
            raise refusals.kind_unknown(job.kind)
        if not active:
            raise refusals.kind_inactive(job.kind)


def _enqueue_plain(jobs: Sequence[NewJob], batch: _Batch, now: int) -> Steps[list[Enqueued]]:
    rows: list[Row] = []
    for job, start, position in zip(jobs, batch.starts, batch.positions, strict=True):
        status: Status = "scheduled" if position is None else "queued"
        rows.append(_plain_row(job, now, start, status, position, batch.shared))
    new = yield from insert_all("insert", rows)
    if new == len(rows):
        return [Enqueued(row[0], row[4], True) for row in rows]
    return (yield from _answers(jobs, new, now, {}, batch))


def _answers(
    jobs: Sequence[NewJob], new: int, now: int, parents: Mapping[str, str], batch: _Batch
) -> Steps[list[Enqueued]]:
    """What became of jobs of which some were not new: the last `new` rows are."""

    def insert(successors: Mapping[int, NewJob]) -> Steps[list[Enqueued]]:
        some = list(successors.values())
        # the positions that they have in the call: others of it must not overtake them
        positions = [batch.positions[n] for n in successors]
        starts = [batch.starts[n] for n in successors]
        rest = _Batch(starts, positions, batch.metered, batch.shared, batch.guarded)
        return (yield from _insert(some, None, rest, now, parents))

    return (yield from answers(jobs, new, now, insert, batch.met))


def _enqueue_extended(
    jobs: Sequence[NewJob], group: NewGroup | None, batch: _Batch, now: int, parents: Mapping[str, str]
) -> Steps[list[Enqueued]]:
    """Insert the jobs with their trains, `after`, groups and limits; raises `InvalidJob` and `QueueFull`."""
    if group is not None:
        yield make_group(group, now)
    joined = any(job.after or job.group_id is not None for job in jobs)
    windowed = (yield from meet_windows(jobs, now)) if any(job.unique_for_ms is not None for job in jobs) else None
    batch.met.update(windowed or {})
    quotas = (yield from quotas_of(job.tenant_id for job in jobs)) if batch.metered else {}
    quotas = {tenant_id: quota for tenant_id, quota in quotas.items() if quota.of_jobs}
    statuses = yield from _statuses(jobs, batch.starts, now)
    rows = [
        extended_row(
            _plain_row(job, now, start, status, position if _is_in_line(job, start, now) else None, batch.shared),
            job,
            metered=job.tenant_id in quotas,
            parent_id=parents.get(job.id),
        )
        for n, (job, start, status, position) in enumerate(
            zip(jobs, batch.starts, statuses, batch.positions, strict=True)
        )
        if n not in batch.met
    ]
    guarded = {job.queue for job in jobs if job.has_limits}
    if guarded:
        yield guard_queues(sorted(guarded))
    new = yield from insert_all("insert_extended", rows)
    if tagged := [job.id for job in jobs if job.tags]:
        yield index_tags(tagged)
    if new == len(jobs) and not joined and windowed is None:
        if quotas:
            yield from check_jobs(jobs, quotas, parents)
        return [Enqueued(row[0], row[4], True) for row in rows]
    given = yield from _answers(jobs, new, now, parents, batch)
    if windowed is not None:
        given = answer_by_window(jobs, given, windowed)
        yield write_windows(jobs, given, now)
    yield from _join(jobs, given, group, now)
    if quotas:
        made = [job for job, answer in zip(jobs, given, strict=True) if answer.created]
        replaced = {answer.id: job for job, answer in zip(jobs, given, strict=True) if answer.replaced}
        yield from check_jobs(made, quotas, parents, list(replaced.values()))
    found = yield from present([answer.id for answer in given])
    statuses_now = {job_id: status for (job_id, _), status in found.items()}
    return [msgspec.structs.replace(answer, status=statuses_now[answer.id]) for answer in given]


def _statuses(jobs: Sequence[NewJob], starts: Sequence[int | None], now: int) -> Steps[list[Status]]:
    keys = {(job.tenant_id, job.train): None for job in jobs if job.train is not None}
    busy = (yield from busy_trains(keys)) if keys else set()
    return first_statuses(jobs, starts, now, busy)


def _join(jobs: Sequence[NewJob], given: Sequence[Enqueued], group: NewGroup | None, now: int) -> Steps[None]:
    """Add the new jobs' edges and group memberships, and release those that can go already."""
    new = [job for job, answer in zip(jobs, given, strict=True) if answer.created]
    stands_for = {job.id: answer.id for job, answer in zip(jobs, given, strict=True)}
    yield from add_edges([job for job in new if job.after], stands_for)
    later = [job for job in new if job.group_id is not None and (group is None or job.group_id != group.id)]
    if later:
        yield from join_groups(later)
    # a car that met an existing job is not in the train: the one behind it may be first
    trains = {(job.tenant_id, job.train): None for job in jobs if job.train is not None}
    yield from follow(now=now, held=[job.id for job in new if job.after], trains=trains)
