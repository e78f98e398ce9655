"""The contract of release: claims that never started go back as if they had not been taken."""

from __future__ import annotations

import msgspec
import pytest


def test_a_release_leaves_no_attempt_and_no_charge(db):
    claim = db.start()
    assert db.release(claim) == 1
    job = db.job(claim.id)
    assert (job.status, job.tries, job.losses) == ("queued", 0, 0)
    assert (job.worker_id, job.attempt_started_at) == (None, None)
    assert db.attempts(claim.id) == []


def test_a_release_keeps_the_first_start_even_of_the_same_moment(db):
    """On a clock that stands still the second claim starts when the first one did."""
    claim = db.start()
    first = db.job(claim.id).started_at
    db.finish(claim, to="queued")
    db.release(db.take())
    assert db.job(claim.id).started_at == first
    assert first is not None


def test_a_released_job_keeps_its_place(db):
    first, second = db.enqueue_ids(2)
    position = db.job(first).position
    db.release(db.take())
    assert db.job(first).position == position
    assert [claim.id for claim in db.claim()] == [first, second]


def test_a_release_leaves_a_gap_in_the_fences(db):
    """Invariant 1: gaps only where a claim was released unstarted."""
    claim = db.start()
    db.release(claim)
    again = db.take()
    assert again.fence == 2
    db.settle(again, "succeeded")
    assert [attempt.fence for attempt in db.attempts(claim.id)] == [2]


def test_a_release_with_a_delay_is_scheduled(db):
    claim = db.start()
    db.release(claim, delay_ms=15_500)
    job = db.job(claim.id)
    assert (job.status, job.scheduled_for) == ("scheduled", db.after(15_500))
    db.advance("16s")
    db.promote()
    assert db.take().id == claim.id


def test_a_delayed_release_keeps_its_position(db):
    first, second = db.enqueue_ids(2)
    position = db.job(first).position
    db.release(db.take(), delay_ms=1_000)
    db.advance("2s")
    db.promote()
    assert db.job(first).position == position
    assert [claim.id for claim in db.claim()] == [first, second]


def test_a_stale_release_changes_nothing(db):
    old = db.start()
    db.release(old)
    new = db.take()
    before = db.job(old.id)
    assert db.release(old) == 0
    assert db.release(msgspec.structs.replace(new, fence=9)) == 0
    assert db.job(old.id) == before
    db.settle(new, "succeeded")
    assert db.release(new) == 0
    assert db.status(new.id) == "succeeded"


def test_a_batch_releases_what_is_still_claimed(db):
    db.enqueue_ids(3)
    claims = db.claim()
    db.settle(claims[1], "succeeded")
    assert db.release(*claims) == 2
    assert [claim.id for claim in db.claim()] == [claims[0].id, claims[2].id]


def test_releasing_nothing_is_nothing(db):
    assert db.release() == 0


@pytest.mark.parametrize("delay_ms", [0, 1_000])
def test_a_released_job_that_was_asked_to_cancel_is_canceled(db, delay_ms):
    claim = db.start()
    db.cancel(claim.id)
    db.release(claim, delay_ms=delay_ms)
    job = db.job(claim.id)
    assert (job.status, job.finished_at) == ("canceled", db.now())
    assert (job.started_at, job.scheduled_for, job.cancel_requested_at) == (None, None, None)


def test_an_at_most_once_job_released_unstarted_may_run(db):
    claim = db.start(delivery="at_most_once")
    db.release(claim)
    assert db.take().id == claim.id
