"""The contract of claimable: which of many queues have work, in one probe."""

from __future__ import annotations


def test_only_queues_with_work_that_may_start_are_claimable(db):
    db.enqueue(queue="busy")
    db.enqueue(queue="other")
    db.enqueue(queue="later", delay_ms=60_000)
    db.enqueue(queue="paused")
    db.run(db.ops.pause("paused", actor="me"))
    asked = ["busy", "later", "paused", "empty"]
    assert db.run(db.ops.claimable(asked)) == ["busy"]
    db.claim(queue="busy")
    assert db.run(db.ops.claimable(asked)) == []
    assert db.run(db.ops.claimable([])) == []


def test_what_waits_for_room_is_not_claimable(db):
    db.enqueue(queue="q", partition="p")
    db.enqueue(queue="q", partition="p")
    assert len(db.claim(queue="q")) == 1
    assert db.claim(queue="q") == []
    assert db.run(db.ops.claimable(["q"])) == []


def test_cars_that_arrived_are_claimable(db):
    db.enqueue(queue="q", train="t")
    db.enqueue(queue="q", train="t")
    assert db.run(db.ops.claimable(["q"])) == ["q"]
