"""What limits and rates let start."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway.model.bucket import Bucket, Rate
from headway.model.capacity import Capacity, Limits, limit_keys, rate_key_of, rates_of
from headway.model.limit import Limit


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    tenant_id: str = "acme"
    kind: str = "mail"
    partition: str | None = None
    concurrency: int | None = None
    concurrency_key: str | None = None
    rate_count: int | None = None
    rate_period_ms: int | None = None
    rate_burst: int | None = None
    rate_key: str | None = None


def limits(**values: Any) -> Limits:
    """Of kind mail; `tenants` by name."""
    tenants = values.pop("tenants", {})
    of_tenants = [Limit(scope="tenant", name=name, max_running=most) for name, most in tenants.items()]
    return Limits.of([Limit(scope="kind", name="mail", **values), *of_tenants])


def test_keys_are_asked_in_the_order_of_the_claim():
    job = Candidate(partition="p", concurrency=2, concurrency_key="k")
    found = list(limits(max_running=7, tenants={"acme": 9}).counted(job))
    assert found == [("p:acme|p", 1), ("c:acme|mail|k", 2), ("k:mail", 7), ("t:acme", 9)]


@pytest.mark.parametrize(
    ("operator", "job", "most"),
    [
        (None, Candidate(), None),
        (None, Candidate(concurrency=3), 3),
        (5, Candidate(concurrency=3), 5),  # what an operator set goes over what the job carries
        (None, Candidate(concurrency=3, concurrency_key="k"), None),  # that is the key's
        (5, Candidate(concurrency=3, concurrency_key="k"), 5),
    ],
)
def test_how_many_of_a_kind_may_run(operator, job, most):
    assert limits(max_running=operator).most_of_kind(job) == most


def test_a_tenants_own_limit_goes_over_that_of_every_tenant_also_where_it_sets_none():
    job = Candidate()
    assert limits(tenants={"*": 5}).most_of_tenant(job) == 5
    assert limits(tenants={"*": 5, "acme": 2}).most_of_tenant(job) == 2
    assert limits(tenants={"*": 5, "acme": None}).most_of_tenant(job) is None


def test_an_operators_rate_goes_over_the_jobs_but_not_over_that_of_a_key():
    ruled = limits(rate_count=9, rate_period_ms=1000, rate_burst=2)
    own = Candidate(rate_count=1, rate_period_ms=10)
    assert ruled.rate(own) == Rate(9, 1_000_000, 2)
    keyed = msgspec.structs.replace(own, rate_key="k")
    assert ruled.rate(keyed) == Rate(1, 10_000)
    assert ruled.rate(Candidate(rate_key="k")) is None
    assert limits().rate(own) == Rate(1, 10_000)


def test_the_first_full_key_keeps_a_job_from_starting():
    job = Candidate(concurrency=2)
    capacity = Capacity(limits(tenants={"acme": 1}))
    assert capacity.full(job) is None
    capacity.take(job)
    assert capacity.full(job) == "t:acme"
    capacity.used["k:mail"] = 2
    assert capacity.full(job) == "k:mail"
    assert [*capacity.open_keys(job)] == []
    assert capacity.blocks(job, "t:acme")
    assert not capacity.blocks(job, "t:other")


def test_a_rate_is_taken_from_as_jobs_start():
    job = Candidate(rate_count=2, rate_period_ms=1000)
    capacity = Capacity(limits())
    key = rate_key_of(job)
    capacity.buckets[key] = Bucket(at=0, starts=((0, 1),))
    capacity.allow(rates_of([job], capacity.limits), 10)
    assert capacity.whole_starts(key) == 1
    assert [*capacity.open_keys(job)] == [key]
    capacity.take(job)
    assert capacity.full(job) == key
    assert capacity.blocks(job, key)


def test_chosen_are_those_that_may_start_and_blocked_those_before_the_last_of_them():
    a, b, c, d = (Candidate(partition=name) for name in ("p", "p", "q", "p"))
    capacity = Capacity(limits())
    assert capacity.choose([a, b, c, d], 2) == ([a, c], [(b, "p:acme|p")])


def test_every_key_of_a_job_is_known():
    job = Candidate(partition="p", concurrency_key="k", concurrency=1, rate_key="r")
    assert limit_keys(job) == {"k:mail", "t:acme", "r:acme|mail|r", "p:acme|p", "c:acme|mail|k"}
    assert limit_keys(Candidate()) == {"k:mail", "t:acme", "r:mail"}
