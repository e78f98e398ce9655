"""A Spawn with an until: the machine goes on when enough children succeeded, or cannot any more; the others stop."""

from __future__ import annotations

import pytest

from tests.store.machines.machine_calls import checkpoint
from tests.store.machines.test_children import end


def family(db, make, count, needed, **options):
    claim = db.begin(**options)
    children = db.spawn(claim, *(make.job(queue="kids") for _ in range(count)), needed=needed)
    return claim.id, *children


def statuses(db, *ids):
    return [db.job(job_id).status for job_id in ids]


def test_the_first_success_wakes_it_and_the_others_are_canceled(db, make):
    machine, *children = family(db, make, 4, 1)
    (running,) = db.claim(queue="kids", limit=1)
    end(db, "dead")
    assert db.woken(machine) == ("waiting", None)
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    db.process_arrivals()
    assert statuses(db, *children) == ["running", "dead", "succeeded", "canceled"]
    assert db.job(children[0]).cancel_requested_at is not None
    assert db.job(children[3]).error == f"canceled because job {machine} went on without it"
    claim = db.take()
    assert (claim.id, checkpoint(claim).woken) == (machine, "children")
    assert [child.id for child in db.children(machine)] == children
    # the end of one that it went on without changes nothing
    db.settle(running, "succeeded")
    db.process_arrivals()
    assert db.job(machine).status == "running"
    db.turn(claim, "done")
    assert statuses(db, machine, children[0]) == ["succeeded", "succeeded"]


def test_several_must_succeed(db, make):
    machine, *children = family(db, make, 5, 3)
    end(db, "succeeded", "dead", "succeeded")
    db.process_arrivals()
    assert db.woken(machine) == ("waiting", None)
    assert statuses(db, *children[3:]) == ["queued", "queued"]
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    db.process_arrivals()
    assert statuses(db, *children) == ["succeeded", "dead", "succeeded", "succeeded", "canceled"]


@pytest.mark.parametrize("ends", [("dead", "canceled"), ("canceled", "dead")])
def test_it_goes_on_when_too_few_are_left(db, make, ends):
    machine, *children = family(db, make, 3, 2)
    end(db, ends[0])
    db.process_arrivals()
    assert db.woken(machine) == ("waiting", None)
    end(db, ends[1])
    assert db.woken(machine) == ("queued", "children")
    db.process_arrivals()
    assert statuses(db, *children) == [*ends, "canceled"]


def test_ends_of_all_wake_it_as_ever(db, make):
    machine, *children = family(db, make, 2, 2)
    end(db, "succeeded", "succeeded")
    assert db.woken(machine) == ("queued", "children")
    db.process_arrivals()
    assert statuses(db, *children) == ["succeeded", "succeeded"]


def test_a_child_that_is_over_already_counts(db, make):
    taken = {"unique_key": "k", "unique_scope": ("queued", "succeeded"), "queue": "met"}
    over = db.enqueue(**taken)
    end(db, "succeeded", queue="met")
    claim = db.begin()
    other = make.job(queue="kids")
    db.spawn(claim, make.job(**taken), other, needed=1)
    assert db.woken(claim.id) == ("queued", "children")
    db.process_arrivals()
    assert statuses(db, over.id, other.id) == ["succeeded", "canceled"]


def test_another_spawn_begins_anew(db, make):
    machine, *_ = family(db, make, 2, 1)
    end(db, "succeeded")
    assert db.woken(machine) == ("queued", "children")
    db.process_arrivals()
    claim = db.take()
    later = db.spawn(claim, *(make.job(queue="kids") for _ in range(2)))
    end(db, "succeeded")
    db.process_arrivals()
    assert db.woken(machine) == ("waiting", None)
    end(db, "dead")
    assert db.woken(machine) == ("queued", "children")
    assert [child.id for child in db.children(machine)] == list(later)


def test_more_others_than_one_piece_are_all_canceled(db, make):
    machine, *children = family(db, make, 1_200, 1)
    end(db, "succeeded")
    db.process_arrivals()
    assert {db.job(each).status for each in children[1:]} == {"canceled"}
    assert db.job(machine).status == "queued"
