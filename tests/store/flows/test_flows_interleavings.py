"""The dangerous moments of flows on PostgreSQL: rows, ends, cancels and parks that meet, step by step."""

from __future__ import annotations

import time

import pytest

from headway.errors import LeaseLost, NotAllowed, StoreBusy
from headway.model.journal import Recorded
from tests.store.flows.flow_calls import AWAITED, begin, called, entry, lines, park, record, rows, unread, untimed
from tests.store.machines.machine_calls import QUIET, turned

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)
# how the end of a child (E, committed at e) and the park of its flow (S, committed at s) may lie
ORDERS = pytest.mark.parametrize("order", ["EeSs", "ESes", "ESse", "SEes", "SEse", "SsEe"])
SOON = 10


def park_op(db, claim, *names, **values):
    return db.ops.settle(db.home(), [turned(claim, "park", "waiting", awaiting=(*names, *AWAITED), **values)])


def record_op(db, *entries, worker=None):
    return db.ops.record(worker or db.home(), entries)


def test_a_row_waits_for_whoever_ends_its_execution_and_is_lost(db, session):
    worker = db.worker()
    claim = begin(db, worker)
    reaper, recorder = session(), session()
    assert len(reaper.run(db.ops.reap([worker], limit=10))) == 1
    with pytest.raises(StoreBusy):
        db.run(record_op(db, entry(claim, 1), worker=worker))
    waiting = recorder.start(record_op(db, entry(claim, 1), worker=worker))
    while not recorder.blocked() and not waiting.done():
        time.sleep(0.005)
    reaper.commit()
    assert untimed(waiting.result(SOON)) == Recorded([(claim.id, 1)], {})
    assert rows(db, claim.id) == []


def test_a_row_that_waits_for_a_new_claim_of_the_same_worker_is_lost(db, session):
    claim = begin(db)
    db.settle(claim, "queued")
    claimer = session()
    (again,) = claimer.run(db.ops.claim(db.home(), "default", 1))
    # the row is still queued for the others
    assert record(db, entry(claim, 1), entry(again, 2)).lost == [(claim.id, 1), (claim.id, 2)]
    claimer.commit()
    assert record(db, entry(claim, 1), entry(again, 2)).lost == [(claim.id, 1)]
    assert lines(db, claim.id) == [(2, "done", "step2")]


def test_nobody_ends_an_execution_whose_row_is_not_committed(db, session):
    worker = db.worker()
    claim = begin(db, worker)
    recorder = session()
    assert untimed(recorder.run(record_op(db, entry(claim, 1), worker=worker))) == Recorded([], {})
    assert db.reap(worker) == []
    recorder.commit()
    assert [each.job_id for each in db.reap(worker)] == [claim.id]
    assert lines(db, claim.id) == [(1, "done", "step1")]


def test_a_row_that_is_rolled_back_never_was(db, session):
    claim = begin(db)
    recorder = session()
    recorder.run(record_op(db, entry(claim, 1)))
    recorder.rollback()
    assert rows(db, claim.id) == []


def test_records_of_one_flow_do_not_wait_for_each_other(db, session):
    claim = begin(db)
    one, other = session(), session()
    one.run(record_op(db, entry(claim, 1)))
    other.run(record_op(db, entry(claim, 2)))
    one.commit()
    other.commit()
    assert [seq for seq, _, _ in lines(db, claim.id)] == [1, 2]


def test_two_records_of_one_row_keep_the_first(db, session):
    claim = begin(db)
    one, other = session(), session()
    one.run(record_op(db, entry(claim, 1, value="1")))
    waiting = other.start(record_op(db, entry(claim, 1, value="2")))
    while not other.blocked() and not waiting.done():
        time.sleep(0.005)
    one.commit()
    assert untimed(waiting.result(SOON)) == Recorded([], {})
    assert [bytes(row.value) for row in rows(db, claim.id)] == [b"1"]


# steps that settle in the caller's transaction


def settle_op(db, claim, place):
    return db.ops.settle_step(entry(claim, 0, "settled", place=place))


def test_while_a_step_settles_the_others_go_on_and_the_execution_does_not_end(db, session):
    worker = db.worker()
    claim = begin(db, worker)
    one, other = session(), session()
    one.run(settle_op(db, claim, "pay"))
    other.run(settle_op(db, claim, "post"))
    assert record(db, entry(claim, 1), worker=worker) == Recorded([], {})
    assert db.reap(worker) == []
    busy = db.run(db.ops.settle(worker, [turned(claim, "park", "waiting", awaiting=("paid",))])).busy
    assert busy == [(claim.id, 1)]
    other.commit()
    one.commit()
    assert sorted(row.place for row in rows(db, claim.id)) == ["pay", "post", "step1"]
    assert len(db.reap(worker)) == 1


def test_of_two_transactions_that_settle_one_step_one_is_refused(db, session):
    claim = begin(db)
    one, other = session(), session()
    one.run(settle_op(db, claim, "pay"))
    waiting = other.start(settle_op(db, claim, "pay"))
    while not other.blocked() and not waiting.done():
        time.sleep(0.005)
    one.commit()
    with pytest.raises(NotAllowed, match="settle once"):
        waiting.result(SOON)
    assert len(rows(db, claim.id)) == 1


def test_of_two_transactions_the_second_settles_where_the_first_is_rolled_back(db, session):
    claim = begin(db)
    one, other = session(), session()
    one.run(settle_op(db, claim, "pay"))
    waiting = other.start(settle_op(db, claim, "pay"))
    while not other.blocked() and not waiting.done():
        time.sleep(0.005)
    one.rollback()
    assert waiting.result(SOON) is None
    assert len(rows(db, claim.id)) == 1


def test_a_step_of_an_execution_that_somebody_ends_is_refused(db, session):
    worker = db.worker()
    claim = begin(db, worker)
    reaper, handler = session(), session()
    reaper.run(db.ops.reap([worker], limit=10))
    waiting = handler.start(settle_op(db, claim, "pay"))
    while not handler.blocked() and not waiting.done():
        time.sleep(0.005)
    reaper.commit()
    with pytest.raises(LeaseLost):
        waiting.result(SOON)


# wake-ups


@pytest.mark.parametrize("claiming", [False, True], ids=["alone", "with a claim between all steps"])
@ORDERS
def test_a_child_that_ends_while_its_flow_parks_wakes_it(db, make, session, order, claiming):
    claim = begin(db)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child))
    (kid,) = db.claim(queue="kids")
    ender, parker = session(), session()
    ended = db.ops.settle(db.home(), [make.settlement(kid, "succeeded")])
    steps = {
        "E": lambda: ender.run(ended),
        "e": ender.commit,
        "S": lambda: parker.run(park_op(db, claim)),
        "s": parker.commit,
    }
    woken = []
    for step in order:
        steps[step]()
        if claiming:
            woken += db.claim()
    woken += db.claim()
    assert [(each.id, each.fence, list(unread(each))) for each in woken] == [(claim.id, 2, ["$child"])]


@pytest.mark.parametrize("order", ["EeSs", "ESes", "SEes", "SsEe"])
def test_a_child_that_is_decided_while_its_flow_parks_wakes_it(db, make, session, order):
    claim = begin(db)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child))
    db.finish(*db.claim(queue="kids"))
    decider, parker = session(), session()
    parking = []
    steps = {
        "E": lambda: decider.run(db.ops.process_arrivals(limit=500)),
        "e": decider.commit,
        "S": lambda: parking.append(parker.start(park_op(db, claim))),
        "s": lambda: parking[0].result(SOON),
    }
    for step in order:
        steps[step]()
    assert db.woken(claim.id) == ("queued", "signal")


def test_a_park_that_waits_for_a_cancel_sees_it(db, session):
    claim = begin(db)
    canceler, parker = session(), session()
    canceler.run(db.ops.cancel([claim.id], tenant_id=None, reason=None, actor=None))
    waiting = parker.start(park_op(db, claim))
    while not parker.blocked() and not waiting.done():
        time.sleep(0.005)
    canceler.commit()
    assert waiting.result(SOON) == QUIET
    assert db.status(claim.id) == "queued"


def test_a_cancel_that_waits_for_a_park_wakes_the_flow(db, session):
    claim = begin(db)
    canceler, parker = session(), session()
    parker.run(park_op(db, claim))
    waiting = canceler.start(db.ops.cancel([claim.id], tenant_id=None, reason=None, actor=None))
    while not canceler.blocked() and not waiting.done():
        time.sleep(0.005)
    parker.commit()
    assert waiting.result(SOON) == {claim.id: "queued"}
    assert list(unread(db.take())) == ["$cancel"]


def test_two_cancels_at_once_are_a_first_and_a_second(db, session):
    claim = begin(db)
    park(db, claim)
    one, other = session(), session()
    assert one.run(db.ops.cancel([claim.id], tenant_id=None, reason="one", actor=None)) == {claim.id: "queued"}
    waiting = other.start(db.ops.cancel([claim.id], tenant_id=None, reason="two", actor=None))
    while not other.blocked() and not waiting.done():
        time.sleep(0.005)
    one.commit()
    assert waiting.result(SOON) == {claim.id: "canceled"}
    assert db.job(claim.id).error == "two"


def test_a_state_of_a_flow_that_somebody_has_locked_is_skipped(db, session):
    claim = begin(db)
    holder = session()
    holder.run(settle_op(db, claim, "pay"))
    db.run(db.ops.set_flow_state(db.home(), [(claim.id, 1, "1")]))
    assert db.job(claim.id).state is None
    holder.commit()
    db.run(db.ops.set_flow_state(db.home(), [(claim.id, 1, "1")]))
    assert db.job(claim.id).state == 1
