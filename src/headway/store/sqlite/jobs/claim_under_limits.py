"""The claim of a queue that is fair, or whose jobs have partitions or limits: jobs under a full key become limited."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from headway.model import job as model
from headway.model.capacity import Capacity
from headway.model.departure import Departure
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Claim
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.jobs.start import start_these
from headway.store.sqlite.jobs.unique import holder_of_key, key_of, supersede
from headway.store.sqlite.order.capacity import Candidate, read_capacity, write_buckets
from headway.store.sqlite.order.fair import (
    pick_in_turn,
    pick_kinds_in_turn,
    pick_kinds_of_tenant,
    pick_of_tenant,
    serve,
)
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs
from headway.store.sqlite.order.limit_waiters import admit, mark_limited

_SQL = statements("jobs/claim_under_limits")
_ROUNDS = 10
_LEAST_WIDTH, _MOST_WIDTH = 100, 1_000  # candidates per round once some were blocked


def claim_under_limits(
    worker_id: str,
    queue: str,
    limit: int,
    now: int,
    *,
    fair: bool,
    counted: bool,
    tenant_id: str | None = None,
    kinds: Sequence[str] | None = None,
    flows: bool = True,
) -> Steps[list[Claim]]:
    """Take up to `limit` jobs (of these kinds), none over a limit. `counted`: the queue has its own limit, which
    `limit` respects. `fair`: tenants take turns; or with `tenant_id`, whose jobs alone are taken then: they are in the
    index of tenants. `flows`: flows, too."""
    claims: list[Claim] = []
    room = model.CLAIM_BYTES
    width = limit
    for _ in range(_ROUNDS if limit > 0 else 0):
        if kinds is not None:
            jobs = yield from _pick_kinds(queue, kinds, tenant_id, width, now, fair=fair, flows=flows)
        elif tenant_id is not None:
            jobs = yield from _pick_of_tenant(queue, tenant_id, width, now, indexed=fair, flows=flows)
        else:
            jobs = yield from (
                pick_in_turn(queue, width, now, flows=flows) if fair else _pick(queue, width, now, flows=flows)
            )
        jobs = _fitting(jobs, room, at_least=0 if claims else 1)
        if not jobs:
            break
        capacity = yield from read_capacity(jobs, now)
        chosen, blocked = capacity.choose(jobs, limit - len(claims))
        taken = yield from _take(worker_id, chosen, capacity, now, counted=counted)
        claims += taken
        room -= sum(job.bytes for job in chosen)
        if fair and taken and tenant_id is None:
            yield serve(queue, taken[-1].tenant_id)
        yield from _mark_limited(blocked, chosen, capacity, now)
        passed = yield from _end_superseded(chosen, taken, now)
        if len(claims) >= limit or not (blocked or passed):
            break
        width = max(limit - len(claims), min(_MOST_WIDTH, max(_LEAST_WIDTH, 2 * width)))
    return claims


def claim_one(worker_id: str, job_id: str, now: int, *, counted: bool) -> Steps[Claim | None]:
    """Take exactly this job, unless a limit is full."""
    rows = yield Statement(_SQL["candidate"], (job_id, now))
    if not rows:
        return None
    job = Candidate(*rows[0])
    capacity = yield from read_capacity([job], now)
    if capacity.full(job) is not None:
        return None
    capacity.take(job)
    taken = yield from _take(worker_id, [job], capacity, now, counted=counted)
    yield from write_buckets(capacity, [job], [], now)
    yield from _end_superseded([job], taken, now)
    return taken[0] if taken else None


def _fitting(jobs: list[Candidate], room: int, *, at_least: int) -> list[Candidate]:
    """The first jobs, as many as fit into this many bytes."""
    for count, total in enumerate(accumulate(job.bytes for job in jobs)):
        if total > room and count >= at_least:
            return jobs[:count]
    return jobs


def _pick(queue: str, count: int, now: int, *, flows: bool) -> Steps[list[Candidate]]:
    rows = yield Statement(_SQL["candidates"], (queue, now, count, flows))
    return [Candidate(*row) for row in rows]


def _pick_of_tenant(
    queue: str, tenant_id: str, count: int, now: int, *, indexed: bool, flows: bool
) -> Steps[list[Candidate]]:
    """By the index of tenants. Until that is complete, it lacks the default tenant's jobs and those that a process of
    an older version enqueued: they are looked for among the first, so that no claim reads everybody's backlog."""
    if indexed or tenant_id != DEFAULT_TENANT_ID:
        found = yield from pick_of_tenant(queue, tenant_id, count, now, flows=flows)
        if found or indexed:
            return found
    rows = yield Statement(_SQL["candidates_of_tenant"], (queue, now, count, tenant_id, _MOST_WIDTH, flows))
    return [Candidate(*row) for row in rows]


def _pick_kinds(
    queue: str, kinds: Sequence[str], tenant_id: str | None, count: int, now: int, *, fair: bool, flows: bool
) -> Steps[list[Candidate]]:
    """Those of some kinds, among the first jobs; the others stay as they are. `fair` as for the claim."""
    if fair and tenant_id is None:
        return (yield from pick_kinds_in_turn(queue, kinds, count, now, flows=flows))
    if fair or tenant_id not in (None, DEFAULT_TENANT_ID):
        found = yield from pick_kinds_of_tenant(queue, tenant_id or "", kinds, count, now, flows=flows)
        if found or fair:
            return found
    rows = yield Statement(_SQL["candidates_of_kinds"], (queue, now, count, tenant_id, json_list(kinds), flows))
    return [Candidate(*row) for row in rows]


def _take(
    worker_id: str, jobs: Sequence[Candidate], capacity: Capacity, now: int, *, counted: bool
) -> Steps[list[Claim]]:
    """Start these; gives their claims in order. One that would enter a taken unique scope stays queued."""
    found: dict[int, Claim] = {}
    by_mark: dict[int, list[int]] = {}
    for job in jobs:
        by_mark.setdefault(1 if counted else capacity.limits.counts_as(job), []).append(job.rowid)
    for mark, rowids in by_mark.items():
        found |= yield from start_these(worker_id, rowids, now, limited=mark)
    return [found[job.rowid] for job in jobs if job.rowid in found]


def _mark_limited(
    blocked: Sequence[tuple[Candidate, str]], chosen: Sequence[Candidate], capacity: Capacity, now: int
) -> Steps[None]:
    yield from write_buckets(capacity, chosen, [job for job, key in blocked if key.startswith("r:")], now)
    if not blocked:
        return
    yield from mark_limited([(job.rowid, key) for job, key in blocked])
    # it may have been admitted for another of its keys, which has room: admit another job instead
    freed: dict[str, int] = {}
    for job, full in blocked:
        for key in capacity.open_keys(job):
            if key != full:
                freed[key] = freed.get(key, 0) + 1
    if freed:
        yield from admit(freed)


def _end_superseded(chosen: Sequence[Candidate], taken: Sequence[Claim], now: int) -> Steps[int]:
    """End those that could not start because another job has their unique key; gives how many."""
    if len(taken) == len(chosen):
        return 0
    running = {claim.id for claim in taken}
    left = [job for job in chosen if job.id not in running]
    return (yield from end_superseded([job.rowid for job in left], now))


def end_superseded(rowids: Sequence[int], now: int) -> Steps[int]:
    """End those of these queued jobs whose unique key another job holds; else every claim would try them again."""
    ended: list[Departure] = []
    leaving = (yield from leaving_jobs(rowids)) if rowids else {}
    for rowid, job in leaving.items():
        holder = yield from holder_of_key(rowid)
        if holder is not None:
            key = yield from key_of(rowid)
            yield from supersede(rowid, key, holder, now)
            ended.append(Departure(job, "canceled"))
    if ended:
        yield from follow(ended, now=now)
    return len(ended)
