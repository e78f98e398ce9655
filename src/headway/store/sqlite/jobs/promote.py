"""Promote: queues what is due, cancels what expired, wakes machines whose await timed out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headway.clock import ms_until
from headway.model.departure import Departure
from headway.model.fleet import Promoted
from headway.store.ops import Batch, Op, Rows, Statement, Steps
from headway.store.sqlite.engine.row_by_row import row_by_row
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs
from headway.store.sqlite.jobs.early_end import end_early
from headway.store.sqlite.jobs.positions import positions
from headway.store.sqlite.jobs.unique import holder_of_key, supersede
from headway.store.sqlite.machines.wake import Waiting, late_rows, wake
from headway.store.sqlite.order.arrivals import do_postponed
from headway.store.sqlite.order.follow import follow
from headway.store.sqlite.order.leaving_jobs import leaving_jobs
from headway.store.sqlite.order.postponed import any_postponed
from headway.store.sqlite.order.rates import next_refill, refill

_SQL = statements("jobs/promote")


class PromoteVerbs(Verbs):
    def promote(self, *, limit: int) -> Op[Promoted]:
        def probe() -> Steps[Promoted | None]:
            now = self._clock.now()
            ((due, expired, late, *next_due),) = yield Statement(_SQL["probe"], (now,))
            next_token = yield from next_refill()
            refills = next_token is not None and next_token <= now
            if due or expired or late or refills or (yield from any_postponed()):
                return None
            return Promoted(0, 0, _wait_ms(now, *next_due, next_token))

        def steps(each: _Each = _all_at_once) -> Steps[Promoted]:
            now = self._clock.now()
            yield from do_postponed(now)
            yield from refill(now)
            rows = yield Statement(_SQL["expired"], (now, limit))
            expired = yield from each("expiring", rows, lambda some: _expire(some, now))
            rows = yield Statement(_SQL["due"], (now, limit))
            queued = yield from each("promoting", rows, lambda some: _queue_due(some, now))
            rows = yield from late_rows(now, limit)
            queued += yield from each("timing out", rows, lambda some: _time_out(some, now))
            (next_due,) = yield Statement(_SQL["next_due"])
            next_token = now if (yield from any_postponed()) else (yield from next_refill())
            return Promoted(queued, expired, _wait_ms(now, *next_due, next_token))

        def by_row() -> Steps[Promoted]:
            promoted = yield from steps(_one_by_one)
            # what failed is still due: do not promote again at once
            wait_ms = promoted.next_due_ms
            return msgspec.structs.replace(promoted, next_due_ms=None if wait_ms is None else max(1_000, wait_ms))

        return SqliteOp(steps, writes=True, probe=probe, fallback=SqliteOp(by_row, writes=True))


_Each = Callable[[str, Rows, Callable[[Rows], Steps[int]]], Steps[int]]


def _all_at_once(_duty: str, rows: Rows, work: Callable[[Rows], Steps[int]]) -> Steps[int]:
    return (yield from work(rows))


def _one_by_one(duty: str, rows: Rows, work: Callable[[Rows], Steps[int]]) -> Steps[int]:
    done, _ = yield from row_by_row(duty, rows, work)
    return sum(done)


def _expire(rows: Rows, now: int) -> Steps[int]:
    if rows:
        leaving = yield from leaving_jobs(rowid for (rowid,) in rows)
        ended = yield from end_early(leaving.values(), "expired", now)
        yield from follow(ended, now=now)
    return len(rows)


def _queue_due(rows: Rows, now: int) -> Steps[int]:
    new_positions = iter((yield from positions(sum(row[1] for row in rows))))
    due = []
    ended: list[Departure] = []
    for rowid, first, key, asks in rows:
        move = (rowid, now, next(new_positions) if first else None)
        holder = (yield from holder_of_key(rowid)) if asks else None
        if holder is not None:
            leaving = yield from leaving_jobs([rowid])
            yield from supersede(rowid, key, holder, now)
            ended.append(Departure(leaving[rowid], "canceled"))
        elif asks:
            # at once, not in the batch: the next job with this key must find it taken
            yield Statement(_SQL["queue"], move)
        else:
            due.append(move)
    if due:
        yield Batch(_SQL["queue"], due)
    if ended:
        yield from follow(ended, now=now)
    return len(rows) - len(ended)


def _time_out(rows: Rows, now: int) -> Steps[int]:
    """Queue the machines whose await has timed out."""
    late = [Waiting(*row) for row in rows]
    ended = yield from wake(late, "timeout", now)
    if ended:
        yield from follow(ended, now=now)
    return len(late) - len(ended)


def _wait_ms(now: int, *moments: int | None) -> int | None:
    times = [at for at in moments if at is not None]
    return ms_until(min(times), now) if times else None
