"""Rates: lets in those that wait for a rate that allows another start."""

from __future__ import annotations

from headway.model.bucket import next_at
from headway.model.capacity import rate_key_of
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.order.capacity import Candidate, first_aside, read_capacity
from headway.store.sqlite.order.limited import ALL, let_in

_SQL = statements("order/rates")
_AT_ONCE = 100  # buckets


def refill(now: int) -> Steps[None]:
    """Let in, for each bucket that somebody waits for, as many as may start now."""
    for (key,) in (yield Statement(_SQL["due"], (now, _AT_ONCE))):
        wake_at: int | None = None
        job = yield from _first_aside(key)
        if job is not None:
            capacity = yield from read_capacity([job], now)
            rate = capacity.limits.rate(job)
            if rate is None or rate_key_of(job) != key:
                yield from let_in({key: ALL})  # there is no such rate any more
            else:
                starts = capacity.whole_starts(key)
                if starts:
                    yield from let_in({key: starts})
                if (yield from _first_aside(key)) is not None:
                    wake_at = next_at(rate, capacity.buckets.get(key), now)
        yield Statement(_SQL["wake"], (key, wake_at))


def next_refill() -> Steps[int | None]:
    """When the next bucket should be looked at."""
    ((at,),) = yield Statement(_SQL["next_wake"])
    return None if at is None else int(at)


def _first_aside(key: str) -> Steps[Candidate | None]:
    found = yield from first_aside([key])
    return found[0][2] if found else None
