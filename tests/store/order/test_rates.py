"""Rates by a held clock, and the bound on what a tenant may have waiting."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from headway.errors import QueueFull
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.limit import EVERY_TENANT, rate_key
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")
TWO_A_SECOND = {"rate_count": 2, "rate_period_ms": 1_000}


def ids_of(claims):
    return [claim.id for claim in claims]


def tick(db, by):
    db.advance(by)
    db.promote()


# rates


def test_a_rate_lets_its_number_start_at_once_and_as_many_again_a_period_later(db):
    ids = db.enqueue_ids(7, **TWO_A_SECOND)
    assert ids_of(db.claim()) == ids[:2]
    tick(db, 0.5)
    assert db.claim() == []
    tick(db, 0.499)
    assert db.claim() == []
    tick(db, 0.001)
    assert ids_of(db.claim()) == ids[2:4]
    tick(db, 1)
    assert ids_of(db.claim()) == ids[4:6]


@pytest.mark.parametrize(("burst", "whole_ms"), [(None, 1_000), (2, 500)])
def test_a_job_that_comes_just_before_the_rate_has_room_waits(db, burst, whole_ms):
    """It has not been set aside until some moment: the claim itself has to find that there is no room."""
    db.enqueue_ids(2, **TWO_A_SECOND, rate_burst=burst)
    assert len(db.claim()) == 2
    db.advance((whole_ms - 1) / 1_000)
    third = db.enqueue(**TWO_A_SECOND, rate_burst=burst).id
    assert db.claim() == []
    tick(db, 0.001)
    assert ids_of(db.claim()) == [third]


def test_each_start_comes_back_a_period_after_it_was_made(db):
    ids = db.enqueue_ids(6, **TWO_A_SECOND)
    assert ids_of(db.claim(limit=1)) == ids[:1]
    tick(db, 0.3)
    assert ids_of(db.claim()) == ids[1:2]
    assert db.promote().next_due_ms == 700
    tick(db, 0.7)
    assert ids_of(db.claim()) == ids[2:3]
    tick(db, 0.299)
    assert db.claim() == []
    tick(db, 0.001)
    assert ids_of(db.claim()) == ids[3:4]


def test_in_any_window_at_most_the_number_start(db):
    """The worst cut of the time, and claims of every size at random moments."""
    chance = random.Random(11)
    rate = {"rate_count": 3, "rate_period_ms": 1_000}
    db.enqueue_ids(80, **rate)
    started = []
    for _ in range(120):
        tick(db, chance.choice([0.001, 0.01, 0.2, 0.333, 0.9]))
        at = db.now()
        started += [at for _ in db.claim(limit=chance.choice([1, 2, 10]))]
    second = timedelta(seconds=1)
    assert max(sum(first <= each < first + second for each in started) for first in started) == 3
    assert len(started) >= 2 * (started[-1] - started[0]).total_seconds()


def test_a_rate_with_a_burst_is_a_token_bucket(db):
    ids = db.enqueue_ids(7, **TWO_A_SECOND, rate_burst=2)
    assert ids_of(db.claim()) == ids[:2]
    assert db.claim() == []
    tick(db, 0.5)
    assert ids_of(db.claim()) == ids[2:3]
    tick(db, 0.25)
    assert db.claim() == []
    tick(db, 0.25)
    assert ids_of(db.claim()) == ids[3:4]
    tick(db, 1)
    assert ids_of(db.claim()) == ids[4:6]


def test_a_bucket_that_says_no_more_than_none_would_is_forgotten(db):
    """Rates by user leave nothing behind."""
    for n in range(5):
        db.enqueue(**TWO_A_SECOND, rate_key=f"user-{n}", rate_burst=3 if n % 2 else None)
    assert len(db.claim()) == 5
    assert db.sql("select count(*) from {buckets}") == [(5,)]
    tick(db, 2)
    db.enqueue(**TWO_A_SECOND, rate_key="user-0")
    db.claim()
    db.promote()
    # on SQLite the claims that write buckets take old ones away, two for one
    for n in range(2):
        db.enqueue(**TWO_A_SECOND, rate_key=f"more-{n}")
        db.claim()
    assert db.sql("select count(*) from {buckets} where key not like '%more%' and key not like '%user-0%'") == [(0,)]


def test_what_has_no_start_waits_aside_until_promote_sees_one(db):
    ids = db.enqueue_ids(3, **TWO_A_SECOND)
    db.claim()
    key = rate_key(DEFAULT_TENANT_ID, "mail", None)
    assert db.limited_by(*ids) == [None, None, key]
    assert db.usage(key).waiting == 1
    assert db.promote().next_due_ms == 1_000
    db.advance(0.9)
    assert db.promote().next_due_ms == 100
    assert db.claim() == []
    tick(db, 0.1)
    assert db.limited_by(ids[2]) == [None]
    assert ids_of(db.claim()) == ids[2:]
    tick(db, 1)
    assert db.promote().next_due_ms is None


def test_a_settle_gives_no_start_back(db):
    db.enqueue_ids(4, **TWO_A_SECOND)
    db.finish(*db.claim())
    assert db.claim() == []


def test_an_idle_bucket_fills_up_to_its_burst_and_no_more(db):
    db.enqueue_ids(30, **TWO_A_SECOND, rate_burst=5)
    assert len(db.claim()) == 5
    tick(db, 1)
    assert len(db.claim()) == 2
    tick(db, "1h")
    assert len(db.claim()) == 5


def test_a_burst_may_be_smaller_than_the_count(db):
    db.enqueue_ids(5, rate_count=10, rate_period_ms=1_000, rate_burst=1)
    assert [len(db.claim()) for _ in range(2)] == [1, 0]
    tick(db, 0.1)
    assert len(db.claim()) == 1


def test_over_a_long_time_the_rate_is_what_it_says(db):
    db.enqueue_ids(60, rate_count=3, rate_period_ms=1_000)
    started = len(db.claim())
    for _ in range(100):
        tick(db, 0.1)
        started += len(db.claim())
    assert started == 3 + 30


def test_a_rate_of_a_kind_reaches_over_tenants_and_queues(db):
    db.enqueue_ids(1, **TWO_A_SECOND)
    db.enqueue_ids(1, **TWO_A_SECOND, tenant="acme")
    db.enqueue_ids(2, **TWO_A_SECOND, queue="other")
    other = db.enqueue(kind="post").id
    assert len(db.claim()) == 3
    assert db.status(other) == "running"
    assert db.claim(queue="other") == []
    tick(db, 1)
    assert len(db.claim(queue="other")) == 2


def test_a_rate_with_a_key_is_of_its_tenant_kind_and_key(db):
    db.set_fair(fair=False)
    rate = {"rate_count": 1, "rate_period_ms": 60_000}
    first, again = db.enqueue_ids(2, **rate, rate_key="k")
    others = [
        db.enqueue(**rate, rate_key="l").id,
        db.enqueue(**rate, rate_key="k", kind="post").id,
        db.enqueue(**rate, rate_key="k", tenant="acme").id,
    ]
    assert ids_of(db.claim()) == [first, *others]
    assert db.limited_by(again) == [rate_key(DEFAULT_TENANT_ID, "mail", "k")]


def test_an_operators_rate_goes_over_what_the_jobs_carry(db):
    ids = db.enqueue_ids(8, rate_count=5, rate_period_ms=1_000)
    db.limit("kind", "mail", rate_count=1, rate_period_ms=1_000)
    assert ids_of(db.claim()) == ids[:1]
    db.limit("kind", "mail", rate_count=100, rate_period_ms=1_000)
    db.advance(1)
    db.promote()
    assert ids_of(db.claim()) == ids[1:]


def test_a_rate_that_is_removed_holds_nobody_back(db):
    ids = db.enqueue_ids(4)
    db.limit("kind", "mail", rate_count=1, rate_period_ms=3_600_000)
    assert ids_of(db.claim()) == ids[:1]
    db.limit("kind", "mail")
    assert ids_of(db.claim()) == ids[1:]


def test_one_that_has_no_room_elsewhere_takes_no_start(db):
    """A rate is used by a start, not by a look."""
    (first,) = db.enqueue_ids(1, **TWO_A_SECOND, partition="p")
    db.enqueue_ids(5, **TWO_A_SECOND, partition="p")
    other = db.enqueue(**TWO_A_SECOND).id
    assert ids_of(db.claim()) == [first, other]


def test_what_waits_for_a_start_can_be_canceled_and_the_next_has_it(db):
    ids = db.enqueue_ids(4, **TWO_A_SECOND, rate_burst=2)
    db.claim()
    db.cancel(ids[2])
    tick(db, 0.5)
    assert ids_of(db.claim()) == ids[3:]


def test_a_token_that_came_back_for_one_that_left_is_taken_by_the_next(db):
    ids = db.enqueue_ids(5, **TWO_A_SECOND, rate_burst=2)
    db.claim()
    tick(db, 0.5)
    db.cancel(ids[2])
    assert ids_of(db.claim()) == ids[3:4]
    tick(db, 0.5)
    assert ids_of(db.claim()) == ids[4:]


# max pending


def test_a_tenant_with_as_many_waiting_as_it_may_have_is_refused(db):
    db.limit("tenant", ACME, max_pending=3)
    db.enqueue_ids(3, tenant="acme")
    with pytest.raises(QueueFull, match="acme") as caught:
        db.enqueue(tenant="acme")
    assert "3" in str(caught.value)
    assert "max_pending" in str(caught.value)
    assert len(db.find()) == 3
    db.enqueue()  # another's matter


def test_a_batch_that_does_not_fit_is_refused_as_a_whole(db, make):
    db.limit("tenant", ACME, max_pending=3)
    with pytest.raises(QueueFull):
        db.enqueue_all([make.job(), *(make.job(tenant="acme") for _ in range(4))])
    assert db.find() == []
    db.enqueue_ids(3, tenant="acme")


@pytest.mark.parametrize("what", ["queued", "scheduled", "held", "pending"])
def test_what_waits_counts_and_what_runs_does_not(db, what):
    db.limit("tenant", DEFAULT_TENANT_ID, max_pending=2)
    running = db.start()
    options = {
        "queued": {},
        "scheduled": {"delay_ms": 60_000},
        "held": {"train": "t"},
        "pending": {"after": (running.id,)},
    }[what]
    db.enqueue_ids(2, **options)
    with pytest.raises(QueueFull):
        db.enqueue()


def test_room_appears_when_something_starts_or_ends(db):
    db.limit("tenant", DEFAULT_TENANT_ID, max_pending=2)
    first, _ = db.enqueue_ids(2)
    db.take()
    third = db.enqueue().id
    db.cancel(third)
    db.enqueue()
    with pytest.raises(QueueFull):
        db.enqueue()
    assert db.status(first) == "running"


def test_a_retry_counts_again(db):
    db.limit("tenant", DEFAULT_TENANT_ID, max_pending=1)
    claim = db.start()
    db.settle(claim, "scheduled", charge=1, delay_ms=60_000)
    with pytest.raises(QueueFull):
        db.enqueue()


def test_a_bound_for_every_tenant_is_each_tenants_own(db):
    db.limit("tenant", EVERY_TENANT, max_pending=2)
    db.limit("tenant", ACME, max_pending=4)
    db.enqueue_ids(2)
    db.enqueue_ids(4, tenant="acme")
    for tenant in ("default", "acme"):
        with pytest.raises(QueueFull):
            db.enqueue(tenant=tenant)


def test_a_bound_counts_what_was_there_before_it_and_can_be_changed(db):
    db.enqueue_ids(3)
    db.limit("tenant", DEFAULT_TENANT_ID, max_pending=3)
    with pytest.raises(QueueFull):
        db.enqueue()
    db.limit("tenant", DEFAULT_TENANT_ID, max_pending=4)
    db.enqueue()
    with pytest.raises(QueueFull):
        db.enqueue()
    db.limit("tenant", DEFAULT_TENANT_ID)
    db.enqueue_ids(10)


@pytest.mark.parametrize("back", [0.5, 3_600])
def test_a_claim_that_began_earlier_and_comes_later_gives_no_tokens_twice(db, back):
    """It has an older time. A clock that was set back by more than a claim can take stops no rate."""
    rate = {"rate_count": 1, "rate_period_ms": 1_000, "rate_burst": 3}
    db.enqueue_ids(8, **rate)
    assert len(db.claim(limit=2)) == 2
    db.advance(timedelta(seconds=-back))
    assert len(db.claim(limit=1)) == 1
    tick(db, 0.999 + (back if back < 1 else 0))
    assert db.claim() == []
    tick(db, 0.001)
    assert len(db.claim()) == 1
