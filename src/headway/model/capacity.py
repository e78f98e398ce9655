"""How many more jobs may start under partitions, limits and rates, and which of some candidates these are.

PostgreSQL repeats these rules in order/capacity.sql and jobs/claim_under_limits.sql, because it counts under locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from headway.model import bucket
from headway.model.bucket import Bucket, Rate
from headway.model.limit import EVERY_TENANT, Limit, concurrency_key, partition_key, rate_key, tenant_key

_ALMOST = 1e-9  # a token bucket adds up fractions
_A_START = 1 - _ALMOST


class Limited(Protocol):
    """A job with what may limit it."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def partition(self) -> str | None: ...

    @property
    def concurrency(self) -> int | None: ...

    @property
    def concurrency_key(self) -> str | None: ...

    @property
    def rate_count(self) -> int | None: ...

    @property
    def rate_period_ms(self) -> int | None: ...

    @property
    def rate_burst(self) -> int | None: ...

    @property
    def rate_key(self) -> str | None: ...


J = TypeVar("J", bound=Limited)


class KindLimit(msgspec.Struct, frozen=True):
    """What an operator set for a kind."""

    max_running: int | None
    rate: Rate | None


class Limits:
    """What operators set for the kinds and tenants of some jobs; it overrides what the jobs carry themselves."""

    def __init__(self, kinds: Mapping[str, KindLimit], tenants: Mapping[str, int | None]) -> None:
        self._kinds = kinds
        self._tenants = tenants

    @classmethod
    def of(cls, limits: Iterable[Limit]) -> Limits:
        kinds: dict[str, KindLimit] = {}
        tenants: dict[str, int | None] = {}
        for limit in limits:
            if limit.scope == "kind":
                rate = rate_of(limit.rate_count, limit.rate_period_ms, limit.rate_burst)
                kinds[limit.name] = KindLimit(limit.max_running, rate)
            elif limit.scope == "tenant":
                tenants[limit.name] = limit.max_running
        return cls(kinds, tenants)

    def counted(self, job: Limited) -> Iterator[tuple[str, int]]:
        """The keys under which running jobs are counted, each with how many may run; in the order of the claim."""
        if job.partition is not None:
            yield partition_key(job.tenant_id, job.partition), 1
        if job.concurrency_key is not None and job.concurrency is not None:
            yield concurrency_key(job.tenant_id, job.kind, job.concurrency_key), job.concurrency
        most = self.most_of_kind(job)
        if most is not None:
            yield concurrency_key(job.tenant_id, job.kind, None), most
        most = self.most_of_tenant(job)
        if most is not None:
            yield tenant_key(job.tenant_id), most

    def most_of_kind(self, job: Limited) -> int | None:
        of_kind = self._kinds.get(job.kind)
        if of_kind is not None and of_kind.max_running is not None:
            return of_kind.max_running
        return job.concurrency if job.concurrency_key is None else None

    def most_of_tenant(self, job: Limited) -> int | None:
        # its own limit replaces that of every tenant, even if it sets no max_running
        return self._tenants.get(job.tenant_id, self._tenants.get(EVERY_TENANT))

    def counts_as(self, job: Limited) -> int:
        """How it counts once it runs, as `jobs.limited` says it: 1 under its kind or tenant, 2 only under its key."""
        if self.most_of_kind(job) is not None or self.most_of_tenant(job) is not None:
            return 1
        return 0 if job.concurrency_key is None else 2

    def rate(self, job: Limited) -> Rate | None:
        of_kind = self._kinds.get(job.kind)
        if job.rate_key is None and of_kind is not None and of_kind.rate is not None:
            return of_kind.rate
        return rate_of(job.rate_count, job.rate_period_ms, job.rate_burst)


class Capacity:
    """What is left under the keys of some jobs; `choose` and `take` take from it."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.used: dict[str, int] = {}  # how many run under each key
        self.buckets: dict[str, Bucket] = {}
        self.starts: dict[str, float] = {}  # how many more each rate allows

    def full(self, job: Limited) -> str | None:
        """The first key that keeps the job from starting."""
        for key, most in self.limits.counted(job):
            if self.used.get(key, 0) >= most:
                return key
        if self.limits.rate(job) is not None:
            key = rate_key_of(job)
            if self.starts[key] < _A_START:
                return key
        return None

    def blocks(self, job: Limited, key: str) -> bool:
        """Whether the job has this key, and it is full."""
        if self.limits.rate(job) is not None and key == rate_key_of(job):
            return self.starts[key] < _A_START
        return any(key == name and self.used.get(key, 0) >= most for name, most in self.limits.counted(job))

    def open_keys(self, job: Limited) -> Iterator[str]:
        """The keys of the job that still have room."""
        for key, most in self.limits.counted(job):
            if self.used.get(key, 0) < most:
                yield key
        if self.limits.rate(job) is not None and self.starts[rate_key_of(job)] >= _A_START:
            yield rate_key_of(job)

    def take(self, job: Limited) -> None:
        """The job starts."""
        for key, _ in self.limits.counted(job):
            self.used[key] = self.used.get(key, 0) + 1
        if self.limits.rate(job) is not None:
            self.starts[rate_key_of(job)] -= 1

    def choose(self, jobs: Iterable[J], limit: int) -> tuple[list[J], list[tuple[J, str]]]:
        """Those that may start, in order, and those before the last of them that may not, with the key that is full."""
        chosen: list[J] = []
        blocked: list[tuple[J, str]] = []
        for job in jobs:
            if len(chosen) == limit:
                break
            key = self.full(job)
            if key is None:
                self.take(job)
                chosen.append(job)
            else:
                blocked.append((job, key))
        return chosen, blocked

    def allow(self, rates: Mapping[str, Rate], now: int) -> None:
        """Count the starts that these rates allow, by their buckets as they were read."""
        self.starts = {key: bucket.room(rate, self.buckets.get(key), now) for key, rate in rates.items()}

    def whole_starts(self, key: str) -> int:
        """How many jobs a rate lets start now."""
        return int(self.starts[key] + _ALMOST)


def limit_keys(job: Limited) -> set[str]:
    """Every key that may limit the job."""
    keys = {concurrency_key("", job.kind, None), tenant_key(job.tenant_id), rate_key_of(job)}
    if job.partition is not None:
        keys.add(partition_key(job.tenant_id, job.partition))
    if job.concurrency_key is not None:
        keys.add(concurrency_key(job.tenant_id, job.kind, job.concurrency_key))
    return keys


def rates_of(jobs: Sequence[Limited], limits: Limits) -> dict[str, Rate]:
    """The rates that these jobs are under, by key."""
    return {rate_key_of(job): rate for job in jobs if (rate := limits.rate(job)) is not None}


def rate_key_of(job: Limited) -> str:
    return rate_key(job.tenant_id, job.kind, job.rate_key)


def rate_of(count: int | None, period_ms: int | None, burst: int | None) -> Rate | None:
    if count is None or period_ms is None:
        return None
    return Rate(count, period_ms * 1000, burst)
