"""Rates: admits jobs that wait for a rate once it has tokens again."""

from __future__ import annotations

from headway.model.bucket import next_at
from headway.model.capacity import rate_key_of
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.order.capacity import Candidate, read_capacity
from headway.store.sqlite.order.limit_waiters import ALL, admit, first_limited

_SQL = statements("order/rates")
_AT_ONCE = 100  # buckets per call


def refill(now: int) -> Steps[None]:
    """Admit, for each bucket that jobs wait for, as many as may start now."""
    for (key,) in (yield Statement(_SQL["due"], (now, _AT_ONCE))):
        refill_at: int | None = None
        job = yield from _first_limited(key)
        if job is not None:
            capacity = yield from read_capacity([job], now)
            rate = capacity.limits.rate(job)
            if rate is None or rate_key_of(job) != key:
                yield from admit({key: ALL})  # there is no such rate any more
            else:
                starts = capacity.whole_starts(key)
                if starts:
                    yield from admit({key: starts})
                if (yield from _first_limited(key)) is not None:
                    refill_at = next_at(rate, capacity.buckets.get(key), now)
        yield set_refill(key, refill_at)


def next_refill() -> Steps[int | None]:
    """When the next bucket that jobs wait for has a token."""
    ((at,),) = yield Statement(_SQL["next_refill"])
    return None if at is None else int(at)


def set_refill(key: str, at: int | None) -> Statement:
    """Sets when a bucket has a token for the jobs that wait for it; None: none do."""
    return Statement(_SQL["set_refill"], (key, at))


def _first_limited(key: str) -> Steps[Candidate | None]:
    found = yield from first_limited([key])
    return found[0][2] if found else None
