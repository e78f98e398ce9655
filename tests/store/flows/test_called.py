"""Children that a flow called: each is waited for by itself, its end wakes the flow, and it ends with the flow."""

from __future__ import annotations

import pytest

from headway.model.journal import CHILD
from tests.store.flows.flow_calls import begin, called, end, entry, park, record, unread
from tests.store.machines.machine_calls import checkpoint


def calling(db, make, count=1, *, waits=True, **options):
    """A flow that runs, and the ids of its children."""
    claim = begin(db, **options)
    children = [make.job(queue="kids") for _ in range(count)]
    record(db, *(called(claim, seq, child, waits=waits) for seq, child in enumerate(children, start=1)))
    return claim, *(child.id for child in children)


def finish(db, to="succeeded", **values):
    """End the next child so."""
    (claim,) = db.claim(queue="kids", limit=1)
    assert db.settle(claim, to, **values) == []
    db.process_arrivals()
    return claim.id


def edges(db):
    return sorted(
        (str(parent), state) for parent, state in db.sql("select parent_id, state from {edges} where fence = -1")
    )


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled"])
def test_a_childs_end_wakes_a_parked_flow(db, make, to):
    claim, first, second = calling(db, make, 2)
    assert park(db, claim, "paid") == "waiting"
    assert finish(db, to) == first
    assert db.woken(claim.id) == ("queued", "signal")
    again = db.take()
    (signal,) = checkpoint(again).signals
    assert (signal.name, signal.payload, signal.dedup_key) == (CHILD, first, f"{CHILD}:{first}")
    assert park(db, again, consumed=(signal.id,)) == "waiting"
    assert finish(db) == second
    assert db.woken(claim.id) == ("queued", "signal")
    assert [each.payload for each in checkpoint(db.take()).signals] == [second]


def test_a_child_that_ended_before_the_park_keeps_the_flow_from_parking(db, make):
    claim, _ = calling(db, make)
    finish(db)
    assert db.status(claim.id) == "running"
    assert park(db, claim) == "queued"


def test_a_child_that_is_tried_again_is_not_over(db, make):
    claim, _ = calling(db, make)
    park(db, claim)
    finish(db, "scheduled", delay_ms=0)
    assert db.woken(claim.id) == ("waiting", None)
    finish(db)
    assert db.woken(claim.id) == ("queued", "signal")


def test_a_job_that_lives_on_wakes_nobody(db, make):
    claim, _ = calling(db, make, waits=False)
    park(db, claim)
    finish(db)
    assert db.woken(claim.id) == ("waiting", None)
    assert db.signals(claim.id) == []


def test_a_child_that_was_over_when_it_was_met_is_told_like_any_other(db, make):
    there = db.enqueue(queue="kids", idempotency_key="k").id
    finish(db)
    claim = begin(db)
    child = make.job(queue="kids", idempotency_key="k")
    assert record(db, called(claim, 1, child)).children == {child.id: there}
    db.process_arrivals()
    assert [(each.name, each.payload) for each in db.signals(claim.id)] == [(CHILD, there)]
    assert park(db, claim) == "queued"


def test_two_calls_may_meet_one_job(db, make):
    claim = begin(db)
    first, second = (make.job(queue="kids", unique_key="k") for _ in range(2))
    assert record(db, called(claim, 1, first), called(claim, 2, second)).children == {
        first.id: first.id,
        second.id: first.id,
    }
    park(db, claim)
    finish(db)
    assert db.woken(claim.id) == ("queued", "signal")
    assert len(db.signals(claim.id)) == 1
    again = db.take()
    third = make.job(queue="kids", unique_key="k", unique_scope=("succeeded",))
    record(db, called(again, 3, third))


def test_two_flows_may_wait_for_one_job(db, make):
    one, other = begin(db), begin(db)
    child = make.job(queue="kids", unique_key="k")
    record(db, called(one, 1, child))
    record(db, called(other, 1, make.job(queue="kids", unique_key="k")))
    park(db, one)
    park(db, other)
    end(db, db.begin(step="$flow"), "succeeded")
    finish(db)
    assert [db.woken(claim.id) for claim in (one, other)] == [("queued", "signal")] * 2


def test_an_at_most_once_child_is_waited_for_by_the_job_that_retries_it(db, make):
    claim = begin(db)
    child = make.job(queue="kids", delivery="at_most_once")
    record(db, called(claim, 1, child))
    park(db, claim)
    finish(db, "failed", error="lost")
    assert db.woken(claim.id) == ("waiting", None)
    heir = finish(db, result='"late"')
    assert heir != child.id
    assert db.woken(claim.id) == ("queued", "signal")
    found = db.run(db.ops.children_of_flow([child.id]))
    assert {asked: (each.id, each.status) for asked, each in found.items()} == {child.id: (heir, "succeeded")}
    assert bytes(found[child.id].result) == b'"late"'


def test_the_state_of_children_is_read_by_their_ids(db, make):
    _, first, second = calling(db, make, 2)
    finish(db, "dead", error="bad")
    found = db.run(db.ops.children_of_flow([second, first, "01900000-0000-7000-8000-00000000000f"]))
    assert {asked: (each.kind, each.status, each.error) for asked, each in found.items()} == {
        first: ("mail", "dead", "bad"),
        second: ("mail", "queued", None),
    }


@pytest.mark.parametrize("to", ["succeeded", "dead", "canceled", "failed"])
def test_the_end_of_a_flow_cancels_its_pending_children(db, make, to):
    claim, over, running, queued = calling(db, make, 3)
    lives_on = make.job(queue="kids", priority=999)
    record(db, called(claim, 9, lives_on, waits=False))
    finish(db)
    (kid,) = db.claim(queue="kids", limit=1)
    assert kid.id == running
    end(db, claim, to, **({"error": "bad"} if to != "succeeded" else {}))
    db.process_arrivals()
    assert db.statuses(over, running, queued, lives_on.id) == ["succeeded", "running", "canceled", "queued"]
    assert db.job(running).cancel_requested_at is not None
    assert db.job(queued).error == f"canceled because job {claim.id} is {to}"
    # nobody is told any more
    assert [each.payload for each in db.signals(claim.id)] == [over]


def test_a_parked_flow_that_is_canceled_at_once_cancels_its_children(db, make):
    claim, child = calling(db, make)
    park(db, claim)
    db.run(db.ops.cancel([claim.id], tenant_id=None, reason=None, actor=None, at_once=True))
    assert db.statuses(claim.id, child) == ["canceled", "canceled"]


def test_a_flow_that_is_lost_for_good_cancels_its_children(db, make):
    worker = db.worker()
    claim = begin(db, worker, max_losses=1)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child, value=None), worker=worker)
    db.sql("delete from {flow_journal}")
    db.reap(worker)
    assert db.statuses(claim.id, child.id) == ["dead", "canceled"]


def test_a_flow_that_is_tried_again_keeps_its_children(db, make):
    claim, child = calling(db, make)
    db.settle(claim, "scheduled", delay_ms=0, charge=1)
    assert db.statuses(claim.id, child) == ["queued", "queued"]
    finish(db)
    assert list(unread(db.take())) == [CHILD]


def test_what_the_end_of_a_flow_did_not_spawn_goes_on(db, make):
    there = db.enqueue(queue="kids", unique_key="k").id
    claim = begin(db)
    record(db, called(claim, 1, make.job(queue="kids", unique_key="k")))
    end(db, claim)
    assert db.statuses(there) == ["queued"]


def test_a_child_that_is_left_is_canceled_and_tells_nobody(db, make):
    claim, first, second = calling(db, make, 2)
    db.run(db.ops.leave(claim.id, [first], fence=claim.fence + 1))
    assert edges(db) == sorted([(first, "pending"), (second, "pending")])
    db.run(db.ops.leave(claim.id, [first], fence=claim.fence))
    assert db.statuses(first, second) == ["canceled", "queued"]
    assert db.job(first).error == f"canceled because job {claim.id} went on without it"
    assert edges(db) == sorted([(first, "left"), (second, "pending")])
    assert db.signals(claim.id) == []
    assert park(db, claim) == "waiting"
    db.run(db.ops.leave(claim.id, [second]))
    assert db.statuses(second) == ["canceled"]
    assert db.woken(claim.id) == ("waiting", None)


def test_a_child_that_is_a_flow_is_asked_once(db, make):
    claim = begin(db)
    child = make.machine(queue="kids", step="$flow")
    record(db, called(claim, 1, child))
    (kid,) = db.claim(queue="kids")
    db.run(db.ops.leave(claim.id, [child.id]))
    db.process_arrivals()
    end(db, claim)
    db.process_arrivals()
    assert db.statuses(child.id) == ["running"]
    assert db.job(child.id).cancel_requested_at is None
    assert [(name, status) for name, status, _ in db.inboxes(child.id)] == [("$cancel", "pending")]
    end(db, kid, "canceled", error="undone")


def test_a_child_stays_until_the_flow_has_seen_how_it_ended(db, make):
    claim, child = calling(db, make)
    park(db, claim)
    finish(db)
    db.advance("60d")
    assert (db.prune("succeeded", older_than_ms=1), db.delete(child)) == (0, {child: "awaited"})
    assert db.run(db.ops.prunable({"succeeded": 1})) == {"succeeded": 0}
    again = db.take()
    record(db, entry(again, 5, "ended", place="step1", signal=unread(again)[CHILD]))
    assert db.run(db.ops.prunable({"succeeded": 1})) == {"succeeded": 1}
    assert db.prune("succeeded", older_than_ms=1) == 1


def test_a_child_whose_row_somebody_deleted_is_found_by_the_sweep(db, make):
    claim, child = calling(db, make)
    park(db, claim)
    db.sql("delete from {jobs} where id = ?", child)
    assert db.woken(claim.id) == ("waiting", None)
    assert db.sweep().jobs == (claim.id,)
    assert db.woken(claim.id) == ("queued", "signal")
    assert db.run(db.ops.children_of_flow([child])) == {}


def test_a_flow_that_waits_for_running_children_is_not_broken(db, make):
    claim, _ = calling(db, make)
    park(db, claim)
    assert not db.sweep().jobs


def test_a_child_that_is_retried_before_the_flow_looked_wakes_it_again(db, make):
    claim, child = calling(db, make)
    park(db, claim)
    finish(db, "dead", error="bad")
    again = db.take()
    db.retry(child)
    # it sees a child that is not over
    assert park(db, again, consumed=(unread(again)[CHILD],)) == "waiting"
    finish(db)
    assert db.woken(claim.id) == ("queued", "signal")


def test_a_child_that_is_retried_after_the_flow_looked_is_its_own(db, make):
    claim, child = calling(db, make)
    park(db, claim)
    finish(db, "dead", error="bad")
    again = db.take()
    record(db, entry(again, 5, "ended", place="step1", signal=unread(again)[CHILD]))
    db.retry(child)
    end(db, again)
    assert db.statuses(child) == ["queued"]


def test_many_children_end_with_their_flow_in_pieces(db, make):
    claim = begin(db)
    children = [make.job(queue="kids") for _ in range(1_201)]
    record(db, *(called(claim, seq, child) for seq, child in enumerate(children, start=1)))
    end(db, claim)
    assert set(db.statuses(*(child.id for child in children))) == {"canceled"}


def test_many_children_that_are_flows_are_asked_in_pieces_and_once(db, make):
    claim = begin(db)
    children = [make.machine(queue="kids", step="$flow") for _ in range(501)]
    record(db, *(called(claim, seq, child) for seq, child in enumerate(children, start=1)))
    assert len(db.claim(queue="kids", limit=600)) == 501
    end(db, claim)
    # it comes to an end
    db.process_arrivals()
    ((asked,),) = db.sql("select count(*) from {signals} where name = '$cancel'")
    assert asked == 501


def test_a_flow_in_a_train_leaves_its_train_and_its_children(db, make):
    claim, child = calling(db, make, train="t")
    behind = db.machine(step="$flow", train="t")
    park(db, claim)
    assert db.statuses(claim.id, behind) == ["waiting", "held"]
    finish(db)
    again = db.take()
    assert again.id == claim.id
    end(db, again)
    assert db.statuses(behind, child) == ["queued", "succeeded"]
