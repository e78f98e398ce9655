"""Where the ways of ordering meet: cars with `after`, with limits, with rates; what is in whose way, how long."""

from __future__ import annotations

import pytest

from headway.errors import InvalidJob, LeaseLost
from headway.model.ids import DEFAULT_TENANT_ID, new_id
from headway.model.limit import concurrency_key, rate_key


def car(db, **options):
    return db.enqueue(**{"train": "t", **options}).id


@pytest.fixture
def parent(db):
    """A running job, in a queue of its own."""
    return db.start(queue="parents")


# cars with after


def test_a_head_that_waits_for_other_jobs_makes_its_train_wait(db, parent):
    first = car(db, after=(parent.id,))
    second = car(db)
    assert db.statuses(first, second) == ["held", "held"]
    train = db.train("t")
    assert (train.length, train.head_id, train.head_pending, train.blocked) == (2, first, True, False)
    assert db.claim() == []
    db.finish(parent)
    assert db.statuses(first, second) == ["queued", "held"]
    assert db.train("t").head_pending is False
    assert db.drain() == [first, second]


def test_a_train_stops_before_a_car_that_waits_for_other_jobs(db, parent):
    first = car(db)
    second = car(db, after=(parent.id,))
    third = car(db)
    assert db.drain() == [first]
    assert db.statuses(second, third) == ["held", "held"]
    db.finish(parent)
    assert db.drain() == [second, third]


def test_a_car_whose_jobs_are_over_before_its_turn_waits_for_its_turn(db, parent):
    first = car(db)
    second = car(db, after=(parent.id,))
    claim = db.take()
    db.finish(parent)
    assert db.statuses(first, second) == ["running", "held"]
    assert db.job(second).pending is False
    db.finish(claim)
    assert db.drain() == [second]


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_a_head_that_ends_with_its_parent_lets_the_next_car_go(db, parent, to):
    first = car(db, after=(parent.id,))
    second = car(db)
    db.settle(parent, to)
    assert db.statuses(first, second) == ["canceled", "queued"]


@pytest.mark.parametrize("how", ["cancel", "skip", "expire", "clear"])
def test_a_head_that_waits_for_other_jobs_can_be_taken_out(db, parent, how):
    first = car(db, after=(parent.id,), expires_at=db.after(60_000))
    second = car(db)
    match how:
        case "cancel":
            db.cancel(first)
        case "skip":
            db.skip(first)
        case "expire":
            db.advance("2m")
            db.promote()
        case "clear":
            db.clear_train("t")
    assert db.statuses(first, second) == ["canceled", "canceled" if how == "clear" else "queued"]


def test_a_car_can_be_moved_past_a_head_that_waits_for_other_jobs(db, parent):
    first = car(db, after=(parent.id,))
    second = car(db)
    db.move(second, before=first)
    assert db.statuses(first, second) == ["held", "queued"]
    assert db.drain() == [second]
    db.finish(parent)
    assert db.drain() == [first]


def test_a_hold_stops_a_car_whose_jobs_are_over(db, parent):
    first = car(db, after=(parent.id,))
    db.hold_train("t")
    db.finish(parent)
    assert db.statuses(first) == ["held"]
    db.resume_train("t")
    assert db.drain() == [first]


def test_a_car_may_wait_for_a_car_before_it(db):
    first = car(db)
    second = car(db, after=(first,))
    assert db.drain() == [first, second]


def test_a_car_that_waits_for_a_car_behind_it_is_an_operators_matter(db, make):
    """A circle through a train: nothing moves, nothing hangs, and a move opens it."""
    second = make.job(train="t")
    first = make.job(train="t", after=(second.id,))
    try:
        db.enqueue_all([first, second])
    except InvalidJob:
        assert db.find() == []
        return
    assert db.statuses(first.id, second.id) == ["held", "held"]
    db.sweep()
    assert db.claim() == []
    db.move(second.id, first=True)
    assert db.drain() == [second.id, first.id]


def test_cars_of_two_trains_may_wait_for_each_others_jobs(db):
    one = db.enqueue(train="a").id
    two = db.enqueue(train="b", after=(one,)).id
    three = db.enqueue(train="a", after=(two,)).id
    four = db.enqueue(train="b", after=(three,)).id
    assert db.drain() == [one, two, three, four]


@pytest.mark.parametrize("let_go_by", ["settle", "resume", "cancel"])
def test_a_car_that_is_superseded_when_its_turn_comes_takes_its_children_along(db, let_go_by):
    scope = ("queued",)
    first = car(db)
    second = car(db, unique_key="k", unique_scope=scope)
    stopped, continued = db.enqueue(after=(second,)).id, db.enqueue(after=(second,), on_failure="continue").id
    db.enqueue(queue="other", unique_key="k", unique_scope=scope)
    match let_go_by:
        case "settle":
            db.finish(db.take())
        case "resume":
            db.hold_train("t")
            db.finish(db.take())
            db.resume_train("t")
        case "cancel":
            db.cancel(first)
    assert db.statuses(second, stopped, continued) == ["canceled", "canceled", "queued"]
    assert not db.sweep()


def test_a_delayed_car_with_after_waits_for_both_and_keeps_its_train(db, parent):
    first = car(db, after=(parent.id,), delay_ms=60_000)
    second = car(db)
    db.finish(parent)
    assert db.statuses(first, second) == ["scheduled", "held"]
    db.advance("2m")
    db.promote()
    assert db.drain() == [first, second]


# cars with limits


def test_a_locomotive_that_is_limited_out_keeps_its_seat(db):
    key = {"concurrency": 1, "concurrency_key": "k"}
    blocker = db.start(queue="other", **key)
    first, second = car(db, **key), car(db)
    assert db.claim() == []
    assert db.limited_by(first, second) == [concurrency_key(DEFAULT_TENANT_ID, "mail", "k"), None]
    assert db.statuses(first, second) == ["queued", "held"]
    db.finish(blocker)
    assert db.drain() == [first, second]


def test_a_locomotive_that_is_canceled_while_it_is_limited_out_lets_the_next_car_go(db):
    blocker = db.start(queue="other", partition="p")
    first, second = car(db, partition="p"), car(db)
    assert db.claim() == []
    db.cancel(first)
    assert db.drain() == [second]
    db.finish(blocker)
    assert db.statuses(first) == ["canceled"]


def test_a_train_never_starts_faster_than_its_rate(db):
    rate = {"rate_count": 1, "rate_period_ms": 1_000, "rate_key": "k"}
    ids = [car(db, **rate) for _ in range(3)]
    started = []
    for _ in range(5):
        claims = db.claim()
        started.append(len(claims))
        db.finish(*claims)
        assert db.claim() == []
        db.advance(1)
        db.promote()
    assert started == [1, 1, 1, 0, 0]
    assert db.statuses(*ids) == ["succeeded"] * 3
    assert db.usage(rate_key(DEFAULT_TENANT_ID, "mail", "k")).waiting == 0


def test_trains_in_a_limited_queue_all_come_to_their_end(db, make):
    db.limit("queue", "default", max_running=2)
    jobs = [make.job(train=f"t{n % 5}", concurrency=1, concurrency_key=f"k{n % 3}") for n in range(20)]
    db.enqueue_all(jobs)
    started = db.drain()
    for name in {job.train for job in jobs}:
        ids = [job.id for job in jobs if job.train == name]
        assert [job_id for job_id in started if job_id in ids] == ids
    assert len(started) == 20


# one claim


def test_a_claim_takes_only_what_may_run_now_in_order(db):
    """A bit of everything in one queue: Invariant 5, order is a function of the stored rows."""
    db.enqueue(delay_ms=60_000)
    late = db.enqueue(priority=101).id
    locomotive = car(db)
    car(db)
    plain = db.enqueue().id
    alone = db.enqueue(partition="p").id
    db.enqueue(partition="p")
    urgent = db.enqueue(priority=1, train="u").id
    db.enqueue(after=(plain,))
    db.enqueue(expires_at=db.after(0), priority=1)
    assert [claim.id for claim in db.claim()] == [urgent, locomotive, plain, alone, late]
    assert db.claim() == []


def test_an_unregistered_worker_moves_no_train(db):
    job_id = car(db)
    with pytest.raises(LeaseLost):
        db.claim(new_id())
    assert db.statuses(job_id) == ["queued"]
