"""Retry and loss of a flow: what counts of its journal afterwards, and what it costs."""

from __future__ import annotations

import random

import msgspec
import pytest

from headway.model.journal import CANCEL, effective
from tests.store.flows.flow_calls import begin, called, end, entry, lines, park, parked, record, rows, unread


def cut(claim, seq, start):
    return entry(claim, seq, "cut", place="", value=f'{{"from": {start}, "place": "charge"}}')


def died(db, *, start, **options):
    """A flow that is dead at its third answer: its last row says from where a retry shall forget."""
    claim = begin(db, **options)
    signals = [db.signal(claim.id, "paid").id for _ in range(3)]
    answers = [entry(claim, seq, "signal", signal=signal) for seq, signal in enumerate(signals, start=1)]
    record(db, *answers, cut(claim, 4, start))
    end(db, claim, "dead", error="bad")
    return claim, signals


def test_a_retry_forgets_from_the_cut_on_and_gives_the_signals_back(db):
    claim, signals = died(db, start=2)
    assert db.retry(claim.id) == {claim.id: claim.id}
    assert lines(db, claim.id) == [(1, "signal", "step1")]
    last = rows(db, claim.id)[-1]
    assert (last.seq, last.kind, last.fence, msgspec.json.decode(last.value)) == (5, "forgotten", 1, {"from": 2})
    assert [(each.id, each.fence) for each in db.signals(claim.id)] == [
        (signals[0], 1),
        (signals[1], None),
        (signals[2], None),
    ]
    assert len(db.claim()) == 1


def test_a_retry_without_a_cut_keeps_the_whole_journal(db):
    claim = begin(db)
    signal = db.signal(claim.id, "paid")
    record(db, entry(claim, 1, "signal", signal=signal.id))
    end(db, claim, "dead", error="a bug between operations")
    before = rows(db, claim.id)
    db.retry(claim.id)
    assert rows(db, claim.id) == before
    assert db.inboxes(claim.id) == [("paid", "consumed", 1)]


def test_each_retry_takes_the_last_cut_that_counts(db):
    claim, signals = died(db, start=2)
    db.retry(claim.id)
    again = db.take()
    record(db, entry(again, 6, "signal", signal=signals[1]), entry(again, 7), cut(again, 8, 7))
    end(db, again, "dead", error="bad")
    db.retry(claim.id)
    assert lines(db, claim.id) == [(1, "signal", "step1"), (6, "signal", "step6")]
    third = db.take()
    assert list(unread(third).values()) == [signals[2]]
    # this end says nothing of the journal
    end(db, third, "dead", error="a bug")
    db.retry(claim.id)
    assert lines(db, claim.id) == [(1, "signal", "step1"), (6, "signal", "step6")]


def test_a_retry_from_the_start_takes_back_what_steps_had_settled(db):
    claim = begin(db)
    db.run(db.ops.settle_step(entry(claim, 0, "settled", place="pay")))
    record(db, entry(claim, 1, place="pay"), cut(claim, 2, 1))
    end(db, claim, "dead", error="bad")
    db.retry(claim.id)
    assert [(kind, place) for _, kind, place in lines(db, claim.id)] == [("settled", "pay")]
    again = db.take()
    record(db, cut(again, 4, 0))
    end(db, again, "failed", error="undone")
    db.retry(claim.id)
    assert lines(db, claim.id) == []


@pytest.mark.parametrize("to", ["succeeded", "failed", "dead", "canceled"])
def test_a_flow_is_retried_whatever_its_end(db, to):
    claim = begin(db)
    record(db, entry(claim, 1), cut(claim, 2, 1))
    end(db, claim, to, **({} if to == "succeeded" else {"error": "bad"}))
    db.retry(claim.id)
    job = db.job(claim.id)
    assert (job.status, job.tries, job.losses, job.finished_at) == ("queued", 0, 0, None)
    assert lines(db, claim.id) == []


def test_a_retry_withdraws_the_cancel_however_it_ended(db):
    claim = parked(db, "paid")
    db.cancel(claim.id)
    again = db.take()
    signal = unread(again)[CANCEL]
    record(db, entry(again, 1, "cancel", signal=signal), cut(again, 2, 1))
    end(db, again, "canceled", error="undone")
    db.retry(claim.id)
    assert (db.status(claim.id), db.inboxes(claim.id), lines(db, claim.id)) == ("queued", [], [])
    again = db.take()
    assert park(db, again) == "waiting"
    assert db.cancel(claim.id) == {claim.id: "queued"}
    assert list(unread(db.take())) == [CANCEL]


def test_an_unread_cancel_is_withdrawn_too(db):
    claim = begin(db)
    db.cancel(claim.id)
    end(db, claim, "succeeded")
    db.retry(claim.id)
    assert db.inboxes(claim.id) == []


def test_a_parked_flow_that_was_canceled_runs_when_it_is_retried(db):
    claim = parked(db, "paid")
    db.run(db.ops.cancel([claim.id], tenant_id=None, reason=None, actor=None, at_once=True))
    db.retry(claim.id)
    assert db.statuses(claim.id) == ["queued"]
    assert db.take().id == claim.id


def test_a_car_that_is_a_flow_runs_when_it_is_retried(db):
    claim = begin(db, train="t")
    park(db, claim, "paid")
    behind = db.machine(step="$flow", train="t")
    db.run(db.ops.cancel([claim.id], tenant_id=None, reason=None, actor=None, at_once=True))
    assert db.statuses(claim.id, behind) == ["canceled", "queued"]
    db.retry(claim.id)
    assert db.statuses(claim.id) == ["held"]
    end(db, db.take())
    assert db.statuses(claim.id) == ["queued"]


def test_a_machine_still_waits_again(db):
    machine = db.parked("paid")
    db.cancel(machine)
    db.retry(machine)
    assert db.statuses(machine) == ["waiting"]


def test_a_flow_that_is_retried_with_its_child_waits_for_it(db, make):
    claim = begin(db)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child), entry(claim, 2, "cut", value='{"from": 2}'))
    (kid,) = db.claim(queue="kids")
    db.settle(kid, "dead", error="bad")
    db.process_arrivals()
    record(db, entry(claim, 3, "ended", place="step1"), entry(claim, 4, "cut", value='{"from": 3}'))
    end(db, claim, "dead", error="bad")
    db.retry(claim.id, child.id)
    again = db.take()
    assert park(db, again, consumed=tuple(unread(again).values())) == "waiting"
    db.finish(*db.claim(queue="kids"))
    assert db.woken(claim.id) == ("queued", "signal")


def test_a_child_that_is_retried_before_its_flow_is_waited_for(db, make):
    claim = begin(db)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child))
    db.settle(*db.claim(queue="kids"), "dead", error="bad")
    db.process_arrivals()
    record(db, entry(claim, 3, "ended", place="step1"), entry(claim, 4, "cut", value='{"from": 3}'))
    end(db, claim, "dead", error="bad")
    db.retry(child.id)
    db.retry(claim.id)
    again = db.take()
    assert park(db, again, consumed=tuple(unread(again).values())) == "waiting"
    db.finish(*db.claim(queue="kids"))
    assert db.woken(claim.id) == ("queued", "signal")


def test_what_only_wakes_is_not_given_back(db, make):
    claim = begin(db)
    child = make.job(queue="kids")
    record(db, called(claim, 1, child))
    db.finish(*db.claim(queue="kids"))
    park(db, claim)
    db.process_arrivals()
    again = db.take()
    record(db, entry(again, 2, "ended", place="step1", signal=unread(again)["$child"]), cut(again, 3, 2))
    end(db, again, "dead", error="bad")
    db.retry(claim.id)
    assert lines(db, claim.id) == [(1, "called", "step1")]
    assert db.inboxes(claim.id) == [("$child", "consumed", 2)]


# losses


def lose(db, worker):
    (reaped,) = db.reap(worker)
    db.advance("10h")
    db.promote()
    return reaped


def test_losses_count_from_0_where_the_lost_execution_recorded_something(db):
    claim = begin(db, max_losses=3, queue="default")
    db.settle(claim, "queued")
    job_id = claim.id
    for n in range(6):
        worker = db.worker(lease_ms=10**9)
        claim = db.take(worker)
        if n in (1, 3):
            record(db, entry(claim, 10 + n), worker=worker)
        reaped = lose(db, worker)
        assert (reaped.to, db.job(job_id).losses) == [
            ("scheduled", 1),
            ("scheduled", 1),
            ("scheduled", 2),
            ("scheduled", 1),
            ("scheduled", 2),
            ("dead", 3),
        ][n]


def test_a_settled_step_is_something_recorded(db):
    claim = begin(db, max_losses=2)
    db.settle(claim, "queued")
    for n in range(3):
        worker = db.worker(lease_ms=10**9)
        claim = db.take(worker)
        if n == 0:
            record(db, entry(claim, 1), worker=worker)
        else:
            db.run(db.ops.settle_step(entry(claim, 0, "settled", place=f"pay#{n}")))
        assert lose(db, worker).to == "scheduled"
        assert db.job(claim.id).losses == 1


def test_a_machine_is_charged_for_every_loss(db):
    claim = db.begin(max_losses=2)
    db.settle(claim, "queued")
    for to in ("scheduled", "dead"):
        worker = db.worker(lease_ms=10**9)
        claim = db.take(worker)
        record(db, entry(claim, claim.fence), worker=worker)
        assert lose(db, worker).to == to


# what counts


def test_both_stores_say_alike_what_counts_of_a_journal(db):
    """Against the model, for journals with many takebacks."""
    draw = random.Random(7)
    for _ in range(25):
        claim = begin(db)
        seq = 0
        for _ in range(draw.randrange(1, 4)):
            for _ in range(draw.randrange(1, 6)):
                if draw.random() < 0.3:
                    db.run(db.ops.settle_step(entry(claim, 0, "settled", place=f"p{draw.randrange(10**6)}")))
                seq += draw.randrange(1, 3)
                record(db, entry(claim, seq))
            seq += 1
            record(db, cut(claim, seq, draw.randrange(seq + 1)))
            end(db, claim, "dead", error="bad")
            db.retry(claim.id)
            seq += 1
            claim = db.take()
        expected = [row.seq for row in effective(rows(db, claim.id))]
        assert counted(db, claim.id) == expected
        end(db, claim)


def counted(db, job_id):
    if db.dialect == "postgres":
        return [seq for (seq,) in db.sql("select seq from headway.effective(?)", job_id)]
    from headway.store.run import drive
    from headway.store.sqlite.flows.journal import lines as every_line
    from headway.store.sqlite.flows.journal import that_count

    found = drive(every_line(job_id), lambda request: db.sql(request.sql.replace("?1", "?"), *request.params))
    return [line.seq for line in that_count(found)]
