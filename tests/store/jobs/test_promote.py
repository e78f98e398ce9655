"""The contract of promote: due jobs are queued in order of their time, expired ones end."""

from __future__ import annotations

from datetime import timedelta

import pytest


def test_a_due_job_is_queued_with_the_time_it_was(db):
    job_id = db.enqueue(delay_ms=5_000).id
    db.advance(4.999)
    assert db.promote().queued == 0
    assert db.status(job_id) == "scheduled"
    db.advance(0.001)
    assert db.promote().queued == 1
    job = db.job(job_id)
    assert (job.status, job.queued_at) == ("queued", db.now())
    assert job.position is not None


def test_due_jobs_get_their_positions_in_order_of_time_then_id(db, make):
    delays = [3_000, 1_000, 2_000, 1_000, 2_000]
    jobs = [make.job(delay_ms=delay) for delay in delays]
    db.enqueue_all(list(reversed(jobs)))
    db.advance("10s")
    assert db.promote().queued == 5
    expected = [job.id for job in sorted(jobs, key=lambda job: (job.delay_ms, job.id))]
    assert [claim.id for claim in db.claim()] == expected


def test_a_delayed_job_does_not_jump_the_queue(db):
    delayed = db.enqueue(delay_ms=1_000).id
    waiting = db.enqueue().id
    db.advance("2s")
    db.promote()
    late = db.enqueue().id
    assert [claim.id for claim in db.claim()] == [waiting, delayed, late]


def test_a_job_that_was_queued_before_keeps_its_position(db):
    first, _second = db.enqueue_ids(2)
    position = db.job(first).position
    db.settle(db.take(), "scheduled", delay_ms=1_000, charge=1)
    db.advance("5s")
    assert db.promote().queued == 1
    assert db.job(first).position == position


def test_promote_takes_the_earliest_up_to_its_limit(db, make):
    jobs = [make.job(delay_ms=1_000 * n) for n in range(9, 0, -1)]
    db.enqueue_all(jobs)
    db.advance("1m")
    order = [job.id for job in reversed(jobs)]
    assert db.promote(limit=4).queued == 4
    assert [claim.id for claim in db.claim()] == order[:4]
    assert db.promote(limit=4).queued == 4
    assert db.promote(limit=4).queued == 1
    assert [claim.id for claim in db.claim()] == order[4:]


def test_promote_says_when_the_next_is_due(db):
    assert db.promote().next_due_ms is None
    db.enqueue(delay_ms=90_000)
    db.enqueue(delay_ms=30_000)
    assert db.promote().next_due_ms == 30_000
    db.advance("10s")
    assert db.promote().next_due_ms == 20_000
    db.advance("30s")
    promoted = db.promote()
    assert (promoted.queued, promoted.next_due_ms) == (1, 50_000)
    db.advance("2m")
    assert db.promote().next_due_ms is None


def test_promote_says_that_more_is_due_when_its_limit_was_reached(db):
    db.enqueue_ids(3, delay_ms=1_000)
    db.advance("5s")
    assert db.promote(limit=2).next_due_ms == 0


@pytest.mark.parametrize("status", ["queued", "scheduled"])
def test_a_job_whose_time_has_passed_is_canceled(db, status):
    delay = {"delay_ms": 60_000} if status == "scheduled" else {}
    job_id = db.enqueue(expires_at=db.after(5_000), **delay).id
    db.advance("4s")
    assert db.promote().expired == 0
    db.advance("1s")
    assert db.promote().expired == 1
    job = db.job(job_id)
    assert (job.status, job.finished_at) == ("canceled", db.now())
    assert "expire" in job.error
    assert db.promote().expired == 0
    assert db.attempts(job_id) == []


def test_a_job_that_is_both_due_and_expired_is_canceled(db):
    job_id = db.enqueue(scheduled_for=db.after(1_000), expires_at=db.after(2_000)).id
    db.advance("3s")
    promoted = db.promote()
    assert (promoted.queued, promoted.expired) == (0, 1)
    job = db.job(job_id)
    assert (job.status, job.queued_at, job.position) == ("canceled", None, None)
    assert db.claim() == []


def test_a_running_job_whose_time_has_passed_is_asked_to_stop(db):
    worker = db.worker(lease_ms=600_000)
    claim = db.start(worker, expires_at=db.after(5_000))
    db.advance("6s")
    db.promote()
    job = db.job(claim.id)
    assert (job.status, job.cancel_requested_at) == ("running", db.now())
    assert db.heartbeat(worker).canceling == [(claim.id, 1)]
    db.advance("1s")
    db.promote()
    assert db.job(claim.id).cancel_requested_at == db.now() - timedelta(seconds=1)
    db.settle(claim, "scheduled", delay_ms=1_000)
    assert db.status(claim.id) == "canceled"


def test_a_finished_job_never_expires(db):
    claim = db.start(expires_at=db.after(5_000))
    db.settle(claim, "succeeded")
    db.advance("1h")
    assert db.promote().expired == 0
    assert db.status(claim.id) == "succeeded"


def test_nothing_to_promote_is_nothing(db):
    db.enqueue()
    db.start(queue="other")
    promoted = db.promote()
    assert (promoted.queued, promoted.expired, promoted.next_due_ms) == (0, 0, None)


def test_jobs_that_expire_into_a_unique_scope_stop_no_other(db):
    scope = ("running", "canceled")
    late = [
        db.enqueue(unique_key="u", unique_scope=scope, expires_at=db.after(1_000), delay_ms=500).id for _ in range(2)
    ]
    innocent = db.enqueue(delay_ms=500).id
    db.advance("2s")
    promoted = db.promote()
    assert (promoted.queued, promoted.expired) == (1, 2)
    assert [db.status(job_id) for job_id in late] == ["canceled", "canceled"]
    assert db.status(innocent) == "queued"
    assert db.enqueue(unique_key="u", unique_scope=("queued", "canceled")).id in late


def test_canceling_into_a_unique_scope_that_is_taken_gives_the_key_up(db):
    scope = ("running", "canceled")
    jobs = [db.enqueue(unique_key="u", unique_scope=scope).id for _ in range(2)]
    assert set(db.cancel(*jobs).values()) == {"canceled"}
