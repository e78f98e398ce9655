"""The contract of claim: in order, up to the limit, fenced, and never what may not run now."""

from __future__ import annotations

import random

import msgspec
import pytest

from headway.errors import LeaseLost
from headway.model.ids import new_id
from tests.tenant_ids import tenant_id


def test_a_claim_carries_what_a_worker_needs(db):
    job_id = db.enqueue(
        tenant="acme",
        tenant_id=tenant_id("acme"),
        kind="invoice",
        queue="billing",
        payload='{"n": 1}',
        max_attempts=11,
        max_losses=12,
        backoff_base_ms=13,
        backoff_cap_ms=14,
        timeout_ms=15,
        delivery="at_most_once",
        correlation_id="corr-16",
        trace_id="trace-17",
        meta='{"m": 18}',
    ).id
    claim = db.take(queue="billing")
    values = msgspec.structs.asdict(claim)
    assert msgspec.json.decode(values.pop("payload")) == {"n": 1}
    assert msgspec.json.decode(values.pop("meta")) == {"m": 18}
    assert values == {
        "id": job_id,
        "tenant_id": tenant_id("acme"),
        "kind": "invoice",
        "queue": "billing",
        "fence": 1,
        "tries": 0,
        "losses": 0,
        "max_attempts": 11,
        "max_losses": 12,
        "backoff_base_ms": 13,
        "backoff_cap_ms": 14,
        "timeout_ms": 15,
        "delivery": "at_most_once",
        "correlation_id": "corr-16",
        "trace_id": "trace-17",
        "followed": False,
        "checkpoint": None,
        "attempt": 1,
    }


def test_a_running_job_carries_its_open_attempt(db):
    """Invariant 1: fence, worker and start are the job's own."""
    worker = db.worker()
    job_id = db.enqueue().id
    db.advance("1m")
    claim = db.take(worker)
    job = db.job(job_id)
    assert (job.status, job.fence, job.worker_id) == ("running", claim.fence, worker)
    assert job.attempt_started_at == job.started_at == db.now()
    (attempt,) = db.attempts(job_id)
    assert (attempt.job_id, attempt.fence, attempt.status) == (job_id, 1, "running")
    assert (attempt.worker_id, attempt.started_at, attempt.finished_at) == (worker, db.now(), None)


def test_order_is_priority_then_position_then_id(db, make):
    """Invariant 5: order is a function of the stored rows."""
    jobs = [make.job(priority=random.choice([-5, 0, 100, 101])) for _ in range(60)]
    random.shuffle(jobs)
    db.enqueue_all(jobs[:30])
    db.enqueue_all(jobs[30:])
    rows = db.find()
    expected = [job.id for job in sorted(rows, key=lambda job: (job.priority, job.position, job.id))]
    claimed: list[str] = []
    while batch := db.claim(limit=random.randint(1, 9)):
        claimed += [claim.id for claim in batch]
    assert claimed == expected


def test_ids_decide_between_equal_positions(db, make):
    jobs = [make.job() for _ in range(8)]
    random.shuffle(jobs)
    db.enqueue_all(jobs)
    db.sql("update {jobs} set position = 4096")
    assert [claim.id for claim in db.claim()] == sorted(job.id for job in jobs)


def test_lower_priority_numbers_run_first(db):
    late, normal, urgent = (db.enqueue(priority=priority).id for priority in (101, 100, -1))
    assert [claim.id for claim in db.claim()] == [urgent, normal, late]


def test_a_claim_takes_no_more_than_its_limit(db):
    ids = db.enqueue_ids(5)
    assert [claim.id for claim in db.claim(limit=2)] == ids[:2]
    assert [claim.id for claim in db.claim(limit=2)] == ids[2:4]
    assert [claim.id for claim in db.claim(limit=2)] == ids[4:]
    assert db.claim(limit=2) == []


def test_a_claim_of_none_takes_none(db):
    db.enqueue()
    assert db.claim(limit=0) == []
    assert db.running() == []


def test_a_claim_takes_only_from_its_queue(db):
    here, there = db.enqueue(queue="here").id, db.enqueue(queue="there").id
    assert [claim.id for claim in db.claim(queue="here")] == [here]
    assert db.claim(queue="her") == []
    assert db.status(there) == "queued"


def test_what_is_scheduled_running_or_over_is_not_claimed(db):
    db.enqueue(delay_ms=60_000)
    db.start()
    for to in ("succeeded", "dead", "canceled"):
        db.settle(db.start(), to)
    assert db.claim() == []


def test_a_scheduled_job_is_not_claimed_before_promote_queued_it(db):
    db.enqueue(delay_ms=1_000)
    db.advance("1h")
    assert db.claim() == []
    db.promote()
    assert len(db.claim()) == 1


def test_an_expired_job_is_never_claimed(db):
    db.enqueue(expires_at=db.after(1_000))
    kept = db.enqueue(expires_at=db.after(1_001)).id
    db.advance(1)
    assert [claim.id for claim in db.claim()] == [kept]


def test_expired_jobs_in_front_do_not_hide_the_ones_behind(db):
    db.enqueue_ids(20, priority=1, expires_at=db.after(1_000))
    fresh = db.enqueue(priority=2).id
    db.advance("1m")
    claimed: list[str] = []
    for _ in range(3):
        db.promote()
        claimed += [claim.id for claim in db.claim(limit=2)]
    assert claimed == [fresh]


def test_the_fence_grows_with_each_execution_and_never_goes_back(db):
    """Invariant 1: fences of one job strictly increase."""
    job_id = db.enqueue().id
    fences = []
    for to in ("queued", "scheduled", "dead"):
        claim = db.take()
        fences.append(claim.fence)
        db.settle(claim, to, charge=1)
    db.retry(job_id)
    fences.append(db.take().fence)
    assert fences == [1, 2, 3, 4]
    assert [attempt.fence for attempt in db.attempts(job_id)] == [1, 2, 3, 4]


def test_a_claim_by_an_unregistered_worker_raises_lease_lost(db):
    job_id = db.enqueue().id
    with pytest.raises(LeaseLost):
        db.claim(new_id())
    assert db.status(job_id) == "queued"


def test_a_claim_by_a_worker_that_was_reaped_raises_lease_lost(db):
    worker = db.worker(lease_ms=1_000)
    db.advance("2s")
    db.reap()
    db.enqueue()
    with pytest.raises(LeaseLost):
        db.claim(worker)


def test_running_lists_what_a_worker_holds(db):
    mine, theirs = db.worker(), db.worker()
    ids = db.enqueue_ids(3)
    claims = db.claim(mine, limit=2)
    db.claim(theirs)
    assert sorted(db.running(mine)) == sorted((claim.id, claim.fence) for claim in claims)
    assert db.running(theirs) == [(ids[2], 1)]
    db.settle(claims[0], "succeeded")
    assert db.running(mine) == [(claims[1].id, 1)]
    assert db.running(new_id()) == []


def test_started_at_is_the_first_start_and_the_open_attempt_has_its_own(db):
    job_id = db.enqueue().id
    first = db.now()
    db.settle(db.take(), "queued")
    second = db.advance("1m")
    db.take()
    job = db.job(job_id)
    assert (job.started_at, job.attempt_started_at) == (first, second)
    assert [attempt.started_at for attempt in db.attempts(job_id)] == [first, second]
