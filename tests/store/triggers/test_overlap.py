"""Overlap: with skip, a schedule does not fire while a job of its last fires, or its retry, is not over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.store.triggers.trigger_calls import firing, job_of, new_fire, states


def test_with_overlap_skip_a_time_is_skipped_while_a_job_is_not_over(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.now() + timedelta(seconds=1))
    db.advance("1s")
    skipped = db.fire_now(made, next_fire_at=db.after(1_000))
    assert (skipped.status, skipped.job_id, skipped.error) == ("skipped", first.job_id, None)
    after = db.trigger(made.id)
    assert (after.next_fire_at, after.last_job_id, after.error) == (db.after(1_000), first.job_id, None)
    assert len(db.find()) == 1
    db.drain()
    db.advance("1s")
    third = db.fire_now(made)
    assert third.status == "enqueued"
    assert [status for _, status, _ in states(db, made)] == ["enqueued", "skipped", "enqueued"]


@pytest.mark.parametrize("where", ["queued", "scheduled", "running", "held"])
def test_a_job_that_waits_or_runs_is_not_over(db, make, where):
    made = db.schedule(overlap="skip")
    if where == "held":
        db.enqueue(train="t")
    options = {"scheduled": {"delay_ms": 10**9}, "held": {"train": "t"}}.get(where, {})
    fire = db.fire_now(made, job=job_of(made, **options), next_fire_at=db.after(1_000))
    if where == "running":
        db.take()
    assert db.status(fire.job_id) == where
    db.advance("1s")
    assert db.fire_now(made).status == "skipped"


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_job_that_is_over_is_no_overlap(db, to):
    made = db.schedule(overlap="skip")
    db.fire_now(made, next_fire_at=db.after(1_000))
    db.settle(db.take(), to, error="boom")
    db.advance("1s")
    assert db.fire_now(made).status == "enqueued"


def test_a_pruned_job_is_no_overlap(db):
    made = db.schedule(overlap="skip")
    db.fire_now(made, next_fire_at=db.after(1_000))
    db.drain()
    db.advance("1s")
    assert db.prune("succeeded", older_than_ms=0) == 1
    assert db.fire_now(made).status == "enqueued"


def test_with_overlap_skip_only_the_first_of_a_firing_is_enqueued(db):
    made = db.schedule(overlap="skip")
    first, *others = db.fire(firing(made, *(db.after(n) for n in range(4)), next_fire_at=None))
    assert first.status == "enqueued"
    assert [(each.status, each.job_id) for each in others] == [("skipped", first.job_id)] * 3
    assert len(db.find()) == 1


def test_a_failed_fire_is_no_overlap_for_the_next_of_its_firing(db):
    made = db.schedule(overlap="skip")
    fires = [new_fire(made, db.now(), error="boom"), new_fire(made, db.after(1)), new_fire(made, db.after(2))]
    written = db.fire(firing(made, *fires, next_fire_at=None))
    assert [each.status for each in written] == ["failed", "enqueued", "skipped"]


def test_with_overlap_allow_nothing_is_skipped(db):
    made = db.schedule(overlap="allow")
    fires = db.fire(firing(made, *(db.after(n) for n in range(4)), next_fire_at=None))
    assert [each.status for each in fires] == ["enqueued"] * 4


def test_another_schedules_job_is_no_overlap(db):
    one, two = db.schedule(overlap="skip"), db.schedule(overlap="skip")
    fires = db.fire(*(firing(each, db.now(), next_fire_at=None) for each in (one, two)))
    assert [each.status for each in fires] == ["enqueued"] * 2


def test_the_job_that_retries_an_at_most_once_job_is_not_over_either(db):
    made = db.schedule(overlap="skip")
    db.fire_now(made, job=job_of(made, delivery="at_most_once"), next_fire_at=db.after(1_000))
    claim = db.take()
    db.settle(claim, "failed", charge=1, delay_ms=0, error="boom")
    (again,) = db.find(retry_of=claim.id)
    db.advance("1s")
    skipped = db.fire_now(made, next_fire_at=db.after(1_000))
    assert (skipped.status, skipped.job_id) == ("skipped", again.id)
    # and the one that retries the retry
    db.settle(db.take(), "failed", charge=1, delay_ms=10**9, error="boom")
    (third,) = db.find(retry_of=again.id)
    db.advance("1s")
    skipped = db.fire_now(made, next_fire_at=db.after(1_000))
    assert (skipped.status, skipped.job_id) == ("skipped", third.id)
    db.cancel(third.id)
    db.advance("1s")
    assert db.fire_now(made).status == "enqueued"


def test_a_job_retried_in_its_place_is_not_over_again(db):
    made = db.schedule(overlap="skip")
    fire = db.fire_now(made, next_fire_at=db.after(1_000))
    db.settle(db.take(), "dead", error="boom")
    db.retry(fire.job_id)
    db.advance("1s")
    assert db.fire_now(made).status == "skipped"


def test_an_old_job_is_seen_past_fires_that_were_skipped(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.after(1_000))
    for _ in range(15):
        db.advance("1s")
        assert db.fire_now(made, next_fire_at=db.after(1_000)).job_id == first.job_id


def test_an_old_job_is_seen_past_any_number_of_fires_that_made_none(db):
    made = db.schedule(overlap="skip")
    first = db.fire_now(made, next_fire_at=db.after(1_000))
    for n in range(50):
        db.advance("1s")
        db.fire_now(made, **({"error": "boom"} if n % 5 else {}), next_fire_at=db.after(1_000))
    db.advance("1s")
    last = db.fire_now(made)
    assert (last.status, last.job_id) == ("skipped", first.job_id)


@pytest.mark.parametrize(("more", "status"), [(19, "skipped"), (20, "enqueued")])
def test_an_overlap_is_looked_for_among_the_last_twenty_fires_that_made_a_job(db, more, status):
    made = db.schedule(overlap="skip")
    db.run_trigger(new_fire(made, job=job_of(made, delay_ms=10**9)))
    for _ in range(more):
        db.run_trigger(new_fire(made))
    db.drain()
    assert db.fire_now(made).status == status
