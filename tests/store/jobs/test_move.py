"""The contract of move: a job that waits goes to another place, among its like, however small the gap is."""

from __future__ import annotations

import random

import pytest

from headway.errors import NotAllowed, NotFound
from headway.model.ids import new_id
from tests.tenant_ids import tenant_id

ACME = tenant_id("acme")


def cars(db, count, **options):
    return [db.enqueue(**{"train": "t", **options}).id for _ in range(count)]


def placed(ids, moved, where, neighbour=None):
    """The list after the move."""
    left = [job_id for job_id in ids if job_id != moved]
    match where:
        case "first":
            return [moved, *left]
        case "last":
            return [*left, moved]
        case "before":
            place = left.index(neighbour)
        case "after":
            place = left.index(neighbour) + 1
    return [*left[:place], moved, *left[place:]]


@pytest.mark.parametrize(
    ("moved", "where", "neighbour"),
    [
        (3, "first", None),
        (0, "first", None),
        (1, "last", None),
        (4, "last", None),
        (4, "before", 1),
        (0, "before", 4),
        (0, "before", 1),
        (0, "after", 3),
        (4, "after", 0),
        (2, "after", 1),
    ],
)
def test_a_car_moves_among_the_held_cars_of_its_train(db, moved, where, neighbour):
    locomotive, *held = cars(db, 6)
    to = {where: True} if neighbour is None else {where: held[neighbour]}
    answer = db.move(held[moved], **to)
    job = db.job(held[moved])
    assert (answer.job_id, answer.priority, answer.position) == (job.id, job.priority, job.position)
    expected = placed(held, held[moved], where, None if neighbour is None else held[neighbour])
    assert db.cars("t") == [locomotive, *expected]
    assert db.statuses(locomotive, *held) == ["queued"] + ["held"] * 5
    assert db.drain() == [locomotive, *expected]


@pytest.mark.parametrize(
    ("moved", "where", "neighbour"), [(2, "first", None), (0, "last", None), (3, "before", 1), (0, "after", 2)]
)
def test_a_plain_job_moves_among_the_queued_ones_of_its_queue(db, moved, where, neighbour):
    ids = db.enqueue_ids(4)
    other = db.enqueue(queue="other").id
    to = {where: True} if neighbour is None else {where: ids[neighbour]}
    assert db.move(ids[moved], **to).job_id == ids[moved]
    assert db.drain() == placed(ids, ids[moved], where, None if neighbour is None else ids[neighbour])
    assert db.drain("other") == [other]


@pytest.mark.parametrize(
    ("where", "neighbour", "priority"), [("first", None, 1), ("last", None, 90), ("before", 1, 50), ("after", 0, 1)]
)
def test_a_plain_job_takes_the_priority_of_its_new_neighbour(db, where, neighbour, priority):
    ids = [db.enqueue(priority=each).id for each in (1, 50, 90)]
    moved = db.enqueue(priority=60).id
    to = {where: True} if neighbour is None else {where: ids[neighbour]}
    assert db.move(moved, **to).priority == priority
    assert db.job(moved).priority == priority
    expected = placed([ids[0], ids[1], moved, ids[2]], moved, where, None if neighbour is None else ids[neighbour])
    assert db.drain() == expected


def test_a_car_keeps_its_priority(db):
    _, *held = cars(db, 3, priority=5)
    db.change(held[1], priority=70)
    assert db.move(held[1], before=held[0]).priority == 70


@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("priorities", [(1, 100, 50), (100, 50, 1), (50, 1, 100)])
def test_the_ends_of_a_train_are_its_ends_whatever_the_priorities(db, where, priorities):
    (locomotive,) = cars(db, 1)
    held = [car for priority in priorities for car in cars(db, 1, priority=priority)]
    expected = held
    for moved in (held[1], held[0], held[2]):
        db.move(moved, **{where: True})
        expected = placed(expected, moved, where)
        assert db.cars("t") == [locomotive, *expected]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_gap_that_closes_is_made_again(db, where):
    """Moving to the same place halves the gap each time: 1024 lets that happen ten times."""
    locomotive, *held = cars(db, 30)
    expected = held
    for job_id in held[10:]:
        db.move(job_id, **{where: held[4]})
        expected = placed(expected, job_id, where, held[4])
    assert db.cars("t") == [locomotive, *expected]
    positions = [db.job(job_id).position for job_id in expected]
    assert positions == sorted(set(positions))
    assert db.drain() == [locomotive, *expected]


def test_a_gap_that_closes_in_a_queue_is_made_again_and_no_other_queue_notices(db):
    """Jobs of both queues stand alternately; only those that move may change their places."""
    here, there = [], []
    for _ in range(25):
        here.append(db.enqueue(queue="here").id)
        there.append(db.enqueue(queue="there").id)
    expected = here
    for job_id in here[2:]:
        db.move(job_id, before=here[1])
        expected = placed(expected, job_id, "before", here[1])
    assert db.drain("here") == expected
    assert db.drain("there") == there


def test_a_gap_closes_at_both_ends_of_a_train_too(db):
    locomotive, *held = cars(db, 4)
    expected = held
    for n in range(40):
        where = "first" if n % 2 else "last"
        moved = held[n % 3]
        db.move(moved, **{where: True})
        expected = placed(expected, moved, where)
        assert db.cars("t") == [locomotive, *expected]


def test_random_moves_do_what_a_list_would_do(db):
    locomotive, *held = cars(db, 8)
    chance = random.Random(3)
    expected = held
    for _ in range(60):
        moved = chance.choice(held)
        where = chance.choice(["before", "after", "first", "last"])
        neighbour = chance.choice([job_id for job_id in held if job_id != moved])
        db.move(moved, **{where: neighbour if where in ("before", "after") else True})
        expected = placed(expected, moved, where, neighbour)
        assert db.cars("t") == [locomotive, *expected]
    assert db.drain() == [locomotive, *expected]


@pytest.mark.parametrize("train", [None, "t"])
def test_what_comes_later_stands_behind_a_line_whose_end_was_spread(db, train):
    """The eleventh move into the same gap finds none, and nothing is behind to end the spreading."""
    ids = [db.enqueue(train=train).id for _ in range(14)]
    line = ids if train is None else ids[1:]
    for job_id in line[:-1]:
        db.move(job_id, before=line[-1])
    late = db.enqueue(train=train).id
    assert db.drain() == [*ids, late]


@pytest.mark.parametrize("train", [None, "t"])
@pytest.mark.parametrize("seed", range(4))
def test_a_line_of_moves_and_newcomers_is_a_plain_list(db, train, seed):
    """Moves to few places, which close the gaps there, beside jobs that are enqueued meanwhile."""
    chance = random.Random(seed)
    locomotive = [] if train is None else [db.enqueue(train=train).id]
    expected = [db.enqueue(train=train).id for _ in range(4)]
    for _ in range(50):
        if chance.random() < 0.15:
            expected = [*expected, db.enqueue(train=train).id]
            continue
        moved = chance.choice(expected)
        others = [job_id for job_id in expected if job_id != moved]
        where = chance.choice(["before", "before", "after", "after", "first", "last"])
        neighbour = chance.choice([others[0], others[-1]])
        db.move(moved, **{where: neighbour if where in ("before", "after") else True})
        expected = placed(expected, moved, where, neighbour)
    assert db.drain() == [*locomotive, *expected]


def test_a_moved_car_goes_next_when_it_is_first(db):
    locomotive, second, third = cars(db, 3)
    claim = db.take()
    db.move(third, first=True)
    db.finish(claim)
    assert db.statuses(locomotive, second, third) == ["succeeded", "held", "queued"]


def test_what_comes_later_stands_behind_what_was_moved_last(db):
    locomotive, second, third = cars(db, 3)
    db.move(second, last=True)
    (late,) = cars(db, 1)
    assert db.drain() == [locomotive, third, second, late]


def test_a_car_of_a_train_on_hold_can_be_moved(db):
    first, second, third = cars(db, 3, on_dead="hold")
    db.settle(db.take(), "dead")
    db.move(third, before=second)
    db.resume_train("t")
    assert db.drain() == [third, second]
    assert db.status(first) == "dead"


def test_a_moved_job_is_in_the_audit(db):
    ids = db.enqueue_ids(2)
    db.move(ids[1], first=True, actor="ann")
    (entry,) = db.audit(ids[1])
    assert (entry.actor, entry.action, entry.at) == ("ann", "move", db.now())


@pytest.mark.parametrize("what", ["running", "finished", "scheduled", "locomotive", "running car", "scheduled car"])
def test_what_does_not_wait_its_turn_is_not_moved(db, what):
    train = "t" if what in ("locomotive", "running car", "scheduled car") else None
    job_id = db.enqueue(train=train, delay_ms=60_000 if "scheduled" in what else None).id
    if what in ("running", "finished", "running car"):
        claim = db.take()
        if what == "finished":
            db.finish(claim)
    other = db.enqueue(train=train).id
    before = db.job(job_id)
    for to in ({"after": other}, {"last": True}):
        with pytest.raises(NotAllowed):
            db.move(job_id, **to)
    assert db.job(job_id) == before
    assert db.audit(job_id) == []


@pytest.mark.parametrize(
    "neighbour",
    [
        "of another queue",
        "of another train",
        "of another tenant",
        "scheduled",
        "running",
        "finished",
        "a car",
        "unknown",
    ],
)
def test_a_plain_job_moves_beside_no(db, neighbour):
    moved = db.enqueue(priority=3).id
    match neighbour:
        case "of another queue":
            other = db.enqueue(queue="other").id
        case "of another train" | "a car":
            other = cars(db, 2)[1]
        case "of another tenant":
            other = db.enqueue(tenant="acme").id
            with pytest.raises((NotAllowed, NotFound)):
                db.move(moved, before=other, tenant_id=tenant_id("default"))
            return
        case "scheduled":
            other = db.enqueue(delay_ms=60_000).id
        case "running":
            other = db.enqueue(priority=1).id
            db.take()
        case "finished":
            other = db.enqueue(priority=1).id
            db.finish(db.take())
        case "unknown":
            other = new_id()
    before = db.job(moved)
    for where in ("before", "after"):
        with pytest.raises((NotAllowed, NotFound)):
            db.move(moved, **{where: other})
    assert db.job(moved) == before


@pytest.mark.parametrize(
    "neighbour", ["locomotive", "of another train", "of another tenants train", "a plain job", "finished"]
)
def test_a_car_moves_beside_no(db, neighbour):
    locomotive, moved, third = cars(db, 3)
    match neighbour:
        case "locomotive":
            other = locomotive
        case "of another train":
            other = cars(db, 2, train="u")[1]
        case "of another tenants train":
            other = cars(db, 2, tenant="acme")[1]
        case "a plain job":
            other = db.enqueue().id
        case "finished":
            db.cancel(third)
            other = third
    before = db.job(moved)
    for where in ("before", "after"):
        with pytest.raises((NotAllowed, NotFound)):
            db.move(moved, **{where: other})
    assert db.job(moved) == before


def test_a_move_of_an_unknown_job_or_of_another_tenants_gives_none(db):
    job_id = db.enqueue().id
    assert db.move(new_id(), first=True) is None
    assert db.move(job_id, first=True, tenant_id=ACME) is None
