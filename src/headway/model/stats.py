"""What was counted: the numbers of a minute, hour or day, and times in buckets from which quantiles are read.

Every end of an execution, every enqueue and every cancel leaves a `Delta` in its own transaction; `facts` adds deltas
up to minutes. PostgreSQL does the same in `stats/fold.sql`, with the same bounds and words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

import msgspec

Span = Literal["minute", "hour", "day"]
SPANS: tuple[Span, ...] = get_args(Span)
By = Literal["tenant", "queue", "kind"]
SPAN_MS: dict[Span, int] = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}

STAT_RETENTIONS: dict[str, Span] = {"stats_minutes": "minute", "stats_hours": "hour", "stats_days": "day"}
"""The names of their retentions."""

COUNTS = ("enqueued", "started", "succeeded", "failed", "retried", "dead", "canceled", "lost")
"""What is counted, in the order of the columns."""

BOUNDS_MS: tuple[int, ...] = (1, *sorted(n << shift for shift in range(30) for n in (2, 3)), 1 << 31)
"""Where the buckets of times end, each a third or a half above the one before: 1 ms, 2, 3, 4, 6, 8, 12 … 25 days.

A time is in bucket `n` if it is at least `BOUNDS_MS[n - 1]` and less than `BOUNDS_MS[n]`; histograms over the same
bounds are added bucket by bucket.
"""
_HISTOGRAMS = msgspec.json.Decoder(list[dict[int, int]])
LONGEST_MS = (1 << 31) - 1  # what a delta can hold

SAMPLES = 32
"""If a transaction ends more executions than this, it keeps the times of about this many as a sample."""

MOST_KINDS = 250
"""How many queues and kinds a tenant has in the numbers of one day; what comes later that day counts as `OTHER`."""
OTHER = "(other)"  # not a name that a queue or kind can have

ALL_TENANTS = "00000000-0000-0000-0000-000000000000"
"""The tenant of the sums over all tenants."""
Level = Literal["kinds", "queues", "tenants", "total"]
"""What a row is of: a tenant's queue and kind; a queue of all tenants; a tenant; everything. The last three are sums,
with an empty queue or kind, so that a page reads one row for each span, not one for each tenant and kind."""

Times = dict[int, int]
"""How many times fell into each bucket, without the empty ones."""
Key = tuple[str, str, str]
"""A tenant's id, a queue and a kind."""


def sums_of(key: Key) -> tuple[Key, ...]:
    """The sums that a key is part of."""
    tenant_id, queue, _ = key
    return (tenant_id, "", ""), (ALL_TENANTS, queue, ""), (ALL_TENANTS, "", "")


def at_level(key: Key, level: Level) -> Key:
    """The row of that level that a key is part of."""
    return key if level == "kinds" else sums_of(key)[("tenants", "queues", "total").index(level)]


class Delta(msgspec.Struct):
    """What one transaction did to the jobs of one tenant, queue and kind."""

    enqueued: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    canceled: int = 0
    lost: int = 0
    ended: int = 0  # executions
    waits: list[int] = []  # of some of them: milliseconds from queued to started
    runs: list[int] = []  # and from started to ended


class Numbers(msgspec.Struct):
    """What happened in one span of time, to the jobs of one tenant, queue and kind."""

    enqueued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    canceled: int = 0
    lost: int = 0
    waits: Times = {}
    runs: Times = {}
    depth: int | None = None  # the most that any sample found queued; None: no sample found any
    oldest_ms: int | None = None

    def add(self, other: Numbers) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.waits = added(self.waits, other.waits)
        self.runs = added(self.runs, other.runs)
        self.depth = _largest(self.depth, other.depth)
        self.oldest_ms = _largest(self.oldest_ms, other.oldest_ms)


class StatRow(msgspec.Struct, frozen=True):
    """The numbers of one span, as a store has them."""

    at: datetime
    tenant_id: str
    queue: str
    kind: str
    numbers: Numbers


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one span of time, to all jobs or to those of one tenant, queue or kind."""

    at: datetime  # when the span began
    tenant_id: str | None = None
    queue: str | None = None
    kind: str | None = None
    enqueued: int = 0
    started: int = 0  # executions, counted when they end, in the span in which they began
    succeeded: int = 0  # jobs
    failed: int = 0  # executions that failed or timed out
    retried: int = 0  # executions that failed or were lost, and whose job is tried again
    dead: int = 0
    canceled: int = 0
    lost: int = 0  # executions that were lost with their worker
    depth: int | None = None  # the most that a sample found queued; None: none was
    oldest_ms: int | None = None  # how long the oldest of them had waited
    waits: Times = {}  # from queued to started: how many by the number of their bucket, `BOUNDS_MS`
    runs: Times = {}

    def wait_ms(self, q: float) -> float | None:
        """How long this part of the executions waited at most: `stat.wait_ms(0.95)`. None if there were none."""
        return quantile(self.waits, q)

    def run_ms(self, q: float) -> float | None:
        """How long this part of the executions took at most. None if there were none."""
        return quantile(self.runs, q)


class Depth(msgspec.Struct, frozen=True):
    """What a sample found queued."""

    tenant_id: str
    queue: str
    kind: str
    depth: int
    oldest_ms: int


def bucket(ms: float) -> int:
    """The bucket of a time.

    >>> [bucket(ms) for ms in (0, 1, 5, 1000, 10**12)]
    [0, 1, 4, 19, 62]
    """
    return bisect_right(BOUNDS_MS, ms)


def added(one: Mapping[int, int], other: Mapping[int, int]) -> Times:
    """Two histograms as one."""
    if not one or not other:
        return dict(one or other)
    return {**one, **{number: one.get(number, 0) + count for number, count in other.items()}}


def histograms_added(texts: str) -> Times:
    """A list of histograms in JSON as one.

    >>> histograms_added('[{"1": 2, "3": 1}, {}, {"3": 4}]')
    {1: 2, 3: 5}
    """
    found: Times = {}
    for times in _HISTOGRAMS.decode(texts):
        for number, count in times.items():
            found[number] = found.get(number, 0) + count
    return found


def quantile(times: Mapping[int, int], q: float) -> float | None:
    """The time in milliseconds that this part of all times does not exceed, at most a bucket's width off; None if there
    are none.

    >>> quantile({bucket(10): 1}, 0.5), quantile({bucket(3): 99, bucket(1000): 1}, 0.99)
    (10.0, 4.0)
    """
    count = sum(times.values())
    if not count:
        return None
    wanted = q * count
    below = 0
    for number in sorted(times):
        inside = times[number]
        if below + inside >= wanted:
            low = BOUNDS_MS[number - 1] if number else 0
            high = BOUNDS_MS[min(number, len(BOUNDS_MS) - 1)]
            return low + (high - low) * max(0.0, wanted - below) / inside
        below += inside
    return float(BOUNDS_MS[-1])  # not reached: the last bucket has it


def time_taken_ms(times: Mapping[int, int]) -> float:
    """How long these were together, taking each as the middle of its bucket."""
    middles = ((BOUNDS_MS[n - 1] + BOUNDS_MS[min(n, len(BOUNDS_MS) - 1)]) / 2 if n else 0.5 for n in times)
    return sum(middle * count for middle, count in zip(middles, times.values(), strict=True))


def milliseconds(micros: int) -> int:
    """A time as a delta holds it; a clock that went backwards gives none below zero."""
    return min(max(micros // 1_000, 0), LONGEST_MS)


def begin_ms(at_ms: int, span: Span) -> int:
    """The begin of the span that a time is in, in UTC."""
    return at_ms - at_ms % SPAN_MS[span]


def begin(at: datetime, span: Span) -> datetime:
    """The same for a moment."""
    return datetime.fromtimestamp(begin_ms(int(at.timestamp() * 1_000), span) / 1_000, UTC)


def facts(deltas: Iterable[tuple[int, Key, Delta]]) -> dict[tuple[int, Key], Numbers]:
    """The numbers of these deltas, each with its time in ms, by minute. An execution counts as started, with its wait,
    in the minute of its start; all else belongs to the minute in which it was written."""
    found: dict[tuple[int, Key], Numbers] = {}

    def of(at_ms: int, key: Key) -> Numbers:
        return found.setdefault((begin_ms(at_ms, "minute"), key), Numbers())

    for at_ms, key, delta in deltas:
        numbers = of(at_ms, key)
        for name in COUNTS:
            if name != "started":
                setattr(numbers, name, getattr(numbers, name) + getattr(delta, name))
        if not delta.runs:
            numbers.started += delta.ended
        samples = len(delta.runs)
        for n, (wait, run) in enumerate(zip(delta.waits, delta.runs, strict=True)):
            # each stands for its share of those that ended
            share = delta.ended * (n + 1) // samples - delta.ended * n // samples
            began = of(at_ms - run, key)
            began.started += share
            _count(began.waits, bucket(wait), share)
            _count(numbers.runs, bucket(run), share)
    return found


def merged(
    span: Span, since: datetime, rows: Iterable[tuple[datetime, Key, Numbers]], level: Level = "kinds"
) -> list[StatRow]:
    """The rows of the spans that began from then on, added up by span and key, in order of time and names."""
    found: dict[tuple[datetime, Key], Numbers] = {}
    begins: dict[datetime, datetime] = {}  # many rows are of one time
    for at, key, numbers in rows:
        if at not in begins:
            begins[at] = begin(at, span)
        row = (begins[at], key if "" in key else at_level(key, level))
        if row in found:
            found[row].add(numbers)
        else:
            found[row] = numbers
    return [StatRow(at, *key, found[at, key]) for at, key in sorted(found) if at >= since]


def with_sums(found: Mapping[tuple[int, Key], Numbers]) -> dict[tuple[int, Key], Numbers]:
    """The numbers of these minutes with their sums: what one sample found queued is added up, too."""
    sums: dict[tuple[int, Key], Numbers] = {}
    for (at, key), numbers in found.items():
        for of in sums_of(key):
            depths = [each for each in (sums.setdefault((at, of), Numbers()).depth, numbers.depth) if each is not None]
            sums[at, of].add(numbers)
            sums[at, of].depth = sum(depths) if depths else None
    return {**found, **sums}


def capped(keys: Iterable[Key], known: Mapping[str, Sequence[tuple[str, str]]]) -> dict[Key, Key]:
    """Under which key each counts on a day of which these queues and kinds are known, by tenant."""
    names: dict[Key, Key] = {}
    counts = {tenant: len({*found} - {(OTHER, OTHER)}) for tenant, found in known.items()}
    for tenant, queue, kind in sorted(keys):
        if (queue, kind) not in known.get(tenant, ()):
            counts[tenant] = counts.get(tenant, 0) + 1
            if counts[tenant] > MOST_KINDS:
                names[tenant, queue, kind] = (tenant, OTHER, OTHER)
                continue
        names[tenant, queue, kind] = (tenant, queue, kind)
    return names


def _count(times: Times, number: int, count: int) -> None:
    times[number] = times.get(number, 0) + count


def _largest(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
