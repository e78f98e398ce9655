"""The contract of claimable: which of many queues have work, in one probe."""

from __future__ import annotations

from headway.model.ids import DEFAULT_TENANT_ID
from tests.tenant_ids import tenant_id


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


def test_the_first_in_line_of_queues_and_of_their_tenants(db):
    acme, other = tenant_id("acme"), tenant_id("other")
    db.set_fair("q")
    db.enqueue_ids(30, queue="q", kind="common")
    db.claim(queue="q", limit=1)  # it is ready to be claimed from fairly
    db.enqueue(queue="q", kind="rare", tenant="acme")
    db.enqueue(queue="q", kind="first", tenant="acme", priority=1)
    db.enqueue(queue="paused", tenant="acme")
    db.run(db.ops.pause("paused", actor="me"))
    db.enqueue(queue="unasked", tenant="other")

    def first(queues, *pairs):
        return sorted((queue, kind) for queue, _, kind in db.run(db.ops.first_in_line(queues, pairs)))

    assert first(["q", "paused", "empty"]) == [("q", "common"), ("q", "first")]
    assert first([], ("q", acme), ("q", other), ("paused", acme)) == [("q", "first"), ("q", "rare")]
    assert first(["q"], ("q", acme)) == [("q", "common"), ("q", "first"), ("q", "rare")]
    found = db.run(db.ops.first_in_line(["q"], [("q", acme)]))
    assert {(tenant, kind) for _, tenant, kind in found} == {
        (DEFAULT_TENANT_ID, "common"),
        (acme, "first"),
        (acme, "rare"),
    }
