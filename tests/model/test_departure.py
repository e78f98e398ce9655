"""What a job that leaves its place sets free."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.departure import Departure, LeavingJob

BASE = {
    "id": "a",
    "tenant_id": "acme",
    "kind": "mail",
    "queue": "default",
    "status": "running",
    "train": None,
    "holds_when_canceled": 0,
    "holds_when_dead": 0,
    "partition": None,
    "concurrency": None,
    "concurrency_key": None,
    "rate_count": None,
    "rate_key": None,
    "limited": 0,
    "limited_by": None,
    "group_id": None,
    "awaited": 0,
}


def leaving(**values: Any) -> LeavingJob:
    return LeavingJob(**{**BASE, **values})


@pytest.mark.parametrize(
    ("job", "keys"),
    [
        (leaving(), []),
        (leaving(partition="p", concurrency_key="k"), ["p:acme|p", "c:acme|mail|k"]),
        (leaving(limited=1), ["k:mail", "t:acme"]),
        (leaving(status="queued", rate_key="r"), ["k:mail", "t:acme", "r:acme|mail|r"]),
        (leaving(status="queued", limited_by="t:acme", partition="p"), []),  # it waits aside
        (leaving(status="scheduled", partition="p"), []),
    ],
)
def test_limits_under_which_something_else_may_go(job, keys):
    assert list(Departure(job, "canceled").freed()) == keys


@pytest.mark.parametrize(
    ("to", "heir", "failed"),
    [
        ("succeeded", None, False),
        ("scheduled", None, False),
        ("dead", None, True),
        ("canceled", None, True),
        ("failed", None, True),
        ("failed", "b", False),  # it goes on as the job that retries it
    ],
)
def test_who_waits_for_it_learns_of_its_failure(to, heir, failed):
    assert Departure(leaving(), to, heir).failed is failed


def test_only_a_locomotive_puts_its_train_on_hold_and_only_if_it_says_so():
    car = {"train": "t", "holds_when_canceled": 1, "holds_when_dead": 1}
    assert Departure(leaving(**car), "dead").holds()
    assert Departure(leaving(**car), "canceled").holds()
    assert not Departure(leaving(**car), "succeeded").holds()
    assert not Departure(leaving(**car), "failed", "b").holds()
    assert not Departure(leaving(**car), "canceled", spared=True).holds()
    assert not Departure(leaving(**car, status="held"), "canceled").holds()
    assert not Departure(leaving(train="t", holds_when_dead=1), "canceled").holds()
    assert not Departure(leaving(train="t", holds_when_canceled=1), "dead").holds()
