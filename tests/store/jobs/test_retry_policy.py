"""The retry policy of the model, written by settle: budgets, backoff, snoozes."""

from __future__ import annotations

import pytest

from headway.model.retry import backoff_ms, canceled, dead, failed, released, snoozed, succeeded


def test_a_job_runs_max_attempts_times_and_is_dead(db):
    job_id = db.enqueue(max_attempts=3).id
    for n in range(1, 4):
        claim = db.take()
        assert (claim.tries, claim.fence) == (n - 1, n)
        assert db.settle_all([failed(claim, f"error {n}")]) == []
        db.advance("2h")
        db.promote()
    job = db.job(job_id)
    assert (job.status, job.tries, job.error) == ("dead", 3, "error 3")
    assert [attempt.error for attempt in db.attempts(job_id)] == ["error 1", "error 2", "error 3"]
    assert db.claim() == []


def test_the_delay_doubles_up_to_the_cap_within_its_jitter(db):
    job_id = db.enqueue(max_attempts=9, backoff_base_ms=1_000, backoff_cap_ms=5_000).id
    for middle in (1_000, 2_000, 4_000, 5_000, 5_000):
        db.settle_all([failed(db.take(), "boom")])
        wait = (db.job(job_id).scheduled_for - db.now()).total_seconds() * 1_000
        assert 0.75 * middle <= wait <= 1.25 * middle
        db.advance("10s")
        db.promote()


def test_backoff_is_pure():
    assert backoff_ms(1, 1_000, 3_600_000, 0.5) == 1_000
    assert backoff_ms(4, 1_000, 3_600_000, 0.5) == 8_000
    assert backoff_ms(500, 1_000, 3_600_000, 0.5) == 3_150_000
    assert backoff_ms(1, 1_000, 3_600_000, 0.0) == 750


def test_snoozes_and_releases_use_up_nothing(db):
    job_id = db.enqueue(max_attempts=2).id
    for _ in range(5):
        db.settle_all([snoozed(db.take(), "1s")])
        db.advance("2s")
        db.promote()
        db.settle_all([released(db.take(), "shutting down")])
    job = db.job(job_id)
    assert (job.status, job.tries, job.losses, job.fence) == ("queued", 0, 0, 10)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (lambda claim: succeeded(claim, "1"), "succeeded"),
        (lambda claim: dead(claim, "stop"), "dead"),
        (lambda claim: canceled(claim, "enough"), "canceled"),
    ],
)
def test_an_end_leaves_tries_unused(db, end, status):
    claim = db.start(max_attempts=9)
    db.settle_all([end(claim)])
    assert db.status(claim.id) == status


def test_a_delay_of_the_handlers_own_is_kept_exactly(db):
    claim = db.start()
    db.settle_all([failed(claim, "boom", delay="90s")])
    assert db.job(claim.id).scheduled_for == db.after(90_000)


def test_tries_and_losses_have_budgets_of_their_own(db):
    job_id = db.enqueue(max_attempts=3, max_losses=3, backoff_base_ms=1).id
    for round_ in range(2):
        db.settle_all([failed(db.take(), "boom")])
        db.advance("1h")
        db.promote()
        worker = db.worker()
        db.take(worker)
        db.unregister(worker)
        assert [reaped.to for reaped in db.reap()] == ["scheduled"], round_
        db.advance("1h")
        db.promote()
    job = db.job(job_id)
    assert (job.status, job.tries, job.losses) == ("queued", 2, 2)
