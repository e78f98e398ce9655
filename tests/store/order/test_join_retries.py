"""Joins when a parent runs again: retries, at_most_once chains, an operator's hand, and what prune takes away."""

from __future__ import annotations

import pytest

from headway.model.retry import failed


def parents(db, count=2, **options):
    return db.enqueue_ids(count, queue="parents", **options)


def child(db, *after, **options):
    return db.enqueue(after=after, **options).id


def run(db, to="succeeded"):
    """Claim the first of the parents and end it."""
    claim = db.take(queue="parents")
    assert db.settle(claim, to, error="boom") == []
    return claim.id


def test_a_parent_that_tries_again_keeps_its_child_waiting(db):
    (one,) = parents(db, 1)
    job_id = child(db, one)
    db.settle(db.take(queue="parents"), "scheduled", charge=1)
    assert db.statuses(job_id) == ["held"]
    run(db)
    assert db.statuses(job_id) == ["queued"]


@pytest.mark.parametrize("how", ["fails", "is lost"])
def test_a_child_waits_for_the_job_that_retries_its_at_most_once_parent(db, how):
    (one,) = parents(db, 1, delivery="at_most_once")
    job_id = child(db, one)
    worker = db.worker()
    claim = db.take(worker, "parents")
    if how == "fails":
        db.settle_all([failed(claim, "boom")])
    else:
        db.reap(worker)
    (again,) = db.find(retry_of=one)
    assert db.statuses(one, job_id) == ["failed", "held"]
    assert db.awaited(job_id) == {again.id: "scheduled"}
    db.advance("2h")
    db.promote()
    assert run(db) == again.id
    assert db.drain() == [job_id]


def test_a_child_ends_with_the_last_of_a_chain_of_at_most_once_jobs(db):
    (one,) = parents(db, 1, delivery="at_most_once", max_attempts=2)
    job_id = child(db, one)
    for _ in range(2):
        db.settle_all([failed(db.take(queue="parents"), "boom")])
        db.advance("2h")
        db.promote()
    (last,) = db.find(retry_of=one)
    assert db.statuses(last.id, job_id) == ["dead", "canceled"]
    assert last.id in db.job(job_id).error


def test_a_child_ends_with_an_at_most_once_parent_whose_retry_was_superseded(db):
    scope = ("queued", "scheduled")
    (one,) = parents(db, 1, delivery="at_most_once", unique_key="k", unique_scope=scope)
    stopped, continued = child(db, one), child(db, one, on_failure="continue")
    claim = db.take(queue="parents")
    db.enqueue(queue="other", unique_key="k", unique_scope=scope)
    db.settle(claim, "failed", charge=1, delay_ms=0)
    assert db.statuses(stopped, continued) == ["canceled", "queued"]


def test_what_still_waits_for_a_retried_parent_waits_for_it_again(db):
    one, two = parents(db)
    job_id = child(db, one, two)
    run(db, "dead")
    db.retry(one)
    assert set(db.awaited(job_id)) == {one, two}
    run(db)
    assert db.statuses(job_id) == ["held"]
    run(db)
    assert db.statuses(job_id) == ["queued"]


def test_a_child_that_was_stopped_can_be_retried_after_its_parent(db):
    (one,) = parents(db, 1)
    job_id = child(db, one)
    run(db, "dead")
    assert db.statuses(job_id) == ["canceled"]
    db.retry(one)
    run(db)
    db.retry(job_id)
    assert db.statuses(job_id) == ["queued"]


def test_pruning_a_parent_leaves_its_child_as_it_is(db):
    one, two = parents(db)
    job_id = child(db, one, two)
    run(db)
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=1_000) == 1
    assert db.statuses(job_id) == ["held"]
    assert list(db.awaited(job_id)) == [two]
    run(db)
    assert db.drain() == [job_id]


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_pruning_a_parent_that_failed_saves_no_child(db, to):
    one, two = parents(db)
    stopped, continued = child(db, one, two), child(db, one, two, on_failure="continue")
    assert run(db, to) == one
    db.process_arrivals()
    db.advance("1h")
    assert db.prune(to, older_than_ms=1_000) == 1
    run(db)
    assert db.statuses(stopped, continued) == ["canceled", "queued"]


def test_pruning_everything_leaves_no_edges(db):
    one, two = parents(db)
    child(db, one, two)
    db.drain("parents")
    db.drain()
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=1_000) == 3
    assert db.sql("select count(*) from {edges}") == [(0,)]
