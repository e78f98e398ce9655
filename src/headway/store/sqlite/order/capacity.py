"""Counts what model/capacity.py needs to say which jobs may start, and writes what these leave in their buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from headway.model import bucket
from headway.model.bucket import Bucket
from headway.model.capacity import Capacity, KindLimit, Limits, rate_key_of, rate_of, rates_of
from headway.model.limit import EVERY_TENANT, concurrency_key, letter_and_parts, partition_key, tenant_key
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("order/capacity")
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
    bytes: int = 0  # of its payload and state


def read_capacity(jobs: Sequence[Candidate], now: int) -> Steps[Capacity]:
    """Count what runs under the keys of these candidates, and what is in their buckets."""
    rows = yield Statement(_SQL["of_kinds"], (json_list(sorted({job.kind for job in jobs})),))
    kinds = {name: KindLimit(most, rate_of(*rate)) for name, most, *rate in rows}
    names = sorted({job.tenant_id for job in jobs} | {EVERY_TENANT})
    limits = Limits(kinds, dict((yield Statement(_SQL["of_tenants"], (json_list(names),)))))
    capacity = Capacity(limits)
    yield from _count_partitions(capacity, jobs)
    yield from _count_keys(capacity, jobs)
    of_kind = sorted({job.kind for job in jobs if limits.most_of_kind(job) is not None})
    if of_kind:
        for kind, count in (yield Statement(_SQL["kinds"], (json_list(of_kind),))):
            capacity.used[concurrency_key("", kind, None)] = count
    of_tenant = sorted({job.tenant_id for job in jobs if limits.most_of_tenant(job) is not None})
    if of_tenant:
        for tenant_id, count in (yield Statement(_SQL["tenants"], (json_list(of_tenant),))):
            capacity.used[tenant_key(tenant_id)] = count
    yield from _read_buckets(capacity, jobs, now)
    return capacity


def write_buckets(
    capacity: Capacity, started: Sequence[Candidate], waiting_for: Sequence[Candidate], now: int
) -> Steps[None]:
    """Write the tokens that the started ones left, and when each rate that others wait for has one again."""
    waiting = rates_of(waiting_for, capacity.limits)
    rates = rates_of(started, capacity.limits) | waiting
    counts = Counter(rate_key_of(job) for job in started) if rates else Counter()
    rows = []
    for key, rate in rates.items():
        left = bucket.start(rate, capacity.buckets.get(key), counts[key], now)
        wake_at = bucket.next_at(rate, left, now) if key in waiting else None
        text = msgspec.json.encode(left.starts).decode() if left.starts else None
        rows.append((key, left.tokens, left.at, bucket.forget_at(rate, left), wake_at, text))
    if rows:
        yield Batch(_SQL["fill"], rows)
        # delete as many full ones as were written, so that buckets of unused keys do not pile up
        yield Statement(_SQL["empty_full"], (now, 1 + len(rows)))


def running_of(key: str) -> Steps[int]:
    """How many jobs run under the key of a kind's or tenant's limit."""
    letter, parts = letter_and_parts(key)
    rows = yield Statement(_SQL["kinds" if letter == "k" else "tenants"], (json_list(parts),))
    return int(rows[0][1]) if rows else 0


def _count_partitions(capacity: Capacity, jobs: Iterable[Candidate]) -> Steps[None]:
    named = sorted({(job.tenant_id, job.partition) for job in jobs if job.partition is not None})
    if named:
        for tenant_id, partition in (yield Statement(_SQL["partitions"], (json_list(named),))):
            capacity.used[partition_key(tenant_id, partition)] = 1


def _count_keys(capacity: Capacity, jobs: Iterable[Candidate]) -> Steps[None]:
    named = sorted({(job.tenant_id, job.kind, job.concurrency_key) for job in jobs if job.concurrency_key is not None})
    if named:
        rows = yield Statement(_SQL["keys"], (msgspec.json.encode(named).decode(),))
        for tenant_id, kind, key, count in rows:
            capacity.used[concurrency_key(tenant_id, kind, key)] = count


def _read_buckets(capacity: Capacity, jobs: Sequence[Candidate], now: int) -> Steps[None]:
    rates = rates_of(jobs, capacity.limits)
    if not rates:
        return
    for key, at, tokens, starts in (yield Statement(_SQL["buckets"], (json_list(list(rates)),))):
        capacity.buckets[key] = Bucket(at, tokens, () if starts is None else _starts(starts))
    capacity.allow(rates, now)
