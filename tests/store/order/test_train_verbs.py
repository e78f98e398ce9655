"""What operators do to trains: hold, resume, skip, clear, retry of a car; and how trains are listed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from headway.errors import NotAllowed
from headway.model.ids import new_id
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def cars(db, count=3, **options):
    return [db.enqueue(**{"train": "t", **options}).id for _ in range(count)]


def on_hold(db, count=3, **options):
    """A train on hold because its first car is dead."""
    ids = cars(db, count, on_dead="hold", **options)
    db.settle(db.take(), "dead")
    return ids


# hold


def test_a_hold_lets_the_locomotive_go_on_to_its_end_and_no_other_after_it(db):
    ids = cars(db)
    claim = db.take()
    db.hold_train("t", reason="deploy", actor="ann")
    held_at = db.now()
    db.advance("1m")
    db.finish(claim)
    assert db.statuses(*ids) == ["succeeded", "held", "held"]
    assert db.claim() == []
    hold = db.train("t").hold
    assert (hold.since, hold.job_id, hold.reason, hold.actor) == (held_at, None, "deploy", "ann")


def test_a_queued_locomotive_runs_in_spite_of_a_hold(db):
    first, second = cars(db, 2)
    db.hold_train("t")
    assert db.drain() == [first]
    assert db.statuses(second) == ["held"]


def test_a_locomotive_that_retries_keeps_its_seat_in_spite_of_a_hold(db):
    first, second = cars(db, 2, delivery="at_least_once")
    claim = db.take()
    db.hold_train("t")
    db.settle(claim, "scheduled", charge=1, delay_ms=1_000)
    db.advance("2s")
    db.promote()
    assert db.drain() == [first]
    assert db.statuses(second) == ["held"]


def test_the_job_that_retries_a_failed_locomotive_runs_in_spite_of_a_hold(db):
    first, second = cars(db, 2, delivery="at_most_once")
    claim = db.take()
    db.hold_train("t")
    db.settle(claim, "failed", charge=1, delay_ms=0)
    (again,) = db.find(retry_of=first)
    assert db.drain() == [again.id]
    assert db.statuses(second) == ["held"]


def test_an_empty_train_can_be_held(db):
    db.hold_train("t", actor="ann")
    job = db.enqueue(train="t")
    assert job.status == "held"
    assert db.claim() == []
    assert db.resume_train("t")
    assert db.drain() == [job.id]


def test_a_hold_may_be_repeated(db):
    cars(db, 1)
    db.hold_train("t", reason="one")
    db.hold_train("t", reason="two")
    assert db.resume_train("t")
    assert db.train("t").hold is None


def test_a_hold_reaches_only_its_tenant(db):
    db.hold_train("t", tenant_id=ACME)
    mine = db.enqueue(train="t").id
    theirs = db.enqueue(train="t", tenant="acme").id
    assert db.statuses(mine, theirs) == ["queued", "held"]


# resume


def test_a_resume_lets_the_next_car_go(db):
    ids = on_hold(db)
    assert db.resume_train("t")
    assert db.statuses(*ids) == ["dead", "queued", "held"]
    assert db.train("t").hold is None
    assert db.drain() == ids[1:]


def test_a_resume_beside_a_running_locomotive_lets_no_second_car_go(db):
    first, second = cars(db, 2)
    claim = db.take()
    db.hold_train("t")
    assert db.resume_train("t")
    assert db.statuses(first, second) == ["running", "held"]
    db.finish(claim)
    assert db.drain() == [second]


def test_a_resume_of_what_is_not_on_hold_gives_false(db):
    first, second = cars(db, 2)
    assert db.resume_train("t") is False
    assert db.resume_train("nothing") is False
    assert db.statuses(first, second) == ["queued", "held"]


def test_a_resume_reaches_only_its_tenant(db):
    on_hold(db)
    assert db.resume_train("t", tenant_id=ACME) is False
    assert db.train("t").blocked


def test_a_resume_of_an_empty_train_leaves_no_row(db):
    on_hold(db, 1)
    assert db.resume_train("t")
    assert db.trains() == []


# skip


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_car_that_waits_can_be_skipped_whatever_its_on_canceled_says(db, place):
    ids = cars(db, on_canceled="hold")
    assert db.skip(ids[place], actor="ann") == "canceled"
    job = db.job(ids[place])
    assert (job.status, job.finished_at) == ("canceled", db.now())
    assert "skipped" in job.error
    assert db.train("t").hold is None
    assert db.drain() == [job_id for job_id in ids if job_id != ids[place]]
    assert [(entry.actor, entry.action) for entry in db.audit(ids[place])] == [("ann", "skip")]


def test_a_scheduled_locomotive_can_be_skipped(db):
    ids = cars(db, 2, on_canceled="hold")
    db.settle(db.take(), "scheduled", charge=1, delay_ms=60_000)
    assert db.skip(ids[0]) == "canceled"
    assert db.drain() == [ids[1]]


def test_skipping_the_car_that_put_its_train_on_hold_ends_the_hold(db):
    ids = on_hold(db)
    assert db.skip(ids[0]) == "dead"
    assert db.statuses(*ids) == ["dead", "queued", "held"]
    assert db.train("t").hold is None


def test_skipping_another_finished_car_ends_no_hold(db):
    first = cars(db, 1)[0]
    db.finish(db.take())
    ids = on_hold(db)
    with suppress(NotAllowed):
        assert db.skip(first) == "succeeded"
    assert db.statuses(first, *ids) == ["succeeded", "dead", "held", "held"]
    assert db.train("t").hold.job_id == ids[0]


def test_a_held_car_of_a_train_on_hold_can_be_skipped_and_the_hold_stays(db):
    ids = on_hold(db)
    assert db.skip(ids[1]) == "canceled"
    assert db.train("t").blocked
    db.resume_train("t")
    assert db.drain() == [ids[2]]


def test_a_running_car_is_not_skipped(db):
    first, second = cars(db, 2)
    claim = db.take()
    with pytest.raises(NotAllowed):
        db.skip(first)
    assert db.statuses(first, second) == ["running", "held"]
    assert db.job(claim.id).cancel_requested_at is None


def test_what_is_not_a_car_is_not_skipped(db):
    job_id = db.enqueue().id
    with pytest.raises(NotAllowed):
        db.skip(job_id)
    assert db.status(job_id) == "queued"


def test_a_skip_of_an_unknown_job_gives_none(db):
    job_id = db.enqueue(train="t").id
    assert db.skip(new_id()) is None
    assert db.skip(job_id, tenant_id=ACME) is None
    assert db.status(job_id) == "queued"


# clear


def test_clear_cancels_every_car_that_does_not_run(db):
    ids = cars(db, 4, on_canceled="hold")
    claim = db.take()
    assert sorted(db.clear_train("t", actor="ann")) == sorted(ids[1:])
    assert db.statuses(*ids) == ["running", "canceled", "canceled", "canceled"]
    assert "cleared" in db.job(ids[1]).error
    assert (db.train("t").length, db.train("t").hold) == (1, None)
    late = db.enqueue(train="t")
    assert late.status == "held"
    db.finish(claim)
    assert db.drain() == [late.id]


def test_clear_takes_a_queued_locomotive_too_and_leaves_no_row(db):
    ids = cars(db, 3, on_canceled="hold")
    assert sorted(db.clear_train("t")) == sorted(ids)
    assert db.statuses(*ids) == ["canceled"] * 3
    assert db.trains() == []
    assert db.drain(queue="default") == []


def test_clear_ends_a_hold(db):
    ids = on_hold(db)
    assert sorted(db.clear_train("t")) == sorted(ids[1:])
    assert db.trains() == []
    assert db.enqueue(train="t").status == "queued"


def test_clear_of_nothing_gives_nothing_and_reaches_only_its_tenant(db):
    ids = cars(db)
    assert db.clear_train("other") == []
    assert db.clear_train("t", tenant_id=ACME) == []
    assert db.statuses(*ids) == ["queued", "held", "held"]


def test_a_clear_may_be_repeated(db):
    ids = cars(db)
    db.clear_train("t")
    before = [db.job(job_id) for job_id in ids]
    db.advance("1m")
    assert db.clear_train("t") == []
    assert [db.job(job_id) for job_id in ids] == before


# retry of a car


def test_a_retry_of_the_head_ends_its_hold_and_gives_it_the_seat(db):
    ids = on_hold(db)
    assert db.retry(ids[0], actor="ann") == {ids[0]: ids[0]}
    assert db.statuses(*ids) == ["queued", "held", "held"]
    assert db.train("t").hold is None
    assert db.drain() == ids


def test_a_retry_of_an_at_most_once_head_ends_its_hold_and_gives_its_successor_the_seat(db):
    ids = on_hold(db, delivery="at_most_once")
    again = db.retry(ids[0])[ids[0]]
    job = db.job(again)
    assert (job.train, job.position, job.retry_of) == ("t", db.job(ids[0]).position, ids[0])
    assert db.statuses(*ids, again) == ["dead", "held", "held", "queued"]
    assert db.train("t").hold is None
    assert db.drain() == [again, *ids[1:]]


def test_a_retried_car_takes_its_old_place_behind_the_locomotive(db):
    ids = cars(db, 4)
    db.settle(db.take(), "dead")
    claim = db.take()
    assert db.retry(ids[0]) == {ids[0]: ids[0]}
    assert db.statuses(*ids) == ["held", "running", "held", "held"]
    db.finish(claim)
    assert db.drain() == [ids[0], ids[2], ids[3]]


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_retried_car_of_an_empty_train_is_the_locomotive(db, to):
    (first,) = cars(db, 1)
    db.settle(db.take(), to)
    db.retry(first)
    assert db.statuses(first) == ["queued"]
    assert db.enqueue(train="t").status == "held"


def test_a_retried_car_of_a_train_on_hold_for_another_reason_is_held(db):
    first = cars(db, 1)[0]
    db.finish(db.take())
    ids = on_hold(db)
    db.retry(first)
    assert db.statuses(first, *ids) == ["held", "dead", "held", "held"]
    assert db.train("t").hold.job_id == ids[0]
    db.resume_train("t")
    assert db.drain() == [first, *ids[1:]]


@pytest.mark.parametrize("order", [1, -1])
def test_cars_that_are_retried_together_run_in_their_old_order(db, order):
    ids = cars(db, 4)
    db.drain()
    db.retry(*ids[::order])
    assert sorted(db.statuses(*ids)) == ["held", "held", "held", "queued"]
    assert db.drain() == ids


def test_a_retried_car_has_a_full_budget_when_its_turn_comes(db):
    first, second = cars(db, 2)
    db.settle(db.take(), "dead", charge=1)
    claim = db.take()
    db.retry(first)
    assert (db.job(first).tries, db.job(first).finished_at) == (0, None)
    db.finish(claim)
    again = db.take()
    assert (again.id, again.fence, again.tries) == (first, 2, 0)
    assert db.status(second) == "succeeded"


# lists


def test_trains_are_listed_with_length_head_age_and_hold(db):
    first = db.enqueue(train="b", kind="first").id
    since = db.now()
    db.advance("1m")
    cars(db, 2, train="b", kind="second")
    db.take()
    blocked = on_hold(db, 2, train="a")
    held_at = db.now()
    db.advance("1m")
    a, b = db.trains()
    assert (a.train, a.length, a.head_id, a.head_status, a.blocked) == ("a", 1, blocked[1], "held", True)
    assert (a.hold.since, a.hold.job_id) == (held_at, blocked[0])
    assert (b.train, b.length, b.head_id, b.head_kind) == ("b", 3, first, "first")
    assert (b.head_status, b.head_since, b.head_pending, b.hold) == ("running", since, False, None)
    assert (b.tenant, b.blocked) == ("default", False)


def test_the_head_of_a_train_is_its_locomotive_wherever_that_stands(db):
    first, second = cars(db, 2)
    db.settle(db.take(), "dead")
    claim = db.take()
    db.retry(first)
    assert db.train("t").head_id == second == claim.id
    assert db.cars("t") == [second, first]


def test_trains_can_be_picked_and_paged(db):
    db.set_fair(fair=False)
    for name in ("c", "a", "b"):
        cars(db, 1, train=name, on_dead="hold")
    (theirs,) = cars(db, 1, train="b", tenant="acme")
    db.settle(db.take(), "dead")
    assert [train.train for train in db.trains()] == ["a", "b", "b", "c"]
    both = db.trains(train="b")
    assert [train.tenant_id for train in both] == sorted(train.tenant_id for train in both)
    assert [train.train for train in db.trains(blocked=True)] == ["c"]
    assert [train.train for train in db.trains(blocked=False)] == ["a", "b", "b"]
    assert [train.train for train in db.trains(limit=1)] == ["a"]
    assert [train.train for train in db.trains(after="a")] == ["b", "b", "c"]
    assert [train.train for train in db.trains(after="b")] == ["c"]
    (acme,) = db.trains(tenant_id=ACME)
    assert (acme.train, acme.tenant, acme.head_id) == ("b", "acme", theirs)


def test_cars_are_listed_in_their_order_and_only_while_unfinished(db):
    db.set_fair(fair=False)
    ids = cars(db, 5)
    db.enqueue(train="t", tenant="acme")
    db.finish(db.take())
    db.cancel(ids[3])
    assert db.cars("t") == [ids[1], ids[2], ids[4]]
    assert db.cars("t", limit=2) == [ids[1], ids[2]]
    assert len(db.cars("t", tenant_id=ACME)) == 1
    assert db.cars("none") == []


def test_a_held_car_knows_its_place_and_its_locomotive(db):
    ids = cars(db, 4)
    assert db.train_place(ids[1]) == (1, ids[0])
    assert db.train_place(ids[3]) == (3, ids[0])
    db.finish(db.take())
    assert db.train_place(ids[3]) == (2, ids[1])


def test_a_held_car_of_a_train_on_hold_has_no_locomotive(db):
    ids = on_hold(db)
    assert db.train_place(ids[1]) == (0, None)
    assert db.train_place(ids[2]) == (1, None)


def test_what_is_done_to_a_train_is_in_the_audit(db):
    cars(db, 2, train="dest_42")
    db.hold_train("dest_42", reason="deploy", actor="ann")
    db.resume_train("dest_42", actor="bob")
    db.clear_train("dest_42", actor="cat")
    rows = db.sql("select actor, detail from {audit} where job_id is null order by id")
    assert [actor for actor, _ in rows] == ["ann", "bob", "cat"]
    assert all("dest_42" in detail for _, detail in rows)
