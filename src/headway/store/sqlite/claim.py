"""Claim, and what a worker asks and says about the jobs it runs."""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import LeaseLost
from headway.model.job import Claim, Report
from headway.store.ops import Batch, Op, Statement, Steps
from headway.store.sqlite.ending import holder_of_key, superseded
from headway.store.sqlite.op import SqliteOp, Verbs
from headway.store.sqlite.sql import statements

_SQL = statements("claim")
_CANCEL = statements("cancel")


class ClaimVerbs(Verbs):
    def claim(self, worker_id: str, queue: str, limit: int) -> Op[list[Claim]]:
        def probe() -> Steps[list[Claim] | None]:
            return [] if not (yield from self._has_work(worker_id, queue)) else None

        def steps() -> Steps[list[Claim]]:
            if not (yield from self._has_work(worker_id, queue)):
                return []
            now = self._clock.now()
            rows = yield Statement(_SQL["take"], (worker_id, queue, now, limit))
            if len(rows) < limit:
                yield from _cancel_superseded(queue, now, limit)
            rows.sort()  # by priority, position, id: returning has no order
            return [Claim(*row[2:]) for row in rows]

        return SqliteOp(steps, writes=True, repeatable=False, probe=probe)

    def _has_work(self, worker_id: str, queue: str) -> Steps[bool]:
        ((registered, paused, found),) = yield Statement(_SQL["probe"], (worker_id, queue, self._clock.now()))
        if not registered:
            raise LeaseLost(
                f"worker {worker_id} is not registered (any more): its lease ran out and it was reaped; "
                "register again under a new id"
            )
        return bool(found) and not paused

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        def steps() -> Steps[list[tuple[str, int]]]:
            rows = yield Statement(_SQL["running"], (worker_id,))
            return [(job_id, fence) for job_id, fence in rows]

        return SqliteOp(steps, writes=False)

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        def steps() -> Steps[list[tuple[str, int]]]:
            if reports:
                yield Batch(
                    _SQL["report"],
                    [(said.id, said.fence, said.progress, said.note, said.tail) for said in reports],
                )
            return (yield from canceling(worker_id))

        return SqliteOp(steps, writes=bool(reports))


def canceling(worker_id: str) -> Steps[list[tuple[str, int]]]:
    """The (id, fence) of the worker's running jobs that were asked to stop."""
    rows = yield Statement(_SQL["canceling"], (worker_id,))
    return [(job_id, fence) for job_id, fence in rows]


def _cancel_superseded(queue: str, now: int, limit: int) -> Steps[None]:
    """End the jobs that may not run because another with their key does; every claim would look at them."""
    rows = yield Statement(_SQL["left"], (queue, now, limit))
    for rowid, _, key in rows:
        holder = yield from holder_of_key(rowid)
        if holder is not None:
            yield Statement(_CANCEL["supersede"], (rowid, now, superseded(key, holder)))
