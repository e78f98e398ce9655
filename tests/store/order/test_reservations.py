"""Invariant 9: at most one active reservation per queue, and none but it claims; an expired one never blocks."""

from __future__ import annotations

import pytest

from headway.errors import LeaseLost
from headway.model.ids import new_id

ONE, TWO = new_id(), new_id()


def test_nothing_is_claimed_from_a_reserved_queue(db):
    ids = db.enqueue_ids(2)
    other = db.enqueue(queue="other").id
    granted = db.reserve(ONE, holder="host:7", expires_ms=60_000)
    assert (granted.queue, granted.id, granted.holder) == ("default", ONE, "host:7")
    assert (granted.since, granted.expires_at) == (db.now(), db.after(60_000))
    assert db.claim() == []
    assert [claim.id for claim in db.claim(queue="other")] == [other]
    assert db.unreserve(ONE) is True
    assert [claim.id for claim in db.claim()] == ids


def test_a_second_one_is_answered_with_the_first(db):
    first = db.reserve(ONE, holder="a")
    db.advance("1m")
    assert db.reserve(TWO, holder="b") == first
    assert db.reservations() == [first]


def test_a_reservation_can_be_renewed(db):
    since = db.now()
    db.reserve(ONE, expires_ms=60_000)
    db.advance("50s")
    renewed = db.reserve(ONE, expires_ms=60_000)
    assert (renewed.id, renewed.since, renewed.expires_at) == (ONE, since, db.after(60_000))
    db.advance("50s")
    db.enqueue()
    assert db.claim() == []
    assert db.reserve(TWO).id == ONE


def test_an_expired_one_never_blocks(db):
    db.reserve(ONE, expires_ms=60_000)
    job_id = db.enqueue().id
    db.advance("60s")
    assert db.reservations() == []
    assert [claim.id for claim in db.claim()] == [job_id]


def test_an_expired_one_makes_room_for_another(db):
    db.reserve(ONE, expires_ms=60_000)
    db.advance("61s")
    granted = db.reserve(TWO, holder="b")
    assert (granted.id, granted.since) == (TWO, db.now())
    assert db.reserve(ONE).id == TWO
    assert db.unreserve(ONE) is False
    assert [each.id for each in db.reservations()] == [TWO]


def test_giving_back_what_one_does_not_have_gives_false(db):
    assert db.unreserve(ONE) is False
    db.reserve(ONE)
    assert db.unreserve(TWO) is False
    assert db.unreserve(ONE) is True
    assert db.unreserve(ONE) is False
    assert db.reservations() == []


def test_queues_are_reserved_apart(db):
    assert db.reserve(ONE, "a").id == ONE
    assert db.reserve(TWO, "b").id == TWO
    assert [(each.queue, each.id) for each in db.reservations()] == [("a", ONE), ("b", TWO)]


def test_a_reserved_queue_goes_on_in_every_other_way(db):
    claim = db.start()
    db.enqueue(delay_ms=1_000)
    db.reserve(ONE)
    waiting = db.enqueue().id
    assert db.running_in() == 1
    db.advance("2s")
    assert db.promote().queued == 1
    db.finish(claim)
    assert db.running_in() == 0
    assert db.cancel(waiting) == {waiting: "canceled"}


def test_the_order_of_the_queue_is_untouched(db):
    ids = db.enqueue_ids(2)
    db.reserve(ONE)
    inline = db.enqueue().id
    claim = db.take_job(inline, reservation_id=ONE)
    db.finish(claim)
    db.unreserve(ONE)
    assert db.drain() == ids


def test_queues_show_who_reserved_them_and_until_when(db):
    db.enqueue()
    db.reserve(ONE, holder="host:7", expires_ms=60_000)
    queue = db.queues()["default"]
    assert (queue.reserved_by, queue.reserved_until) == ("host:7", db.after(60_000))
    db.advance("61s")
    queue = db.queues()["default"]
    assert (queue.reserved_by, queue.reserved_until) == (None, None)


# take


@pytest.mark.parametrize("reserved", [True, False])
def test_take_claims_exactly_that_job(db, reserved):
    ids = db.enqueue_ids(3)
    worker = db.worker()
    if reserved:
        db.reserve(ONE)
    claim = db.take_job(ids[1], worker, reservation_id=ONE if reserved else None)
    job = db.job(ids[1])
    assert (claim.id, claim.fence) == (ids[1], 1)
    assert (job.status, job.worker_id, job.fence, job.attempt_started_at) == ("running", worker, 1, db.now())
    assert db.statuses(ids[0], ids[2]) == ["queued", "queued"]
    assert [attempt.status for attempt in db.attempts(ids[1])] == ["running"]
    assert db.settle(claim, "succeeded", worker) == []


@pytest.mark.parametrize("given", [None, TWO], ids=["without", "with another"])
def test_take_gives_nothing_while_another_has_the_queue(db, given):
    job_id = db.enqueue().id
    db.reserve(ONE)
    assert db.take_job(job_id, reservation_id=given) is None
    assert db.status(job_id) == "queued"


def test_take_gives_nothing_once_another_has_the_queue(db):
    job_id = db.enqueue().id
    db.reserve(ONE, expires_ms=1_000)
    db.advance("2s")
    db.reserve(TWO)
    assert db.take_job(job_id, reservation_id=ONE) is None


@pytest.mark.parametrize("what", ["scheduled", "running", "finished", "held", "pending", "unknown"])
def test_take_gives_nothing_that_is_not_queued(db, what):
    match what:
        case "scheduled":
            job_id = db.enqueue(delay_ms=60_000).id
        case "running":
            job_id = db.start().id
        case "finished":
            claim = db.start()
            db.finish(claim)
            job_id = claim.id
        case "held":
            db.enqueue(train="t")
            job_id = db.enqueue(train="t").id
        case "pending":
            job_id = db.enqueue(after=(db.enqueue().id,)).id
        case "unknown":
            job_id = new_id()
    db.reserve(ONE)
    assert db.take_job(job_id, reservation_id=ONE) is None


@pytest.mark.parametrize("what", ["partition", "key", "kind", "queue", "rate"])
def test_take_minds_partitions_and_limits(db, what):
    options = {
        "partition": {"partition": "p"},
        "key": {"concurrency": 1, "concurrency_key": "k"},
        "kind": {"concurrency": 1},
        "queue": {},
        "rate": {"rate_count": 1, "rate_period_ms": 60_000},
    }[what]
    if what == "queue":
        db.limit("queue", "default", max_running=1)
    claim = db.start(**options)
    job_id = db.enqueue(**options).id
    db.reserve(ONE)
    assert db.take_job(job_id, reservation_id=ONE) is None
    assert db.status(job_id) == "queued"
    db.finish(claim)
    if what == "rate":
        db.advance("2m")
        db.promote()
    assert db.take_job(job_id, reservation_id=ONE).id == job_id


def test_what_take_runs_counts_against_its_limits(db):
    options = {"partition": "p", "concurrency": 1, "concurrency_key": "k"}
    ids = db.enqueue_ids(2, **options)
    claim = db.take_job(ids[1])
    assert db.claim() == []
    db.finish(claim)
    assert db.drain() == ids[:1]


def test_take_of_a_locomotive_moves_its_train_when_it_ends(db):
    first, second = (db.enqueue(train="t").id for _ in range(2))
    db.reserve(ONE)
    db.finish(db.take_job(first, reservation_id=ONE))
    assert db.statuses(second) == ["queued"]


def test_take_by_an_unregistered_worker_raises_lease_lost(db):
    job_id = db.enqueue().id
    with pytest.raises(LeaseLost):
        db.take_job(job_id, new_id())
    assert db.status(job_id) == "queued"


def test_a_crash_under_a_reservation_leaves_a_correct_record_and_no_blocked_queue(db):
    worker = db.worker(lease_ms=60_000)
    db.reserve(ONE, expires_ms=60_000)
    job_id = db.enqueue(max_losses=3).id
    db.take_job(job_id, worker, reservation_id=ONE)
    waiting = db.enqueue().id
    db.advance("61s")
    assert [(reaped.job_id, reaped.to) for reaped in db.reap()] == [(job_id, "scheduled")]
    assert [attempt.status for attempt in db.attempts(job_id)] == ["lost"]
    db.advance("1h")
    db.promote()
    assert db.drain() == [job_id, waiting]
