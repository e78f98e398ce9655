"""Claim, release, and what a worker reports and asks about the jobs it runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model import job as model
from headway.model import refusals
from headway.model.job import Claim, Logged, Report
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.jobs.claim_under_limits import claim_one, claim_under_limits, end_superseded
from headway.store.sqlite.jobs.ending import read_running, write_releases
from headway.store.sqlite.jobs.start import start_first
from headway.store.sqlite.order.arrivals import do_postponed
from headway.store.sqlite.order.fair import index_tenants
from headway.store.sqlite.order.follow import follow_ends
from headway.store.sqlite.order.rates import refill

_SQL = statements("jobs/claim")


class _QueueState(msgspec.Struct, frozen=True, array_like=True):
    """A queue as one probe finds it."""

    registered: int
    closed: int  # paused or reserved
    work: int
    refills: int  # a rate has tokens again for jobs that it limits
    arrived: int  # postponed work
    indexed: int  # all its unfinished jobs are in the index of tenants
    unfair: int
    marked: int  # this index has a queued one, of any tenant but the default one
    shared: int  # and one of another tenant
    guarded: int
    limits: int  # some kind or tenant has a limit
    max_running: int | None


class ClaimVerbs(Verbs):
    def claim(
        self,
        worker_id: str,
        queue: str,
        limit: int,
        *,
        tenant_id: str | None = None,
        kinds: Sequence[str] | None = None,
        flows: bool = True,
    ) -> Op[list[Claim]]:
        def steps() -> Steps[list[Claim]]:
            now = self._clock.now()
            found = yield from _read_queue(worker_id, queue, now)
            if not found.closed and (found.refills or (found.arrived and not found.work)):
                yield from refill(now)
                if not found.work:
                    yield from do_postponed(now)
                found = yield from _read_queue(worker_id, queue, now)
            if found.closed or not found.work:
                return []
            _check_registered(worker_id, found.registered)
            if found.marked and not found.indexed and (yield from index_tenants(queue)):
                found = yield from _read_queue(worker_id, queue, now)
            in_turn = bool(found.indexed and found.shared and not found.unfair)
            room = yield from _free_slots(found, queue, limit)
            counted = found.max_running is not None
            if (
                in_turn
                or found.guarded
                or counted
                or tenant_id is not None
                or kinds is not None
                or (not flows and (yield from _any_flow(queue, limit, now)))
                or (found.limits and (yield from _any_limited(queue, limit, now)))
            ):
                return (
                    yield from claim_under_limits(
                        worker_id,
                        queue,
                        room,
                        now,
                        fair=in_turn if tenant_id is None else bool(found.indexed),
                        counted=counted,
                        tenant_id=tenant_id,
                        kinds=kinds,
                        flows=flows,
                    )
                )
            most = yield from _fitting(queue, limit, now)
            claims = yield from start_first(worker_id, queue, most, now)
            if len(claims) < most:
                left = yield Statement(_SQL["left"], (queue, now, most))
                if left:
                    yield from end_superseded([rowid for (rowid,) in left], now)
            return claims

        return SqliteOp(steps, writes=True, repeatable=False, probe=lambda: self.probe_claim(worker_id, queue, limit))

    def probe_claim(self, worker_id: str, queue: str, limit: int) -> Steps[list[Claim] | None]:
        """Nothing, if a claim would find nothing; None: it may find something."""
        now = self._clock.now()
        found = yield from _read_queue(worker_id, queue, now)
        if found.closed or not (found.work or found.refills or found.arrived):
            return []
        if found.work:
            _check_registered(worker_id, found.registered)
        return None if (yield from _free_slots(found, queue, limit)) > 0 else []

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            running = yield from read_running([job_id for job_id, _ in claims])
            fences = set(claims)
            ours = [job for job in running.values() if (job.id, job.fence) in fences]
            now = self._clock.now()
            ends = yield from write_releases(ours, delay_ms, now)
            yield from follow_ends(ends, now)
            return len(ours)

        return SqliteOp(steps, writes=True)

    def claimable(self, queues: Sequence[str]) -> Op[list[str]]:
        names = json_list(queues)

        def steps() -> Steps[list[str]]:
            rows = yield Statement(_SQL["claimable"], (names, self._clock.now()))
            return [name for (name,) in rows]

        return SqliteOp(steps, writes=False)

    def first_in_line(
        self, queues: Sequence[str], tenants: Sequence[tuple[str, str]]
    ) -> Op[list[tuple[str, str, str]]]:
        asked = (json_list(queues), json_list(tenants))

        def steps() -> Steps[list[tuple[str, str, str]]]:
            rows = yield Statement(_SQL["first_in_line"], (*asked, self._clock.now()))
            return [(queue, tenant_id, kind) for queue, tenant_id, kind in rows]

        return SqliteOp(steps, writes=False)

    def take(self, worker_id: str, job_id: str, *, reservation_id: str | None) -> Op[Claim | None]:
        def steps() -> Steps[Claim | None]:
            now = self._clock.now()
            ((registered,),) = yield Statement(_SQL["registered"], (worker_id,))
            _check_registered(worker_id, registered)
            rows = yield Statement(_SQL["queue_of"], (job_id,))
            if not rows:
                return None
            queue = rows[0][0]
            ((reserved,),) = yield Statement(_SQL["reserved"], (queue, reservation_id, now))
            if reserved:
                return None
            limits = yield Statement(_SQL["most"], (queue,))
            counted = bool(limits) and limits[0][0] is not None
            if counted:
                ((running,),) = yield Statement(_SQL["running_limited"], (queue,))
                if running >= limits[0][0]:
                    return None
            return (yield from claim_one(worker_id, job_id, now, counted=counted))

        return SqliteOp(steps, writes=True, repeatable=False)

    def running(self, worker_id: str, *, tenant_id: str | None = None) -> Op[list[tuple[str, int]]]:
        def steps() -> Steps[list[tuple[str, int]]]:
            rows = yield Statement(_SQL["running"], (worker_id, tenant_id))
            return [(job_id, fence) for job_id, fence in rows]

        return SqliteOp(steps, writes=False)

    def logged(self, ids: Sequence[str]) -> Op[list[Logged]]:
        def steps() -> Steps[list[Logged]]:
            return [Logged(*row) for row in (yield Statement(_SQL["logged"], (json_list(ids),)))]

        return SqliteOp(steps, writes=False)

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        def steps() -> Steps[list[tuple[str, int]]]:
            if reports:
                yield Batch(
                    _SQL["report"],
                    [
                        (said.id, said.fence, said.progress, said.note, said.tail, said.tail_end, said.said)
                        for said in reports
                    ],
                )
            return (yield from canceling(worker_id))

        return SqliteOp(steps, writes=bool(reports))


def canceling(worker_id: str) -> Steps[list[tuple[str, int]]]:
    """The (id, fence) of the worker's running jobs that were asked to stop."""
    rows = yield Statement(_SQL["canceling"], (worker_id,))
    return [(job_id, fence) for job_id, fence in rows]


def _read_queue(worker_id: str, queue: str, now: int) -> Steps[_QueueState]:
    rows = yield Statement(_SQL["probe"], (worker_id, queue, now))
    return _QueueState(*rows[0])


def _any_limited(queue: str, limit: int, now: int) -> Steps[bool]:
    """Whether one of the jobs that would be taken is under a limit of its kind or tenant."""
    ((concerned,),) = yield Statement(_SQL["any_limited"], (queue, now, limit))
    return bool(concerned)


def _any_flow(queue: str, limit: int, now: int) -> Steps[bool]:
    """Whether one of the jobs that would be taken is a flow."""
    ((concerned,),) = yield Statement(_SQL["any_flow"], (queue, now, limit))
    return bool(concerned)


def _free_slots(found: _QueueState, queue: str, limit: int) -> Steps[int]:
    """How many jobs the queue's own limit allows to start now."""
    if found.max_running is None:
        return limit
    ((running,),) = yield Statement(_SQL["running_limited"], (queue,))
    return min(limit, found.max_running - int(running))


def _fitting(queue: str, limit: int, now: int) -> Steps[int]:
    """How many jobs, of this limit, fit into one claim by their bytes; at least one."""
    if limit <= 1:
        return limit
    ((size,),) = yield Statement(_SQL["first_bytes"], (queue, now, limit))
    if size <= model.CLAIM_BYTES:
        return limit
    ((fitting,),) = yield Statement(_SQL["fitting"], (queue, now, limit, model.CLAIM_BYTES))
    return max(int(fitting), 1)


def _check_registered(worker_id: str, registered: int) -> None:
    if not registered:
        raise refusals.not_registered(worker_id)
