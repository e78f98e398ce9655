"""Invariant 10: an at_most_once job id is never executed twice; its retry exists exactly once."""

from __future__ import annotations

import msgspec
import pytest

from headway.errors import Duplicate
from headway.model.retry import failed, released
from tests.tenant_ids import tenant_id


def once(db, **options):
    return db.start(delivery="at_most_once", **options)


def retry_of(db, job_id):
    (job,) = db.find(retry_of=job_id)
    return job


def lose(db, **options):
    worker = db.worker()
    claim = once(db, worker=worker, **options)
    db.unregister(worker)
    (reaped,) = db.reap()
    return claim, reaped


def test_a_failed_job_is_over_and_a_new_job_retries_it(db):
    claim = once(db)
    assert db.settle(claim, "failed", charge=1, delay_ms=5_000, error="boom") == []
    old, new = db.job(claim.id), retry_of(db, claim.id)
    assert (old.status, old.error, old.finished_at) == ("failed", "boom", db.now())
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["failed"]
    assert (new.status, new.scheduled_for) == ("scheduled", db.after(5_000))
    assert (new.fence, new.tries, new.losses, new.started_at) == (0, 1, 0, None)
    assert new.id != claim.id


def test_a_retry_without_delay_is_queued_at_once(db):
    claim = once(db)
    db.settle(claim, "failed", charge=1, delay_ms=0)
    again = db.take()
    assert again.id == retry_of(db, claim.id).id
    assert (again.tries, again.fence) == (1, 1)


def test_the_retry_is_the_same_job_but_for_its_identity(db):
    claim = once(
        db,
        tenant="acme",
        tenant_id=tenant_id("acme"),
        kind="invoice",
        queue="billing",
        payload='{"n": 1}',
        priority=2,
        max_attempts=13,
        max_losses=14,
        backoff_base_ms=15,
        backoff_cap_ms=16,
        timeout_ms=17,
        expires_at=db.after(3_600_000),
        idempotency_key="idem-18",
        unique_key="unique-19",
        correlation_id="corr-20",
        trace_id="trace-21",
        source="schedule",
        source_ref="ref-22",
        created_by="ann-23",
        meta='{"m": 24}',
        train="train-25",
        on_canceled="hold",
        on_dead="hold",
        partition="partition-26",
        concurrency=27,
        concurrency_key="key-28",
        rate_count=29,
        rate_period_ms=30,
        rate_burst=31,
        rate_key="rate-32",
        template_id="0190a6e0-0000-7000-8000-000000000033",
        template_revision=34,
        trigger_id="0190a6e0-0000-7000-8000-000000000035",
    )
    db.advance("1m")
    db.settle(claim, "failed", charge=1, delay_ms=5_000, error="boom")
    old, new = db.job(claim.id), retry_of(db, claim.id)
    differs = {name for name in old.__struct_fields__ if getattr(old, name) != getattr(new, name)}
    assert differs <= {
        "id",
        "status",
        "fence",
        "retry_of",
        "idempotency_key",
        "created_at",
        "queued_at",
        "scheduled_for",
        "started_at",
        "finished_at",
        "attempt_started_at",
        "worker_id",
        "error",
        "tries",
    }
    assert (new.idempotency_key, old.idempotency_key) == (None, "idem-18")
    assert new.unique_key == "unique-19"
    assert (new.position, new.tries) == (old.position, 1)
    assert db.enqueue(kind="invoice", tenant_id=tenant_id("acme"), unique_key="unique-19").id == new.id


def test_the_retry_keeps_the_place_in_the_queue(db):
    claim = once(db)
    behind = db.enqueue().id
    db.settle(claim, "failed", charge=1, delay_ms=1_000)
    db.advance("2s")
    db.promote()
    assert [each.id for each in db.claim()] == [retry_of(db, claim.id).id, behind]


def test_repeating_the_settle_makes_no_second_retry(db):
    claim = once(db)
    for _ in range(3):
        assert db.settle(claim, "failed", charge=1, delay_ms=1_000) == []
    assert len(db.find()) == 2


def test_the_chain_is_bounded_by_max_attempts(db):
    first = db.enqueue(delivery="at_most_once", max_attempts=3).id
    for _ in range(3):
        claim = db.take()
        assert claim.fence == 1
        db.settle_all([failed(claim, "boom")])
        db.advance("2h")
        db.promote()
    assert db.claim() == []
    chain = [db.job(first)]
    while found := db.find(retry_of=chain[-1].id):
        chain += found
    assert [job.status for job in chain] == ["failed", "failed", "dead"]
    assert [job.tries for job in chain] == [1, 2, 3]
    assert all(len(db.attempts(job.id)) == 1 for job in chain)


def test_a_lost_job_is_failed_and_retried_by_a_new_one(db):
    claim, reaped = lose(db)
    assert (reaped.job_id, reaped.to) == (claim.id, "failed")
    old, new = db.job(claim.id), retry_of(db, claim.id)
    assert (old.status, old.losses) == ("failed", 1)
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["lost"]
    assert (new.status, new.fence, new.losses, new.tries) == ("scheduled", 0, 1, 0)
    assert db.reap() == []
    assert len(db.find()) == 2


def test_losses_and_tries_together_are_bounded_by_max_attempts(db):
    first = db.enqueue(delivery="at_most_once", max_attempts=3, max_losses=99).id
    db.settle_all([failed(db.take(), "boom")])
    ends = []
    for _ in range(2):
        db.advance("2h")
        db.promote()
        worker = db.worker()
        db.take(worker)
        db.unregister(worker)
        ends += [reaped.to for reaped in db.reap()]
    assert ends == ["failed", "dead"]
    db.advance("2h")
    db.promote()
    assert db.claim() == []
    assert db.status(first) == "failed"


def test_a_lost_job_without_attempts_left_is_dead(db):
    claim, reaped = lose(db, max_attempts=1)
    assert (reaped.to, db.status(claim.id)) == ("dead", "dead")
    assert db.find(retry_of=claim.id) == []


def test_a_lost_job_that_was_asked_to_cancel_is_canceled_and_not_retried(db):
    worker = db.worker()
    claim = once(db, worker=worker)
    db.cancel(claim.id)
    db.unregister(worker)
    (reaped,) = db.reap()
    assert reaped.to == "canceled"
    assert db.find(retry_of=claim.id) == []


def test_a_late_settle_of_a_lost_job_makes_no_second_retry(db):
    claim, _ = lose(db)
    assert db.settle(claim, "failed", charge=1) == [(claim.id, 1)]
    assert len(db.find(retry_of=claim.id)) == 1


def test_a_shutdown_of_one_that_had_started_gives_it_to_a_new_job_uncharged(db):
    claim = once(db)
    db.settle_all([released(claim, "shutting down")])
    assert db.status(claim.id) == "failed"
    new = retry_of(db, claim.id)
    assert (new.status, new.tries) == ("queued", 0)


def test_an_operators_retry_of_one_that_ran_is_a_new_job(db):
    claim = once(db, max_attempts=1)
    db.settle_all([failed(claim, "boom")])
    assert db.status(claim.id) == "dead"
    answer = db.retry(claim.id, actor="ann")
    new = retry_of(db, claim.id)
    assert answer == {claim.id: new.id}
    assert (new.status, new.tries, new.losses, new.position) == ("queued", 0, 0, db.job(claim.id).position)
    assert db.status(claim.id) == "dead"
    again = db.take()
    assert (again.id, again.fence) == (new.id, 1)


@pytest.mark.parametrize("to", ["succeeded", "failed"])
def test_an_operators_second_retry_of_the_same_job_names_its_retry(db, to):
    claim = once(db)
    db.settle(claim, to, charge=1, delay_ms=60_000)
    if to != "failed":  # a failed one has its retry already
        db.retry(claim.id)
    new = retry_of(db, claim.id)
    with pytest.raises(Duplicate) as caught:
        db.retry(claim.id)
    assert caught.value.job_id == new.id
    assert len(db.find()) == 2


def test_an_operators_retry_of_one_that_never_ran_is_itself(db):
    job_id = db.enqueue(delivery="at_most_once").id
    db.cancel(job_id)
    assert db.retry(job_id) == {job_id: job_id}
    assert db.take().id == job_id


def test_an_operators_retry_into_a_taken_unique_key_raises(db):
    claim = once(db, unique_key="k")
    db.settle(claim, "dead")
    holder = db.enqueue(unique_key="k").id
    with pytest.raises(Duplicate) as caught:
        db.retry(claim.id)
    assert caught.value.job_id == holder
    assert db.find(retry_of=claim.id) == []


def test_a_retry_whose_unique_key_was_taken_meanwhile_does_not_run(db):
    scope = ("queued", "scheduled")
    claim = once(db, unique_key="k", unique_scope=scope)
    db.enqueue(unique_key="k", unique_scope=scope, queue="other")
    assert db.settle(claim, "failed", charge=1, delay_ms=0, error="boom") == []
    assert db.status(claim.id) in ("failed", "canceled")
    assert db.claim() == []
    live = [job for job in db.find(unique_key="k") if job.status in scope]
    assert len(live) == 1


def test_no_job_of_a_chain_is_executed_twice(db):
    db.enqueue(delivery="at_most_once", max_attempts=20, max_losses=20)
    seen: list[str] = []
    for n in range(6):
        worker = db.worker()
        claim = db.take(worker)
        seen.append(claim.id)
        if n % 2:
            db.unregister(worker)
            db.reap()
        else:
            db.settle_all([failed(claim, "boom")], worker)
        stale = msgspec.structs.replace(claim)
        assert db.release(stale) == 0
        db.advance("3h")
        db.promote()
    assert len(set(seen)) == 6


def test_a_dead_job_whose_scope_covers_dead_hands_its_key_to_its_retry(db):
    claim = once(db, unique_key="k", unique_scope=("queued", "running", "dead"))
    db.settle(claim, "dead")
    retry = db.retry(claim.id)[claim.id]
    assert (db.job(retry).unique_key, db.job(retry).status) == ("k", "queued")
    assert db.enqueue(unique_key="k", unique_scope=("queued", "running", "dead")).id == retry
