"""What a car's end means for its train: the next one goes, or the train is on hold; at any place, by any end."""

from __future__ import annotations

from contextlib import closing

import pytest

from headway.model.ids import new_id
from headway.model.retry import failed


def cars(db, count=3, **options):
    return [db.enqueue(**{"train": "t", **options}).id for _ in range(count)]


def end(db, how, **options):
    """A train of three whose first car ended in that way; gives the ids."""
    ids = cars(db, 3, **options)
    match how:
        case "succeeded" | "dead" | "canceled":
            db.settle(db.take(), how, error="boom")
        case "canceled while queued":
            db.cancel(ids[0])
        case "canceled while scheduled":
            db.settle(db.take(), "scheduled", delay_ms=60_000)
            db.cancel(ids[0])
        case "canceled when asked":
            claim = db.take()
            db.cancel(ids[0])
            db.settle(claim, "scheduled", delay_ms=60_000)
        case "canceled on release":
            claim = db.take()
            db.cancel(ids[0])
            db.release(claim)
        case "expired":
            db.change(ids[0], expires_at=db.after(1_000))
            db.advance("2s")
            assert db.promote().expired == 1
        case "out of losses":
            db.change(ids[0], max_losses=1)
            worker = db.worker()
            db.take(worker)
            assert [reaped.to for reaped in db.reap(worker)] == ["dead"]
        case "lost and canceled":
            worker = db.worker()
            db.take(worker)
            db.cancel(ids[0])
            assert [reaped.to for reaped in db.reap(worker)] == ["canceled"]
    return ids


CANCELED = [
    "canceled",
    "canceled while queued",
    "canceled while scheduled",
    "canceled when asked",
    "canceled on release",
    "expired",
    "lost and canceled",
]
DEAD = ["dead", "out of losses"]


@pytest.mark.parametrize("how", ["succeeded", *CANCELED, *DEAD])
def test_by_default_the_next_car_goes_whatever_the_end(db, how):
    ids = end(db, how)
    assert db.statuses(*ids)[1:] == ["queued", "held"]
    assert not db.train("t").blocked
    assert db.drain() == ids[1:]


@pytest.mark.parametrize("how", CANCELED)
def test_on_canceled_hold_puts_the_train_on_hold(db, how):
    ids = end(db, how, on_canceled="hold")
    assert db.statuses(*ids) == ["canceled", "held", "held"]
    train = db.train("t")
    assert (train.blocked, train.length, train.head_id, train.head_status) == (True, 2, ids[1], "held")
    assert (train.hold.job_id, train.hold.since) == (ids[0], db.now())
    assert ids[0] in train.hold.reason
    assert "cancel" in train.hold.reason
    assert db.claim() == []


@pytest.mark.parametrize("how", ["in its transaction", "after its commit", "resumed", "behind one that was canceled"])
def test_a_first_car_canceled_before_any_claim_holds_its_train_too(db, make, how):
    """On PostgreSQL it may still be held, until the next claim makes it the locomotive."""
    with closing(db.connect()) as conn:
        conn.execute("begin")
        jobs = [make.job(train="t", on_canceled="hold") for _ in range(4)]
        ids = [db.store.run_in(conn, db.ops.enqueue([job]))[0].id for job in jobs]
        if how == "in its transaction":
            db.store.run_in(conn, db.ops.cancel([ids[0]], tenant_id=None, reason=None, actor=None))
        conn.execute("commit")
    first = ids[0]
    match how:
        case "after its commit":
            db.cancel(first)
        case "resumed":
            db.hold_train("t")
            db.process_arrivals()
            db.resume_train("t")
            db.cancel(first)
        case "behind one that was canceled":
            db.skip(first)
            first = ids[1]
            db.cancel(first)
    assert db.train("t").hold.job_id == first
    assert db.claim() == []
    assert db.statuses(*ids[2:]) == ["held", "held"]


def test_cars_canceled_in_one_call_hold_their_train_for_the_locomotive_only(db):
    ids = [db.enqueue(train="t", on_canceled=policy).id for policy in ("advance", "hold", "advance")]
    db.cancel(*ids[:2])
    assert db.statuses(*ids) == ["canceled", "canceled", "queued"]
    assert not db.train("t").blocked


@pytest.mark.parametrize("how", DEAD)
def test_on_dead_hold_puts_the_train_on_hold(db, how):
    ids = end(db, how, on_dead="hold")
    assert db.statuses(*ids) == ["dead", "held", "held"]
    train = db.train("t")
    assert (train.hold.job_id, train.hold.since, train.head_id) == (ids[0], db.now(), ids[1])
    assert ids[0] in train.hold.reason
    assert "dead" in train.hold.reason
    assert db.claim() == []


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ("succeeded", {"on_dead": "hold", "on_canceled": "hold"}),
        ("dead", {"on_canceled": "hold"}),
        ("canceled", {"on_dead": "hold"}),
    ],
)
def test_a_policy_minds_only_its_own_end(db, how, options):
    ids = end(db, how, **options)
    assert db.statuses(*ids)[1:] == ["queued", "held"]


def test_the_policy_is_the_ending_cars_own(db):
    first = db.enqueue(train="t", on_dead="hold").id
    second = db.enqueue(train="t").id
    third = db.enqueue(train="t", on_dead="hold").id
    db.finish(db.take())
    db.settle(db.take(), "dead")
    assert db.statuses(first, second, third) == ["succeeded", "dead", "queued"]


def test_what_is_enqueued_into_a_train_on_hold_is_held(db):
    end(db, "dead", on_dead="hold")
    late = db.enqueue(train="t")
    assert late.status == "held"
    assert db.statuses(late.id) == ["held"]
    assert db.claim() == []


def test_a_hold_is_of_its_tenant_and_train_alone(db):
    end(db, "dead", on_dead="hold")
    others = [db.enqueue(train="t", tenant="acme").id, db.enqueue(train="u").id]
    assert db.drain() == others


def test_a_train_on_hold_without_cars_is_still_there(db):
    job_id = db.enqueue(train="t", on_dead="hold").id
    db.settle(db.take(), "dead")
    train = db.train("t")
    assert (train.length, train.head_id, train.head_status, train.head_since) == (0, None, None, None)
    assert train.hold.job_id == job_id
    assert db.enqueue(train="t").status == "held"


def test_a_hold_outlives_the_car_that_made_it(db):
    ids = end(db, "dead", on_dead="hold")
    db.advance("1h")
    assert db.prune("dead", older_than_ms=1_000) == 1
    assert db.train("t").hold.job_id == ids[0]
    assert db.resume_train("t")
    assert db.drain() == ids[1:]


# at any other place


def test_a_held_car_that_is_canceled_leaves_the_others_in_order(db):
    ids = cars(db, 5)
    assert db.cancel(ids[2]) == {ids[2]: "canceled"}
    assert db.drain() == [ids[0], ids[1], ids[3], ids[4]]


def test_a_held_car_never_holds_its_train(db):
    ids = cars(db, 4, on_canceled="hold")
    db.cancel(ids[1])
    db.change(ids[2], expires_at=db.after(1_000))
    db.advance("2s")
    db.promote()
    assert db.statuses(*ids) == ["queued", "canceled", "canceled", "held"]
    assert db.train("t").hold is None
    assert db.drain() == [ids[0], ids[3]]


@pytest.mark.parametrize("places", [(0,), (0, 1), (1, 0), (0, 2), (3,), (0, 1, 2, 3), (2, 1)])
def test_any_cars_can_be_canceled_in_one_call(db, places):
    ids = cars(db, 4)
    db.cancel(*(ids[place] for place in places))
    left = [job_id for place, job_id in enumerate(ids) if place not in places]
    assert db.statuses(*left) == (["queued"] + ["held"] * 3)[: len(left)]
    assert db.drain() == left
    assert db.trains() == []


def test_a_cancel_of_cars_of_many_trains_lets_the_next_of_each_go(db, make):
    jobs = [make.job(train=f"t{n % 5}") for n in range(15)]
    db.enqueue_all(jobs)
    db.cancel(*(job.id for job in jobs[:5]))
    assert [claim.id for claim in db.claim()] == [job.id for job in jobs[5:10]]


# a unique key in the way


def test_a_car_that_would_enter_a_taken_scope_is_superseded_and_the_next_one_goes(db):
    first = db.enqueue(train="t").id
    second = db.enqueue(train="t", unique_key="k", unique_scope=("queued",)).id
    third = db.enqueue(train="t").id
    holder = db.enqueue(queue="other", unique_key="k", unique_scope=("queued",))
    assert holder.created
    db.finish(db.take())
    assert db.statuses(first, second, third) == ["succeeded", "canceled", "queued"]
    assert "superseded" in db.job(second).error
    assert db.drain() == [third]


def test_a_superseded_car_of_a_settle_batch_holds_up_no_other_train(db, make):
    db.enqueue_all([make.job(train=name) for name in "abc"])
    seconds = {
        name: db.enqueue(train=name, unique_key="k" if name == "b" else None, unique_scope=("queued",)).id
        for name in "abc"
    }
    thirds = {name: db.enqueue(train=name).id for name in "abc"}
    db.enqueue(queue="other", unique_key="k", unique_scope=("queued",))
    db.finish(*db.claim())
    assert db.statuses(*seconds.values()) == ["queued", "canceled", "queued"]
    assert db.statuses(*thirds.values()) == ["held", "queued", "held"]


@pytest.mark.parametrize("order", [1, -1])
def test_a_car_whose_group_stops_as_its_locomotive_ends_makes_way_for_the_next(db, make, order):
    group = make.group(id=new_id(), mode="parallel", on_failure="stop", callback_id=None)
    first = db.enqueue(train="t").id
    second, member = make.job(train="t", group_id=group.id), make.job(group_id=group.id)
    db.enqueue_all([second, member], group)
    third = db.enqueue(train="t").id
    ends = [make.settlement(*end) for end in zip(db.claim(), ["succeeded", "dead"], strict=True)]
    assert db.settle_all(ends[::order]) == []
    assert db.drain() == [third]
    assert db.statuses(first, second.id, member.id, third) == ["succeeded", "canceled", "dead", "succeeded"]


def test_a_batch_of_every_end_moves_each_train_by_its_own(db, make):
    firsts = [make.job(train=name, on_dead="hold") for name in "abcd"]
    db.enqueue_all([*firsts, make.job()])
    seconds = [db.enqueue(train=name).id for name in "abcd"]
    done, dead, again, held, alone = db.claim()
    db.hold_train("d")
    ends = [
        make.settlement(done, "succeeded"),
        make.settlement(dead, "dead", error="boom"),
        make.settlement(again, "scheduled", delay_ms=5_000),
        make.settlement(held, "succeeded"),
        make.settlement(alone, "succeeded", result="7"),
    ]
    assert db.settle_all(ends) == []
    assert db.statuses(*seconds) == ["queued", "held", "held", "held"]
    assert [db.train(name).blocked for name in "abcd"] == [False, True, False, True]
    assert db.job(alone.id).result == 7


def test_a_locomotive_that_is_superseded_by_running_lets_the_next_car_go(db):
    holder = db.start(queue="other", unique_key="k", unique_scope=("running",))
    first = db.enqueue(train="t", unique_key="k", unique_scope=("running",)).id
    second = db.enqueue(train="t").id
    for _ in range(2):  # what the first claim ended, the second may have to see
        db.drain()
    assert db.statuses(holder.id, first, second) == ["running", "canceled", "succeeded"]


def test_a_retrying_locomotive_that_is_superseded_lets_the_next_car_go(db):
    scope = ("queued", "scheduled")
    first = db.enqueue(train="t", unique_key="k", unique_scope=scope).id
    second = db.enqueue(train="t").id
    claim = db.take()
    db.enqueue(queue="other", unique_key="k", unique_scope=scope)
    db.settle(claim, "scheduled", delay_ms=1_000, charge=1)
    assert db.statuses(first, second) == ["canceled", "queued"]


# at most once


@pytest.mark.parametrize("delay_ms", [0, 5_000])
def test_the_job_that_retries_a_failed_locomotive_has_its_seat(db, delay_ms):
    first, second = cars(db, 2, delivery="at_most_once")
    db.settle(db.take(), "failed", charge=1, delay_ms=delay_ms)
    (again,) = db.find(retry_of=first)
    assert (again.train, again.position) == ("t", db.job(first).position)
    assert [db.status(job_id) for job_id in (first, again.id, second)] == [
        "failed",
        "scheduled" if delay_ms else "queued",
        "held",
    ]
    db.advance("1m")
    db.promote()
    assert db.drain() == [again.id, second]


def test_the_job_that_retries_a_lost_locomotive_has_its_seat(db):
    first, second = cars(db, 2, delivery="at_most_once", on_dead="hold")
    worker = db.worker()
    db.take(worker)
    assert [reaped.to for reaped in db.reap(worker)] == ["failed"]
    (again,) = db.find(retry_of=first)
    assert db.statuses(first, again.id, second) == ["failed", "scheduled", "held"]
    assert db.train("t").head_id == again.id
    assert (again.train, again.on_dead) == ("t", "hold")


def test_the_last_of_a_chain_ends_for_the_train(db):
    first, second = cars(db, 2, delivery="at_most_once", max_attempts=2, on_dead="hold")
    for _ in range(2):
        db.settle_all([failed(db.take(), "boom")])
        db.advance("2h")
        db.promote()
    (last,) = db.find(retry_of=first)
    assert db.statuses(first, last.id, second) == ["failed", "dead", "held"]
    assert db.train("t").hold.job_id == last.id


def test_a_retry_of_a_failed_locomotive_that_is_superseded_lets_the_next_car_go(db):
    scope = ("queued", "scheduled")
    cars(db, 1, delivery="at_most_once", unique_key="k", unique_scope=scope)
    (second,) = cars(db, 1)
    claim = db.take()
    db.enqueue(queue="other", unique_key="k", unique_scope=scope)
    db.settle(claim, "failed", charge=1, delay_ms=0)
    assert db.statuses(second) == ["queued"]
    assert db.drain() == [second]
