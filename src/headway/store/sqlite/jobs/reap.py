"""Reap: ends the executions that were lost with their worker, and removes that worker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from headway.model import audit, refusals
from headway.model.fleet import Reaped
from headway.model.loss import lost
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.sqlite.engine.row_by_row import row_by_row
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list
from headway.store.sqlite.fleet.workers import remove_workers
from headway.store.sqlite.jobs.audit import record
from headway.store.sqlite.jobs.ending import Ending, Running, ending, write_attempts, write_endings
from headway.store.sqlite.machines.turns import attempt_of_machine, write_machine_attempts
from headway.store.sqlite.order.follow import follow_ends

_SQL = statements("jobs/reap")
_RUNNING = len(Running.__struct_fields__)


class ReapVerbs(Verbs):
    def reap(self, gone: Sequence[str], *, limit: int, by: str | None = None) -> Op[list[Reaped]]:
        names = json_list(gone)

        def probe() -> Steps[list[Reaped] | None]:
            over = yield from _expired_by(by, self._clock.now())
            ((expired, orphaned),) = yield Statement(_SQL["probe"], (over, names))
            return None if expired or orphaned else []

        def steps() -> Steps[list[Reaped]]:
            now = self._clock.now()
            over = yield from _expired_by(by, now)
            rows = yield Statement(_SQL["pick"], (over, names, limit, False))
            reaped = yield from _lose([row for row in rows if not row[-1]], now)
            yield from _remove(over, names, now)
            return reaped + _committed(rows)

        def each() -> Steps[list[Reaped]]:
            now = self._clock.now()
            over = yield from _expired_by(by, now)
            rows = yield Statement(_SQL["pick"], (over, names, limit, True))
            lost_rows = [row for row in rows if not row[-1]]
            done, failed = yield from row_by_row("reaping", lost_rows, lambda row: _lose(row, now))
            yield from _remove(over, names, now)
            faults = [Reaped(row[1], row[2], row[_RUNNING], row[3], None, reason) for row, reason in failed]
            return [one for reaped in done for one in reaped] + faults + _committed(rows)

        return SqliteOp(steps, writes=True, probe=probe, fallback=SqliteOp(each, writes=True))

    def declare_dead(self, worker_id: str, *, actor: str | None) -> Op[list[Reaped]]:
        def steps() -> Steps[list[Reaped]]:
            now = self._clock.now()
            found = yield Statement(_SQL["name"], (worker_id,))
            if not found:
                raise refusals.no_such_worker(worker_id)
            rows = yield Statement(_SQL["pick_of_worker"], (worker_id,))
            reaped = (yield from _lose([row for row in rows if not row[-1]], now)) + _committed(rows)
            yield from remove_workers([worker_id], now, left=False)
            detail = audit.worker_dead(worker_id, found[0][0], len(reaped))
            yield record(now, None, None, actor, "worker.dead", detail)
            return reaped

        return SqliteOp(steps, writes=True, repeatable=False)


def _remove(over: int, names: str, now: int) -> Steps[None]:
    rows = yield Statement(_SQL["removable"], (over, names))
    yield from remove_workers([worker_id for (worker_id,) in rows], now, left=False)


def _expired_by(by: str | None, now: int) -> Steps[int]:
    """The time up to which ended leases count: now, or 0 (none do) if the reaper's own heartbeats were late."""
    if by is None:
        return now
    ((steady,),) = yield Statement(_SQL["steady"], (by, now))
    return now if steady else 0


def _lose(rows: Rows, now: int) -> Steps[list[Reaped]]:
    if not rows:
        return []
    endings = [_lost(row) for row in rows]
    yield write_attempts([_attempt(end, now) for end in endings if not end.job.machine])
    yield from write_machine_attempts(
        [attempt_of_machine(_attempt(end, now), end, None) for end in endings if end.job.machine]
    )
    ends = yield from write_endings(endings, now)
    if ends is not None:
        yield from follow_ends(ends, now)
    return [
        Reaped(end.job.id, end.job.fence, row[_RUNNING], end.job.worker_id, end.to)
        for row, end in zip(rows, endings, strict=True)
    ]


def _committed(rows: Rows) -> list[Reaped]:
    """Those whose handlers committed their outcomes."""
    return [Reaped(row[1], row[2], row[_RUNNING], row[3], None, committed=True) for row in rows if row[-1]]


def _attempt(end: Ending, now: int) -> tuple[Any, ...]:
    job = end.job
    return (
        job.id, job.fence, "lost", job.started_at, now, job.worker_id, end.error, None, job.log_tail, None,
        None,
    )  # fmt: skip


def _lost(row: Row) -> Ending:
    job = Running(*row[:_RUNNING])
    _, worker, stopping, delivery, tries, losses, max_attempts, max_losses, *rest = row[_RUNNING:]
    base_ms, cap_ms, recorded, _ = rest
    # a flow that recorded something was not stopped by what it does: its losses count from 0 again
    base = 0 if recorded else losses
    loss = lost(
        worker or job.worker_id,
        stopping=bool(stopping),
        canceling=bool(job.canceling),
        delivery=delivery,
        tries=tries,
        losses=base,
        max_attempts=max_attempts,
        max_losses=max_losses,
        backoff_base_ms=base_ms,
        backoff_cap_ms=cap_ms,
        jitter=random.random(),
    )
    return ending(job, loss.to, "lost", loss=base + loss.charge - losses, delay_ms=loss.delay_ms, error=loss.error)
