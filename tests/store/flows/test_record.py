"""Journals: rows are written under the fence, once, in the order of their numbers, with what belongs to them."""

from __future__ import annotations

from contextlib import closing

import msgspec
import pytest

from headway.errors import Duplicate, LeaseLost, NotAllowed
from headway.model.ids import new_id
from headway.model.journal import Journals, Recorded, effective
from tests.store.flows.flow_calls import (
    AWAITED,
    begin,
    called,
    end,
    entry,
    lines,
    new_flow,
    park,
    parked,
    record,
    rows,
    unread,
    untimed,
)
from tests.store.machines.machine_calls import checkpoint
from tests.tenant_ids import tenant_id


def test_a_row_is_read_as_it_was_recorded(db):
    claim = begin(db)
    full = entry(claim, 7, "failed", place="charge#2", value='{"a": 1,  "é": "\\u0000"}', error="bad\nand worse")
    bare = entry(claim, 9, "timer", place="sleep", value=None, print=None, took_ms=None)
    assert record(db, full, bare) == Recorded([], {})
    first, second = rows(db, claim.id)
    assert (first.job_id, first.seq, first.fence, first.kind, first.place) == (claim.id, 7, 1, "failed", "charge#2")
    assert (bytes(first.value), first.error) == ('{"a": 1,  "é": "\\u0000"}'.encode(), "bad\nand worse")
    assert (first.print, first.took_ms, first.at, first.signal) == (107, 207, db.now(), None)
    assert (second.value, second.error, second.print, second.took_ms) == (None, None, None, None)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_fingerprint_has_64_bits(db, number):
    claim = begin(db)
    record(db, entry(claim, 1, print=number))
    assert rows(db, claim.id)[0].print == number


def test_rows_of_several_flows_are_one_call(db):
    claims = [begin(db) for _ in range(3)]
    record(db, *(entry(claim, seq) for seq in (2, 1) for claim in claims))
    found = db.run(db.ops.journal([claim.id for claim in reversed(claims)]))
    assert [(row.job_id, row.seq) for row in found.rows] == [(claim.id, seq) for claim in claims for seq in (1, 2)]
    assert found.more is False


def test_nothing_to_record_is_nothing(db):
    assert record(db) == Recorded([], {})


def test_under_a_lost_fence_nothing_is_written(db, make):
    worker = db.worker()
    lost, kept = begin(db, worker), begin(db)
    signal = db.signal(lost.id, "paid")
    db.reap(worker)
    child = make.job(queue="kids")
    answer = record(db, called(lost, 1, child, signal=signal.id), entry(kept, 1), worker=worker)
    assert sorted(answer.lost) == sorted([(lost.id, 1), (kept.id, 1)])
    answer = record(db, called(lost, 1, child, signal=signal.id), entry(kept, 1))
    assert answer == Recorded([(lost.id, 1)], {})
    assert (rows(db, lost.id), lines(db, kept.id)) == ([], [(1, "done", "step1")])
    assert db.inboxes(lost.id) == [("paid", "pending", None)]
    assert db.claim(queue="kids") == []


def test_a_later_execution_of_the_same_worker_does_not_help_an_earlier_one(db):
    claim = begin(db)
    db.settle(claim, "queued")
    again = db.take()
    answer = record(db, entry(claim, 1), entry(again, 2))
    assert (answer.lost, lines(db, claim.id)) == ([(claim.id, 1)], [(2, "done", "step2")])


def test_any_worker_may_be_meant(db):
    claim = begin(db, db.worker())
    assert untimed(db.run(db.ops.record(None, [entry(claim, 1)]))) == Recorded([], {})
    assert lines(db, claim.id) == [(1, "done", "step1")]


def test_a_repeat_changes_nothing_and_gives_the_same_answer(db, make):
    claim = begin(db)
    signal = db.signal(claim.id, "paid")
    child = make.job(queue="kids")
    call = (called(claim, 1, child), entry(claim, 2, "signal", signal=signal.id), entry(claim, 3))
    first = record(db, *call)
    before = rows(db, claim.id)
    db.advance("1m")
    # the child is gone meanwhile
    db.finish(*db.claim(queue="kids"))
    db.process_arrivals()
    assert record(db, *call) == first == Recorded([], {child.id: child.id})
    assert record(db, entry(claim, 3, value='"other"')) == Recorded([], {})
    assert rows(db, claim.id) == before
    assert db.claim(queue="kids") == []
    assert [name for name, status, _ in db.inboxes(claim.id) if status == "pending"] == ["$child"]


def test_a_repeat_does_not_make_a_child_again_that_was_pruned(db, make):
    claim = begin(db)
    child = make.job(queue="kids")
    call = called(claim, 1, child, waits=False)
    answer = record(db, call)
    db.finish(*db.claim(queue="kids"))
    db.advance("30d")
    assert db.prune("succeeded", older_than_ms=1) == 1
    assert record(db, call) == answer
    assert db.claim(queue="kids") == []


def test_a_signal_is_consumed_once_with_its_row(db):
    claim, other = begin(db), begin(db)
    first, second = db.signal(claim.id, "paid"), db.signal(claim.id, "paid")
    db.advance("1s")
    record(db, entry(claim, 1, "signal", signal=first.id), entry(other, 1, "signal", signal=second.id))
    found = [(each.id, each.status, each.fence, each.consumed_at) for each in db.signals(claim.id)]
    # another flow's is not its to consume
    assert found == [(first.id, "consumed", 1, db.now()), (second.id, "pending", None, None)]
    assert [row.signal for row in rows(db, claim.id)] == [first.id]
    db.settle(claim, "queued")
    again = next(each for each in db.claim() if each.id == claim.id)
    assert unread(again) == {"paid": second.id}
    record(db, entry(again, 2, "signal", signal=first.id))
    assert db.signals(claim.id)[0].fence == 1


def test_children_are_enqueued_with_their_rows_and_know_their_parent(db, make):
    claim = begin(db)
    waits, lives_on = make.job(queue="kids"), make.job(queue="kids", kind="invoice")
    answer = record(db, called(claim, 1, waits), called(claim, 2, lives_on, waits=False))
    assert answer == Recorded([], {waits.id: waits.id, lives_on.id: lives_on.id})
    assert [db.job(each.id).parent_id for each in (waits, lives_on)] == [claim.id, claim.id]
    assert db.statuses(waits.id, lives_on.id) == ["queued", "queued"]
    edges = db.sql("select parent_id, child_id, fence, on_failure, state from {edges}")
    assert [tuple(map(str, edge)) for edge in edges] == [(waits.id, claim.id, "-1", "continue", "pending")]
    assert db.run(db.ops.waiters(waits.id, tenant_id=None, limit=9))[0].waits == "children"
    assert [job.id for job in db.find(parent_id=claim.id)] == [lives_on.id, waits.id]


def test_a_child_that_met_a_job_by_its_key_is_that_job(db, make):
    there = db.enqueue(queue="kids", unique_key="k").id
    claim = begin(db)
    child = make.job(queue="kids", unique_key="k")
    said = msgspec.json.encode({"id": child.id, "kind": "mail"}).decode()
    answer = record(db, called(claim, 1, child, value=said))
    assert answer.children == {child.id: there}
    assert bytes(rows(db, claim.id)[0].value) == msgspec.json.encode({"id": there, "kind": "mail"})
    assert park(db, claim) == "waiting"
    db.finish(*db.claim(queue="kids"))
    assert db.woken(claim.id) == ("queued", "signal")


def test_a_child_that_is_refused_leaves_nothing_written(db, make):
    db.enqueue(queue="kids", unique_key="k")
    claim, other = begin(db), begin(db)
    with pytest.raises(Duplicate):
        record(
            db,
            entry(other, 1),
            called(claim, 1, make.job(queue="kids")),
            called(claim, 2, make.job(queue="kids", unique_key="k", on_conflict="raise")),
        )
    assert (rows(db, claim.id), rows(db, other.id), len(db.claim(queue="kids"))) == ([], [], 1)


def test_a_journal_is_cut_where_it_gets_large(db):
    claims = sorted((begin(db) for _ in range(2)), key=lambda claim: claim.id)
    big = msgspec.json.encode("x" * 1_000).decode()
    for claim in claims:
        record(db, *(entry(claim, seq, value=big) for seq in range(1, 201)))
    ids = [claim.id for claim in claims]
    found: list[tuple[str, int]] = []
    after: dict[str, int] = {}
    pages = 0
    while True:
        page: Journals = db.run(db.ops.journal(ids, after=after, max_bytes=100_000))
        found += [(row.job_id, row.seq) for row in page.rows]
        assert len(page.rows) in range(1, 95)
        after |= {row.job_id: row.seq for row in page.rows}
        pages += 1
        if not page.more:
            break
    assert found == [(job_id, seq) for job_id in ids for seq in range(1, 201)]
    assert pages == 5
    whole = db.run(db.ops.journal(ids))
    assert (len(whole.rows), whole.more) == (400, False)
    assert [row.seq for row in rows(db, ids[0], max_bytes=0)] == [1]


def test_another_tenant_sees_no_journal(db):
    acme = tenant_id("acme")
    claim = begin(db, tenant="acme")
    record(db, entry(claim, 1))
    assert len(rows(db, claim.id, tenant_id=acme)) == 1
    assert rows(db, claim.id, tenant_id=tenant_id("other")) == []


# settle_step


def settle_step(db, claim, place="pay", value="5", end="commit"):
    with closing(db.connect()) as conn:
        conn.execute("begin")
        op = db.ops.settle_step(entry(claim, 0, "settled", place=place, value=value))
        db.store.run_in(conn, op)
        conn.execute(end)


def test_a_step_is_settled_exactly_if_the_callers_transaction_commits(db):
    claim = begin(db)
    record(db, entry(claim, 1))
    settle_step(db, claim, end="rollback")
    assert lines(db, claim.id) == [(1, "done", "step1")]
    settle_step(db, claim)
    settle_step(db, claim, "post", '"x"')
    notes = [row for row in rows(db, claim.id) if row.kind == "settled"]
    assert sorted((row.place, bytes(row.value), row.fence, row.print, row.took_ms) for row in notes) == [
        ("pay", b"5", 1, 100, 200),
        ("post", b'"x"', 1, 100, 200),
    ]
    # before all answers
    assert [row.kind for row in rows(db, claim.id)] == ["settled", "settled", "done"]


def test_a_step_is_settled_once(db):
    claim = begin(db)
    settle_step(db, claim)
    with pytest.raises(NotAllowed, match="settle once"):
        settle_step(db, claim)
    db.settle(claim, "queued")
    again = db.take()
    with pytest.raises(LeaseLost):
        settle_step(db, claim, "post")
    with pytest.raises(NotAllowed, match="settle once"):
        settle_step(db, again)
    assert [row.place for row in rows(db, claim.id)] == ["pay"]


def test_a_step_may_be_settled_again_once_a_retry_began_anew(db):
    claim = begin(db)
    settle_step(db, claim)
    record(db, entry(claim, 1, place="pay"), entry(claim, 2, "cut", value='{"from": 0}'))
    end(db, claim, "dead", error="undone")
    db.retry(claim.id)
    assert lines(db, claim.id) == []
    again = db.take()
    settle_step(db, again)
    assert [(row.fence, row.kind) for row in effective(rows(db, claim.id))] == [(2, "settled")]
    with pytest.raises(NotAllowed, match="settle once"):
        settle_step(db, again)


# state, news


def test_what_others_read_is_written_while_the_flow_runs(db):
    worker = db.worker()
    claim, other = begin(db, worker), begin(db)
    states = [(claim.id, 1, '{"n": 1}'), (other.id, 1, '{"n": 2}'), (other.id, 2, '{"n": 3}')]
    db.run(db.ops.set_flow_state(worker, states))
    assert (db.job(claim.id).state, db.job(other.id).state) == ({"n": 1}, None)
    db.run(db.ops.set_flow_state(db.home(), states[1:]))
    assert db.job(other.id).state == {"n": 2}
    db.run(db.ops.set_flow_state(db.home(), []))


def test_news_are_the_unread_signals_of_flows_that_this_worker_runs(db):
    quiet, told, canceled, foreign = begin(db), begin(db), begin(db), begin(db, db.worker())
    db.signal(told.id, "paid", {"a": [1, 2]})
    read = db.signal(told.id, "late")
    record(db, entry(told, 1, "signal", signal=read.id))
    db.signal(foreign.id, "paid")
    db.signal(canceled.id, "paid")
    db.cancel(canceled.id, reason="enough")
    ids = [each.id for each in (quiet, told, canceled, foreign)]
    found = db.run(db.ops.flow_news(db.home(), ids))
    assert sorted(found) == sorted([told.id, canceled.id])
    (signal,) = found[told.id].signals
    assert (signal.name, signal.payload, found[told.id].canceling) == ("paid", {"a": [1, 2]}, False)
    assert [(each.name, each.payload) for each in found[canceled.id].signals] == [("paid", None), ("$cancel", "enough")]
    assert found[canceled.id].canceling is True


# parks


def test_a_park_is_an_end_of_an_execution_like_any_await(db):
    claim = begin(db)
    db.settle(claim, "queued", charge=1)
    claim = db.take()
    record(db, entry(claim, 1))
    signal = db.signal(claim.id, "noise")
    deadline = db.after(60_000)
    status = park(db, claim, "paid", deadline_ms=60_000, consumed=(signal.id,), state={"at": 1})
    job = db.job(claim.id)
    assert (status, job.awaiting, job.deadline_at) == ("waiting", ("paid", *AWAITED), deadline)
    assert (job.tries, job.state, job.step, job.joining, job.pending) == (0, {"at": 1}, "$flow", None, False)
    (attempt,) = [each for each in db.attempts(claim.id) if each.fence == 2]
    assert (attempt.outcome, attempt.step, attempt.status) == ("park", "$flow", "succeeded")
    db.advance("2m")
    db.promote()
    assert db.woken(claim.id) == ("queued", "timeout")
    assert checkpoint(db.take()).woken == "timeout"


def test_a_signal_that_is_there_already_does_not_let_it_park(db):
    claim = begin(db)
    db.signal(claim.id, "paid")
    assert park(db, claim, "paid") == "queued"


# forget and fork


def test_a_flow_that_is_set_aside_may_forget_its_last_answers(db):
    claim = begin(db)
    first, second = db.signal(claim.id, "paid"), db.signal(claim.id, "paid")
    record(db, entry(claim, 1, "signal", signal=first.id), entry(claim, 2), entry(claim, 3, "signal", signal=second.id))
    db.settle(claim, "scheduled", delay_ms=600_000)
    assert db.run(db.ops.forget(claim.id, 2, tenant_id=tenant_id("acme"), actor=None)) is False
    assert db.run(db.ops.forget(new_id(), 2, tenant_id=None, actor=None)) is False
    assert db.run(db.ops.forget(claim.id, 2, tenant_id=None, actor="ada")) is True
    assert lines(db, claim.id) == [(1, "signal", "step1")]
    assert (rows(db, claim.id)[-1].kind, bytes(rows(db, claim.id)[-1].value).replace(b" ", b"")) == (
        "forgotten",
        b'{"from":2}',
    )
    assert [(entry.action, entry.actor, entry.detail) for entry in db.audit(claim.id)] == [("accept", "ada", "from 2")]
    assert db.job(claim.id).status == "queued"
    assert unread(db.take()) == {"paid": second.id}


def test_a_parked_flow_that_forgets_is_due(db):
    claim = parked(db, "paid")
    assert db.run(db.ops.forget(claim.id, 1, tenant_id=None, actor=None)) is True
    assert db.job(claim.id).status == "queued"


def test_a_fork_begins_with_the_answers_before_a_place(db):
    source = begin(db)
    signal = db.signal(source.id, "paid")
    record(
        db,
        entry(source, 1),
        entry(source, 2, "due"),
        entry(source, 3, "tried"),
        entry(source, 4, "failed", error="bad"),
        entry(source, 5, "signal", signal=signal.id),
        entry(source, 6),
        entry(source, 7, "cut", value='{"from": 6}'),
    )
    end(db, source, "dead", error="bad")
    db.retry(source.id)
    source = db.take()
    record(db, entry(source, 9, "ended"), entry(source, 10))
    job = new_flow(forked_from=source.id, queue="forks")
    db.advance("1h")
    answer = db.run(db.ops.fork_flow(job, source.id, 10, {4: '"well"', 9: "[9]"}, actor="ada"))
    assert (answer.created, answer.status) == (True, "queued")
    found = [(row.seq, row.kind, bytes(row.value), row.error, row.fence, row.signal) for row in rows(db, job.id)]
    assert found == [
        (1, "done", b'{"n":1}', None, 0, None),
        (2, "due", b'{"n":2}', None, 0, None),
        (4, "done", b'"well"', None, 0, None),
        (5, "signal", b'{"n":5}', None, 0, None),
        (9, "ended", b"[9]", None, 0, None),
    ]
    assert [row.print for row in rows(db, job.id)] == [101, 102, 104, 105, 109]
    assert [(each.action, each.actor, each.detail) for each in db.audit(job.id)] == [("fork", "ada", source.id)]
    assert db.job(job.id).forked_from == source.id
    again = db.run(db.ops.fork_flow(job, source.id, 10, {}, actor="ada"))
    assert (again.created, len(rows(db, job.id)), len(db.audit(job.id))) == (False, 5, 1)


def test_a_flow_that_begins_anew_has_no_rows_from_before(db):
    other = begin(db)
    record(db, entry(other, 1))
    claim = begin(db)
    record(db, *(entry(claim, seq) for seq in range(1, 4)))
    anew = entry(claim, 4, "forgotten", place="", value='{"from": 0, "payload": {}}')
    for _ in range(2):
        assert record(db, anew).lost == []
        assert [row.seq for row in rows(db, claim.id)] == [4]
    assert [row.seq for row in rows(db, other.id)] == [1]
    stale = msgspec.structs.replace(claim, fence=claim.fence + 1)
    record(db, entry(claim, 5))
    assert record(db, entry(stale, 6, "forgotten", place="")).lost == [(claim.id, stale.fence)]
    assert [row.seq for row in rows(db, claim.id)] == [4, 5]
