"""Retries keep the order: what waited for others waits for them again, and many go to the end of the line."""

from __future__ import annotations

import itertools

import pytest

from headway.errors import Duplicate
from headway.model.retry import failed


def chain(db, *, count=3, **options):
    """Jobs of which each waits for the one before."""
    ids = [db.enqueue(**options).id]
    for _ in range(count - 1):
        ids.append(db.enqueue(after=(ids[-1],), **options).id)
    return ids


def end(db, to="dead"):
    claim = db.take()
    assert db.settle(claim, to, error="boom") == []
    db.process_arrivals()
    return claim.id


# together


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_jobs_that_are_retried_together_run_in_their_order(db, order):
    ids = chain(db)
    assert db.drain() == ids
    db.retry(*(ids[place] for place in order))
    db.process_arrivals()
    assert db.statuses(*ids) == ["queued", "held", "held"]
    assert db.drain() == ids


@pytest.mark.parametrize("keep_place", [True, False])
def test_a_chain_that_died_is_retried_in_its_order(db, keep_place):
    ids = chain(db)
    end(db)
    assert db.statuses(*ids) == ["dead", "canceled", "canceled"]
    db.retry(*reversed(ids), keep_place=keep_place)
    db.process_arrivals()
    assert db.statuses(*ids) == ["queued", "held", "held"]
    assert db.drain() == ids


def test_at_most_once_jobs_that_are_retried_together_run_in_their_order(db):
    ids = chain(db, delivery="at_most_once")
    assert db.drain() == ids
    runs_as = db.retry(*reversed(ids))
    db.process_arrivals()
    new = [runs_as[job_id] for job_id in ids]
    assert set(new).isdisjoint(ids)
    assert db.statuses(*new) == ["queued", "held", "held"]
    assert db.drain() == new


def test_a_retried_parent_that_fails_again_stops_its_dependents_again(db):
    ids = chain(db)
    end(db)
    db.retry(*ids)
    end(db)
    assert db.statuses(*ids) == ["dead", "canceled", "canceled"]


# a dependent alone


def test_a_dependent_that_is_retried_while_its_parent_runs_waits_for_it(db):
    first, second = chain(db, count=2)
    assert db.drain() == [first, second]
    db.retry(first)
    claim = db.take()
    db.retry(second)
    db.process_arrivals()
    assert db.statuses(first, second) == ["running", "held"]
    db.finish(claim)
    assert db.drain() == [second]


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_a_dependent_that_is_retried_although_its_parent_did_not_succeed_runs(db, to):
    """Somebody wants exactly this: the parent is over, and nothing will change that."""
    first, second = chain(db, count=2)
    end(db, to)
    db.retry(second)
    db.process_arrivals()
    assert db.statuses(first, second) == [to, "queued"]
    assert db.drain() == [second]


def test_a_dependent_with_a_dead_and_a_retried_parent_waits_for_the_one_that_runs(db):
    dead, retried = db.enqueue_ids(2)
    child = db.enqueue(after=(dead, retried)).id
    end(db)
    end(db)
    db.retry(retried, child)
    db.process_arrivals()
    assert db.statuses(dead, retried, child) == ["dead", "queued", "held"]
    assert db.drain() == [retried, child]


# those that a parent's end canceled


@pytest.mark.parametrize("to", ["dead", "canceled"])
def test_a_retried_parent_brings_back_what_its_end_canceled(db, to):
    ids = chain(db, count=4)
    end(db, to)
    assert db.statuses(*ids) == [to, "canceled", "canceled", "canceled"]
    db.retry(ids[0], actor="ann")
    db.process_arrivals()
    assert db.statuses(*ids) == ["queued", "held", "held", "held"]
    assert [entry.action for entry in db.audit(ids[3])] == ["retry"]
    assert db.drain() == ids


def test_an_at_most_once_parent_brings_them_back_too(db):
    (parent,) = db.enqueue_ids(1, delivery="at_most_once", max_attempts=1)
    child = db.enqueue(after=(parent,)).id
    db.settle_all([failed(db.take(), "boom")])
    db.process_arrivals()
    assert db.statuses(parent, child) == ["dead", "canceled"]
    runs_as = db.retry(parent)[parent]
    db.process_arrivals()
    assert db.awaited(child) == {runs_as: "queued"}
    assert db.drain() == [runs_as, child]


def test_what_somebody_canceled_stays_canceled(db):
    first, second = chain(db, count=2)
    db.cancel(second, reason="not wanted")
    end(db)
    db.retry(first)
    assert db.drain() == [first]
    assert db.status(second) == "canceled"


def test_what_another_parent_stops_as_well_stays_until_that_one_is_retried(db):
    one, two = db.enqueue_ids(2)
    child = db.enqueue(after=(one, two)).id
    end(db)
    end(db)
    assert db.statuses(one, two, child) == ["dead", "dead", "canceled"]
    db.retry(one)
    db.process_arrivals()
    assert db.status(child) == "canceled"
    db.retry(two)
    db.process_arrivals()
    assert db.status(child) == "held"
    assert db.drain() == [one, two, child]


def test_one_whose_unique_key_is_taken_is_not_brought_back(db):
    first = db.enqueue().id
    second = db.enqueue(after=(first,), unique_key="k").id
    end(db)
    taken = db.enqueue(unique_key="k", queue="other").id
    assert db.retry(first) == {first: first}
    db.process_arrivals()
    assert db.statuses(first, second, taken) == ["queued", "canceled", "queued"]
    with pytest.raises(Duplicate):
        db.retry(first, second)


# the line


def test_a_single_retry_keeps_its_place(db):
    old, *waiting = db.enqueue_ids(4)
    end(db)
    db.retry(old)
    assert db.drain() == [old, *waiting]


def test_a_mass_retry_goes_to_the_end_of_the_line_in_its_old_order(db):
    old = db.enqueue_ids(3)
    for _ in old:
        end(db)
    live = db.enqueue_ids(2)
    db.retry(*reversed(old), keep_place=False)
    late = db.enqueue().id
    assert db.drain() == [*live, *old, late]


def test_a_mass_retry_of_at_most_once_jobs_goes_to_the_end_too(db):
    old = db.enqueue_ids(2, delivery="at_most_once", max_attempts=1)
    for _ in old:
        db.settle_all([failed(db.take(), "boom")])
    live = db.enqueue_ids(2)
    runs_as = db.retry(*old, keep_place=False)
    assert db.drain() == [*live, *(runs_as[job_id] for job_id in old)]


def test_cars_keep_the_order_of_their_train_in_a_mass_retry(db):
    cars = [db.enqueue(train="t").id for _ in range(4)]
    end(db)
    end(db)
    db.retry(cars[1], cars[0], keep_place=False)
    db.process_arrivals()
    assert db.cars("t") == [cars[2], *cars[:2], cars[3]]
    assert db.drain() == [cars[2], *cars[:2], cars[3]]


def test_a_retried_car_that_is_held_has_not_been_queued(db):
    first, second = (db.enqueue(train="t").id for _ in range(2))
    db.finish(db.take())
    assert db.job(second).queued_at is not None
    db.cancel(second)
    db.retry(first, second)
    assert db.statuses(first, second) == ["queued", "held"]
    assert db.job(second).queued_at is None
