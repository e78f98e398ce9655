"""Room: how many more jobs may start under each partition and limit, and which of some candidates that lets start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headway.model import bucket
from headway.model.bucket import Bucket, Rate
from headway.model.limit import EVERY_TENANT, concurrency_key, partition_key, rate_key, tenant_key
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("order/capacity")
_BUCKETS = statements("order/rates")
_LIMITED = statements("order/limited")
_A_START = 1 - 1e-9  # sums of fractions
_starts = msgspec.json.Decoder(tuple[tuple[int, int], ...]).decode


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A queued job with what may limit it."""

    rowid: int
    id: str
    tenant_id: str
    kind: str
    partition: str | None
    concurrency: int | None
    concurrency_key: str | None
    rate_count: int | None
    rate_period_ms: int | None
    rate_burst: int | None
    rate_key: str | None


class _OfKind(msgspec.Struct, frozen=True):
    max_running: int | None
    rate: Rate | None


class Room:
    """What is left under the keys of some candidates; `choose` takes from it."""

    def __init__(self, kinds: dict[str, _OfKind], tenants: dict[str, int | None]) -> None:
        self._kinds = kinds
        self._tenants = tenants
        self.used: dict[str, int] = {}
        self.buckets: dict[str, Bucket] = {}
        self.starts: dict[str, float] = {}  # how many more each rate allows

    def demands(self, job: Candidate) -> Iterator[tuple[str, int]]:
        """The keys that count what runs, with how many may; in the order in which they are asked."""
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

    def most_of_kind(self, job: Candidate) -> int | None:
        of_kind = self._kinds.get(job.kind)
        if of_kind is not None and of_kind.max_running is not None:
            return of_kind.max_running
        return job.concurrency if job.concurrency_key is None else None

    def most_of_tenant(self, job: Candidate) -> int | None:
        # its own goes over that of every tenant, also where it sets no such limit
        return self._tenants.get(job.tenant_id, self._tenants.get(EVERY_TENANT))

    def rate(self, job: Candidate) -> Rate | None:
        of_kind = self._kinds.get(job.kind)
        if job.rate_key is None and of_kind is not None and of_kind.rate is not None:
            return of_kind.rate
        return _rate(job.rate_count, job.rate_period_ms, job.rate_burst)

    def mark(self, job: Candidate) -> int:
        """How it counts once it runs, as `jobs.limited` says it."""
        if self.most_of_kind(job) is not None or self.most_of_tenant(job) is not None:
            return 1
        return 0 if job.concurrency_key is None else 2

    def full(self, job: Candidate) -> str | None:
        """The first key that keeps the job from starting."""
        for key, most in self.demands(job):
            if self.used.get(key, 0) >= most:
                return key
        if self.rate(job) is not None:
            key = rate_key_of(job)
            if self.starts[key] < _A_START:
                return key
        return None

    def blocks(self, job: Candidate, key: str) -> bool:
        """Whether the job has this key, and it is full."""
        if self.rate(job) is not None and key == rate_key_of(job):
            return self.starts[key] < _A_START
        return any(key == name and self.used.get(key, 0) >= most for name, most in self.demands(job))

    def open_keys(self, job: Candidate) -> Iterator[str]:
        """The keys of the job that still have room."""
        for key, most in self.demands(job):
            if self.used.get(key, 0) < most:
                yield key
        if self.rate(job) is not None and self.starts[rate_key_of(job)] >= _A_START:
            yield rate_key_of(job)

    def take(self, job: Candidate) -> None:
        for key, _ in self.demands(job):
            self.used[key] = self.used.get(key, 0) + 1
        if self.rate(job) is not None:
            self.starts[rate_key_of(job)] -= 1


def limit_keys(job: Candidate) -> set[str]:
    """Every key that may limit the job."""
    keys = {concurrency_key("", job.kind, None), tenant_key(job.tenant_id), rate_key_of(job)}
    if job.partition is not None:
        keys.add(partition_key(job.tenant_id, job.partition))
    if job.concurrency_key is not None:
        keys.add(concurrency_key(job.tenant_id, job.kind, job.concurrency_key))
    return keys


def rate_key_of(job: Candidate) -> str:
    return rate_key(job.tenant_id, job.kind, job.rate_key)


def look_for_room(jobs: Sequence[Candidate], now: int) -> Steps[Room]:
    """Count what runs under the keys of these candidates, and what is in their buckets."""
    rows = yield Statement(_SQL["of_kinds"], (json_list(sorted({job.kind for job in jobs})),))
    kinds = {name: _OfKind(most, _rate(*rate)) for name, most, *rate in rows}
    names = sorted({job.tenant_id for job in jobs} | {EVERY_TENANT})
    room = Room(kinds, dict((yield Statement(_SQL["of_tenants"], (json_list(names),)))))
    yield from _count_partitions(room, jobs)
    yield from _count_keys(room, jobs)
    of_kind = sorted({job.kind for job in jobs if room.most_of_kind(job) is not None})
    if of_kind:
        for kind, count in (yield Statement(_SQL["kinds"], (json_list(of_kind),))):
            room.used[concurrency_key("", kind, None)] = count
    of_tenant = sorted({job.tenant_id for job in jobs if room.most_of_tenant(job) is not None})
    if of_tenant:
        for tenant_id, count in (yield Statement(_SQL["tenants"], (json_list(of_tenant),))):
            room.used[tenant_key(tenant_id)] = count
    yield from _read_buckets(room, jobs, now)
    return room


def first_aside(keys: Sequence[str]) -> Steps[list[tuple[str, str, Candidate]]]:
    """(key, queue, job) of the first that waits for each of these keys, as far as any do."""
    rows = yield Statement(_LIMITED["first_of_key"], (json_list(keys),))
    return [(row[0], row[1], Candidate(*row[2:])) for row in rows]


def write_buckets(room: Room, taken: Iterable[Candidate], aside: Iterable[Candidate], now: int) -> Steps[None]:
    """Write what the taken ones left in their buckets, and when to look again for those that found no start."""
    taken = list(taken)
    rates = {rate_key_of(job): (rate, False) for job in taken if (rate := room.rate(job)) is not None}
    rates |= {rate_key_of(job): (rate, True) for job in aside if (rate := room.rate(job)) is not None}
    started = Counter(rate_key_of(job) for job in taken) if rates else Counter()
    rows = []
    for key, (rate, waits) in rates.items():
        left = bucket.start(rate, room.buckets.get(key), started[key], now)
        wake_at = bucket.next_at(rate, left, now) if waits else None
        text = msgspec.json.encode(left.starts).decode() if left.starts else None
        rows.append((key, left.tokens, now, bucket.forget_at(rate, left), wake_at, text))
    if rows:
        yield Batch(_BUCKETS["fill"], rows)
        # as many as came, so that those of keys that nobody uses any more do not pile up
        yield Statement(_BUCKETS["empty_full"], (now, 1 + len(rows)))


def _rate(count: int | None, period_ms: int | None, burst: int | None) -> Rate | None:
    if count is None or period_ms is None:
        return None
    return Rate(count, period_ms * 1000, burst)


def _count_partitions(room: Room, jobs: Iterable[Candidate]) -> Steps[None]:
    named = sorted({(job.tenant_id, job.partition) for job in jobs if job.partition is not None})
    if named:
        for tenant_id, partition in (yield Statement(_SQL["partitions"], (json_list(named),))):
            room.used[partition_key(tenant_id, partition)] = 1


def _count_keys(room: Room, jobs: Iterable[Candidate]) -> Steps[None]:
    named = sorted({(job.tenant_id, job.kind, job.concurrency_key) for job in jobs if job.concurrency_key is not None})
    if named:
        rows = yield Statement(_SQL["keys"], (msgspec.json.encode(named).decode(),))
        for tenant_id, kind, key, count in rows:
            room.used[concurrency_key(tenant_id, kind, key)] = count


def _read_buckets(room: Room, jobs: Iterable[Candidate], now: int) -> Steps[None]:
    rates = {rate_key_of(job): rate for job in jobs if (rate := room.rate(job)) is not None}
    if not rates:
        return
    for key, at, tokens, starts in (yield Statement(_BUCKETS["buckets"], (json_list(list(rates)),))):
        room.buckets[key] = Bucket(at, tokens, () if starts is None else _starts(starts))
    room.starts = {key: bucket.room(rate, room.buckets.get(key), now) for key, rate in rates.items()}
