"""The enqueue of jobs that are tied to others, or of a tenant with quotas or a fair queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headway.errors import InvalidJob
from headway.model.group import NewGroup
from headway.model.job import Enqueued, NewJob
from headway.model.status import Status
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.insert import answers, insert_all, placed_row, plain_row, present, tied_row
from headway.store.sqlite.jobs.quotas import check_jobs, quotas_of
from headway.store.sqlite.order.departures import TrainKey
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.joins import add_edges
from headway.store.sqlite.order.next_car import busy_trains

_SQL = statements("jobs/enqueue")
_GROUPS = statements("order/groups")
_EDGE = statements("order/joins")["add"]


def any_tied(jobs: Iterable[NewJob]) -> bool:
    """Whether one of them carries anything that a plain job's row does not have."""
    return any(
        job.train is not None
        or job.partition is not None
        or job.concurrency is not None
        or job.rate_count is not None
        or job.group_id is not None
        or job.after != ()
        or job.on_canceled != "advance"
        or job.on_dead != "advance"
        or job.place is not None
        for job in jobs
    )


def enqueue_tied(
    jobs: Sequence[NewJob],
    group: NewGroup | None,
    starts: Sequence[int | None],
    places: Sequence[int | None],
    now: int,
    *,
    metered: int,
    fair: int,
    parents: Mapping[str, str],
) -> Steps[list[Enqueued]]:
    """Insert the jobs as their trains, `after` and groups demand; raises `InvalidJob` and `QueueFull`.

    `parents` are the machines that spawn them, by the id of the child."""
    if group is not None:
        yield Statement(
            _GROUPS["new"], (group.id, group.tenant_id, group.mode, group.on_failure, group.callback_id, now)
        )
    joined = any(job.after or job.group_id is not None for job in jobs)
    quotas = (yield from quotas_of(job.tenant_id for job in jobs)) if metered else {}
    quotas = {tenant_id: quota for tenant_id, quota in quotas.items() if quota.of_jobs}
    fair_queues = {name for (name,) in (yield Statement(_SQL["fair"]))} if fair else set()
    statuses = yield from _statuses(jobs, starts, now)
    rows = [
        tied_row(
            plain_row(job, now, start, status, place),
            job,
            metered=job.tenant_id in quotas,
            fair=job.queue in fair_queues,
        )
        for job, start, status, place in zip(jobs, starts, statuses, places, strict=True)
    ]
    placed = bool(parents) or any(job.place is not None for job in jobs)
    if placed:
        rows = [placed_row(row, job.place, parents.get(job.id)) for row, job in zip(rows, jobs, strict=True)]
    guarded = {job.queue: (job.queue,) for job in jobs if _is_guarded(job)}
    if guarded:
        yield Batch(_SQL["guard"], list(guarded.values()))
    new = yield from insert_all("insert_placed" if placed else "insert_tied", rows)
    if new == len(rows) and not joined:
        if quotas:
            yield from check_jobs(jobs, rows, quotas, new, parents)
        return [Enqueued(row[0], row[4], True) for row in rows]
    given = yield from answers(jobs, new)
    yield from _join(jobs, given, group, now)
    if new and quotas:
        yield from check_jobs(jobs, rows, quotas, new, parents)
    found = yield from present([answer.id for answer in given])
    statuses_now = {job_id: status for (job_id, _), status in found.items()}
    return [Enqueued(answer.id, statuses_now[answer.id], answer.created) for answer in given]


def _is_guarded(job: NewJob) -> bool:
    return job.partition is not None or job.concurrency is not None or job.rate_count is not None


def _statuses(jobs: Sequence[NewJob], starts: Sequence[int | None], now: int) -> Steps[list[Status]]:
    """Where each job begins: the first car of a train that nobody is in is its locomotive."""
    keys = {(job.tenant_id, job.train): None for job in jobs if job.train is not None}
    busy = (yield from busy_trains(keys)) if keys else set()
    statuses: list[Status] = []
    for job, start in zip(jobs, starts, strict=True):
        status: Status = "scheduled" if start is not None and start > now else "queued"
        if job.after:
            status = "held"
        if job.train is not None:
            key: TrainKey = (job.tenant_id, job.train)
            if key in busy:
                status = "held"
            busy.add(key)
        statuses.append(status)
    return statuses


def _join(jobs: Sequence[NewJob], given: Sequence[Enqueued], group: NewGroup | None, now: int) -> Steps[None]:
    """Tie the new jobs to those that they wait for and to their groups, and let go what can go already."""
    new = [job for job, answer in zip(jobs, given, strict=True) if answer.created]
    stands_for = {job.id: answer.id for job, answer in zip(jobs, given, strict=True)}
    yield from add_edges([job for job in new if job.after], stands_for)
    later = [job for job in new if job.group_id is not None and (group is None or job.group_id != group.id)]
    if later:
        yield from _join_groups(later)
    # a car that met an existing job may have left the seat empty to those behind it
    trains = {(job.tenant_id, job.train): None for job in jobs if job.train is not None}
    yield from follow(now=now, children=[job.id for job in new if job.after], trains=trains)


def _join_groups(members: Iterable[NewJob]) -> Steps[None]:
    """Let the callbacks of groups that are there already wait for these new members, too."""
    by_group: dict[str, list[NewJob]] = {}
    for job in members:
        if job.group_id is not None:
            by_group.setdefault(job.group_id, []).append(job)
    rows = yield Statement(_GROUPS["joined"], (json_list(list(by_group)),))
    found = {row[0]: row[1:] for row in rows}
    for group_id, jobs in by_group.items():
        tenant_id, on_failure, stopped_at, callback_id, callback = found.get(group_id, (None,) * 5)
        if any(job.tenant_id != tenant_id for job in jobs):
            raise InvalidJob(f"group {group_id} does not exist (or is another tenant's): nothing was enqueued")
        if stopped_at is not None:
            raise InvalidJob(f"group {group_id} was stopped: nothing was enqueued; retry the group, or make a new one")
        if callback_id is None:
            continue
        if callback != "held":
            raise InvalidJob(
                f"group {group_id} is over, its callback {callback_id} is {callback or 'gone'}: "
                "nothing was enqueued; make a new group"
            )
        policy = "continue" if on_failure == "continue" else "stop"
        yield Batch(_EDGE, [(job.id, callback_id, 0, tenant_id, policy, "pending", None) for job in jobs])
