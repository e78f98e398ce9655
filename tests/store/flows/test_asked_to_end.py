"""Cancel of a flow: one that has begun is asked by a signal and ends by itself; a second cancel ends it."""

from __future__ import annotations

import pytest

from headway.model.journal import CANCEL
from tests.store.flows.flow_calls import begin, called, end, entry, new_flow, park, parked, record, unread


def at_once(db, *ids):
    return db.run(db.ops.cancel(ids, tenant_id=None, reason="now", actor="ada", at_once=True))


def asked(db, job_id):
    return [(each.payload, each.status) for each in db.signals(job_id) if each.name == CANCEL]


def test_a_running_flow_is_asked_and_runs_on(db):
    claim = begin(db)
    assert db.cancel(claim.id, reason="enough", actor="ada") == {claim.id: "running"}
    job = db.job(claim.id)
    assert (job.status, job.cancel_requested_at) == ("running", None)
    assert asked(db, claim.id) == [("enough", "pending")]
    assert db.heartbeat().canceling == []
    assert [(each.action, each.actor, each.detail) for each in db.audit(claim.id)] == [("cancel", "ada", "enough")]
    # it may do operations, park and be lost
    record(db, entry(claim, 1))
    assert park(db, claim) == "queued"
    assert list(unread(db.take())) == [CANCEL]


def test_a_parked_flow_is_woken(db):
    claim = parked(db, "paid")
    assert db.cancel(claim.id) == {claim.id: "queued"}
    assert db.woken(claim.id) == ("queued", "signal")
    again = db.take()
    record(db, entry(again, 1, "cancel", signal=unread(again)[CANCEL]))
    assert park(db, again) == "waiting"
    assert db.woken(claim.id) == ("waiting", None)


@pytest.mark.parametrize("to", ["scheduled", "queued"])
def test_a_flow_that_is_to_run_stays_where_it_is(db, to):
    claim = begin(db)
    db.settle(claim, to, **({"delay_ms": 60_000} if to == "scheduled" else {}))
    assert db.cancel(claim.id) == {claim.id: to}
    assert (db.status(claim.id), asked(db, claim.id)) == (to, [("canceled", "pending")])


def test_a_flow_that_never_ran_is_canceled_like_any_job(db):
    job_id = db.machine(step="$flow")
    assert db.cancel(job_id) == {job_id: "canceled"}
    assert db.signals(job_id) == []


def test_a_held_flow_is_canceled_like_any_job(db):
    first = begin(db, train="t")
    db.settle(first, "dead")
    other = begin(db, train="t")
    db.retry(first.id)
    assert db.statuses(first.id, other.id) == ["held", "running"]
    assert db.cancel(first.id) == {first.id: "canceled"}


def test_a_second_cancel_ends_it(db):
    running, waiting = begin(db), parked(db, "paid")
    db.cancel(running.id, waiting.id, reason="first")
    waiting = db.take()
    record(db, entry(waiting, 1, "cancel", signal=unread(waiting)[CANCEL]))
    assert park(db, waiting) == "waiting"
    assert db.cancel(running.id, waiting.id, reason="second") == {running.id: "running", waiting.id: "canceled"}
    assert db.job(waiting.id).error == "second"
    assert db.heartbeat().canceling == [(running.id, 1)]
    assert db.settle(running, "scheduled", delay_ms=1) == []
    assert (db.status(running.id), db.job(running.id).error) == ("canceled", "second")
    assert [len(asked(db, each.id)) for each in (running, waiting)] == [1, 1]


def test_a_cancel_at_once_ends_it(db):
    running, waiting = begin(db), parked(db, "paid")
    assert at_once(db, running.id, waiting.id) == {running.id: "running", waiting.id: "canceled"}
    assert db.heartbeat().canceling == [(running.id, 1)]
    assert asked(db, running.id) == asked(db, waiting.id) == []


def test_machines_and_jobs_are_canceled_beside_flows_as_ever(db):
    flow, machine, plain = parked(db, "paid"), db.parked("paid"), db.enqueue(queue="other").id
    found = db.cancel(flow.id, machine, plain)
    assert found == {flow.id: "queued", machine: "canceled", plain: "canceled"}
    assert db.signals(machine) == []


def test_a_flow_that_is_asked_and_lost_goes_on(db):
    worker = db.worker()
    claim = begin(db, worker)
    db.cancel(claim.id)
    (reaped,) = db.reap(worker)
    assert reaped.to == "scheduled"
    db.advance("2h")
    db.promote()
    assert list(unread(db.take())) == [CANCEL]


def test_a_group_that_stops_asks_its_flows_once(db, make):
    group = make.group(on_failure="stop")
    jobs = [new_flow(group_id=group.id, kind="flow"), make.job(group_id=group.id), make.job(group_id=group.id)]
    db.enqueue_all(jobs, group)
    claims = {claim.id: claim for claim in db.claim()}
    flow, first, second = (claims[job.id] for job in jobs)
    db.settle(first, "dead", error="bad")
    db.process_arrivals()
    assert db.status(flow.id) == "running"
    assert asked(db, flow.id) == [("canceled because its group stopped", "pending")]
    assert (db.job(flow.id).cancel_requested_at, db.job(second.id).cancel_requested_at is None) == (None, False)
    # again and again
    db.process_arrivals()
    db.sweep()
    assert db.job(flow.id).cancel_requested_at is None
    assert db.cancel_group(group.id)[flow.id] == "running"
    assert db.job(flow.id).cancel_requested_at is not None


def test_a_large_group_that_stops_asks_all_its_flows(db, make):
    group = make.group(on_failure="stop")
    jobs = [make.job(group_id=group.id), *(new_flow(group_id=group.id, kind="flow") for _ in range(1_001))]
    db.enqueue_all(jobs, group)
    first = db.take()
    assert (first.id, len(db.claim(limit=2_000))) == (jobs[0].id, 1_001)
    db.settle(first, "dead", error="bad")
    db.process_arrivals()
    ((told,),) = db.sql("select count(*) from {signals} where name = '$cancel'")
    assert told == 1_001


def test_a_train_that_is_cleared_asks_its_locomotive(db):
    claim = begin(db, train="t")
    park(db, claim, "paid")
    behind = db.machine(step="$flow", train="t")
    assert sorted(db.clear_train("t")) == sorted([claim.id, behind])
    assert db.statuses(claim.id, behind) == ["queued", "canceled"]
    assert asked(db, claim.id) == [("cleared", "pending")]
    assert db.train("t").hold is None
    end(db, db.take(), "canceled")
    assert db.train("t") is None


def test_a_car_that_is_skipped_ends_at_once(db):
    claim = begin(db, train="t")
    park(db, claim, "paid")
    behind = db.machine(step="$flow", train="t")
    assert db.skip(claim.id) == "canceled"
    assert db.statuses(claim.id, behind) == ["canceled", "queued"]


def test_a_flow_that_expires_is_asked_once(db, make):
    fresh = db.machine(step="$flow", expires_at=db.after(60_000), queue="other")
    claim = begin(db, expires_at=db.after(60_000))
    park(db, claim, "paid")
    db.advance("2m")
    assert db.promote().expired == 2
    assert db.statuses(fresh, claim.id) == ["canceled", "queued"]
    assert asked(db, claim.id) == [("expired", "pending")]
    assert db.promote().expired == 0
    # nor beside something that is due
    other = db.enqueue(queue="later", delay_ms=1).id
    db.advance("1s")
    assert (db.promote().expired, db.status(other)) == (0, "queued")
    assert db.status(claim.id) == "queued"


def test_signals_do_not_reach_past_the_engines_own(db, make):
    claim = begin(db)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child))
    db.cancel(claim.id)
    db.cancel(child.id)
    db.process_arrivals()
    assert sorted(name for name, _, _ in db.inboxes(claim.id)) == ["$cancel", "$child"]
