"""Buckets: what a rate remembers of its starts, and how many more it allows. `rates.sql` has the same arithmetic."""

from __future__ import annotations

from math import ceil

import msgspec

SLOTS = 64
"""A period is remembered in this many parts: few enough to read at each claim; a start is free again at most 1/64 of
the period late."""
_A_MINUTE_US = 60_000_000


class Rate(msgspec.Struct, frozen=True):
    """How many starts in a period. With a burst it is a token bucket of that size, which fills evenly: up to `burst`
    at once, and up to `count + burst` in a period. Without, never more than `count` in any period, however it is cut.
    """

    count: int
    period_us: int
    burst: int | None = None

    @property
    def slot_us(self) -> int:
        return max(1, self.period_us // SLOTS)


class Bucket(msgspec.Struct, frozen=True):
    """The starts of a rate. A rate without a bucket has had none lately."""

    at: int = 0
    tokens: float = 0.0  # with a burst: what was left at `at`
    starts: tuple[tuple[int, int], ...] = ()  # without: the last start of each slot, and how many there were


def room(rate: Rate, bucket: Bucket | None, now: int) -> float:
    """How many more may start now; below 1 nothing may."""
    if rate.burst is None:
        return float(rate.count - sum(count for _, count in _recent(rate, bucket, now)))
    if bucket is None:
        return float(rate.burst)
    return min(float(rate.burst), bucket.tokens + max(0, now - bucket.at) * rate.count / rate.period_us)


def start(rate: Rate, bucket: Bucket | None, many: int, now: int) -> Bucket:
    """The bucket after this many have started."""
    if rate.burst is not None:
        return Bucket(at=_time(bucket, now), tokens=max(0.0, room(rate, bucket, now) - many))
    starts = {at // rate.slot_us: (at, count) for at, count in _recent(rate, bucket, now)}
    if many:
        slot = now // rate.slot_us
        last, count = starts.get(slot, (now, 0))
        # a claim that began earlier may come later: what counts is the last start of the slot
        starts[slot] = (max(last, now), count + many)
    return Bucket(at=now, starts=tuple(starts.values()))


def next_at(rate: Rate, bucket: Bucket | None, now: int) -> int:
    """When one more may start than may now."""
    if rate.burst is not None:
        missing = 1 - (room(rate, bucket, now) + 1e-9) % 1
        return _time(bucket, now) + max(1, ceil(missing * rate.period_us / rate.count))
    return min((at for at, _ in _recent(rate, bucket, now)), default=now) + rate.period_us


def forget_at(rate: Rate, bucket: Bucket) -> int:
    """When the bucket can be forgotten: from then on it says the same as a missing one."""
    if rate.burst is not None:
        return bucket.at + max(1, ceil((rate.burst - bucket.tokens) * rate.period_us / rate.count))
    return max((at for at, _ in bucket.starts), default=bucket.at) + rate.period_us


def _time(bucket: Bucket | None, now: int) -> int:
    """Now, or when it was last taken from, by a claim that began later and came first. Further ahead than a claim can
    be, the clock was set back, and now counts."""
    return bucket.at if bucket is not None and now < bucket.at < now + _A_MINUTE_US else now


def _recent(rate: Rate, bucket: Bucket | None, now: int) -> list[tuple[int, int]]:
    return [] if bucket is None else [each for each in bucket.starts if each[0] > now - rate.period_us]
