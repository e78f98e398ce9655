"""The contract of outcomes that handlers commit with their own rows: there exactly if that transaction commits, under
the fence, and settled once, whoever does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from headway.errors import ConfigError, InvalidJob, LeaseLost, NotAllowed, NotFound
from headway.model.ids import new_id
from headway.model.job import Report
from tests.store.machines.machine_calls import ids_of, inbox


@contextmanager
def transaction(db: Any, end: str = "commit") -> Iterator[Any]:
    """The application's own transaction, which ends so."""
    with closing(db.connect()) as conn:
        conn.execute("begin")
        yield conn
        conn.execute(end)


def commit(db: Any, settled: Any) -> None:
    with transaction(db) as conn:
        db.commit_outcome(settled, conn)


def test_a_committed_outcome_waits_in_its_running_row_until_it_is_settled(db, make):
    claim = db.start()
    settled = make.settlement(claim, "succeeded", result='{"moved": 5}')
    commit(db, settled)
    assert db.status(claim.id) == "running"
    assert db.committed(claim) == settled
    ended = db.advance("2s")
    assert db.settle_committed(claim) == [settled]
    job = db.job(claim.id)
    assert (job.status, job.result, job.finished_at, job.worker_id) == ("succeeded", {"moved": 5}, ended, None)
    assert [(a.fence, a.status, a.worker_id) for a in db.attempts(claim.id)] == [(1, "succeeded", db.home())]
    assert (db.committed(claim), db.settle_committed(claim)) == (None, [])


def test_after_a_rollback_there_is_no_outcome_and_the_ordinary_settle_decides(db, make):
    claim = db.start()
    with transaction(db, "rollback") as conn:
        db.commit_outcome(make.settlement(claim, "succeeded", result="1"), conn)
    assert (db.committed(claim), db.settle_committed(claim)) == (None, [])
    assert db.settle(claim, "scheduled", charge=1, delay_ms=1_000, error="it was rolled back") == []
    assert (db.status(claim.id), db.job(claim.id).error) == ("scheduled", "it was rolled back")


def test_nothing_else_ends_an_execution_whose_outcome_is_committed(db, make):
    worker = db.worker()
    claim = db.start(worker)
    commit(db, make.settlement(claim, "succeeded", result='"kept"'))
    before = db.job(claim.id)
    for to in ("succeeded", "scheduled", "queued", "dead", "failed", "canceled"):
        assert db.settle(claim, to, worker, error="late", result='"other"') == [(claim.id, claim.fence)]
    settled = db.run(db.ops.settle_and_claim(worker, [make.settlement(claim, "dead", error="late")], "default", 1))
    assert (settled.settled.lost, settled.claims) == ([(claim.id, claim.fence)], [])
    assert db.release(claim) == 0
    assert db.job(claim.id) == before
    assert [attempt.status for attempt in db.attempts(claim.id)] == ["running"]
    db.settle_committed(claim)
    assert db.job(claim.id).result == "kept"
    # a settle that comes after it, as a repeat does, is not told that its claim was lost
    assert db.settle(claim, "dead", worker, error="later") == []
    assert db.status(claim.id) == "succeeded"


@pytest.mark.parametrize("gone_by", ["lease", "name", "unregistered", "declared"])
def test_the_reaper_finds_it_and_does_not_lose_it(db, make, gone_by):
    worker = db.worker()
    kept, lost = db.enqueue_ids(2)
    claims = {claim.id: claim for claim in db.claim(worker)}
    commit(db, make.settlement(claims[kept], "succeeded", result="7"))
    gone = ()
    match gone_by:
        case "lease":
            db.advance("61s")
        case "name":
            gone = (worker,)
        case "unregistered":
            db.run(db.ops.unregister(worker))
    found = db.declare_dead(worker) if gone_by == "declared" else db.reap(*gone)
    reaped = {each.job_id: each for each in found}
    assert (reaped[kept].committed, reaped[kept].to, reaped[kept].fault) == (True, None, None)
    assert (reaped[lost].committed, reaped[lost].to) == (False, "scheduled")
    assert (reaped[kept].fence, reaped[kept].kind, reaped[kept].worker_id) == (1, "mail", worker)
    assert db.status(kept) == "running"
    db.settle_committed(claims[kept])
    job = db.job(kept)
    assert (job.status, job.result, job.losses) == ("succeeded", 7, 0)
    assert [(a.status, a.worker_id) for a in db.attempts(kept)] == [("succeeded", worker)]
    db.reap(*gone)
    assert worker not in db.workers()


def test_a_worker_that_lost_its_claim_cannot_commit(db, make):
    worker = db.worker()
    stale = db.start(worker)
    db.reap(worker)
    with closing(db.connect()) as conn:
        conn.execute("begin")
        with pytest.raises(LeaseLost, match=f"job {stale.id} does not run under fence 1 any more"):
            db.commit_outcome(make.settlement(stale, "succeeded"), conn)
        conn.execute("rollback")
    db.advance("1h")
    db.promote()
    claim = db.take()
    assert claim.fence == 2
    with pytest.raises(LeaseLost):
        db.commit_outcome(make.settlement(stale, "succeeded"))
    assert db.committed(claim) is None


def test_a_second_outcome_is_refused_until_the_first_is_rolled_back(db, make):
    claim = db.start()
    settled = make.settlement(claim, "succeeded", result="1")
    with closing(db.connect()) as conn:
        conn.execute("begin")
        db.commit_outcome(settled, conn)
        with pytest.raises(NotAllowed, match="has its outcome already"):
            db.commit_outcome(settled, conn)
        conn.execute("rollback")
    commit(db, settled)
    with pytest.raises(NotAllowed, match="has its outcome already"):
        db.commit_outcome(make.settlement(claim, "dead"))
    assert db.committed(claim) == settled


def test_a_database_without_the_job_is_named(db, make):
    claim = db.start()
    db.sql("delete from {jobs} where id = ?", claim.id)
    with pytest.raises(NotFound, match=f"the database of conn= has no job {claim.id}"):
        db.commit_outcome(make.settlement(claim, "succeeded"))


def test_a_connection_in_no_transaction_is_refused(db, make):
    claim = db.start()
    with closing(db.connect()) as conn, pytest.raises(ConfigError, match="is in no transaction"):
        db.commit_outcome(make.settlement(claim, "succeeded"), conn)
    assert db.committed(claim) is None


@pytest.mark.parametrize(
    ("to", "values", "status"),
    [
        ("scheduled", {"charge": 1, "delay_ms": 5_000, "error": "again"}, "scheduled"),
        ("scheduled", {"status": "snoozed", "delay_ms": 5_000}, "scheduled"),
        ("canceled", {"error": "enough"}, "canceled"),
        ("dead", {"charge": 1, "error": "no use"}, "dead"),
    ],
)
def test_every_outcome_of_a_plain_job_is_settled_as_an_ordinary_one(db, make, to, values, status):
    ids = db.enqueue_ids(2, unique_scope=("queued",), on_dead="hold")
    ordinary, own = db.claim()
    db.settle(ordinary, to, **values)
    commit(db, make.settlement(own, to, **values))
    db.settle_committed(own)
    a, b = map(db.job, ids)
    same = ("status", "tries", "losses", "error", "scheduled_for", "finished_at", "result", "worker_id", "fence")
    assert [getattr(a, name) for name in same] == [getattr(b, name) for name in same]
    assert b.status == status
    assert [(x.status, x.error) for x in db.attempts(ids[0])] == [(x.status, x.error) for x in db.attempts(ids[1])]


def test_a_cancel_that_comes_after_the_commit_stops_a_retry_but_not_a_success(db, make):
    first, second = db.enqueue_ids(2)
    done, again = db.claim()
    commit(db, make.settlement(done, "succeeded", result="1"))
    commit(db, make.settlement(again, "scheduled", charge=1, delay_ms=1_000, error="later"))
    assert db.cancel(first, second, reason="stop it") == {first: "running", second: "running"}
    db.settle_committed(done, again)
    assert db.statuses(first, second) == ["succeeded", "canceled"]


def test_at_most_once_gets_exactly_one_new_job(db, make):
    claim = db.start(delivery="at_most_once")
    commit(db, make.settlement(claim, "failed", charge=1, delay_ms=1_000, error="not today"))
    assert db.find(retry_of=claim.id) == []
    db.settle_committed(claim)
    assert db.settle_committed(claim) == []
    (heir,) = db.find(retry_of=claim.id)
    assert (db.status(claim.id), heir.status, heir.tries) == ("failed", "scheduled", 1)


def test_followers_follow_the_settle_and_not_the_commit(db, make):
    cars = [db.enqueue(train="t").id for _ in range(2)]
    after = db.enqueue(after=(cars[0],)).id
    db.process_arrivals()
    (locomotive,) = db.claim()
    commit(db, make.settlement(locomotive, "succeeded"))
    db.process_arrivals()
    assert db.statuses(*cars, after) == ["running", "held", "held"]
    assert db.claim() == []
    db.settle_committed(locomotive)
    assert db.statuses(*cars, after) == ["succeeded", "queued", "queued"]


def test_a_limit_is_free_after_the_settle(db, make):
    db.limit("queue", "default", max_running=1)
    db.enqueue_ids(2)
    (first,) = db.claim()
    commit(db, make.settlement(first, "succeeded"))
    assert db.claim() == []
    db.settle_committed(first)
    assert len(db.claim()) == 1


def test_a_dead_locomotive_holds_its_train_though_a_car_came_between(db, make):
    locomotive = db.start(train="t", on_dead="hold")
    commit(db, make.settlement(locomotive, "dead", charge=1, error="broken"))
    car = db.enqueue(train="t", on_dead="hold").id
    assert db.claim() == []
    db.settle_committed(locomotive)
    assert db.statuses(car) == ["held"]
    assert db.train("t").blocked


def test_a_step_takes_its_turn_with_the_settle(db, make):
    claim = db.begin(state={"n": 1})
    db.signal(claim.id, "paid")
    settled = make.turned(claim, "await", awaiting=("paid",), step="ship", state={"n": 2})
    commit(db, settled)
    assert db.job(claim.id).state == {"n": 1}
    assert db.settle_committed(claim) == [settled]
    woken = db.take()
    assert (woken.id, inbox(woken), db.job(claim.id).state, db.job(claim.id).step) == (
        claim.id,
        ["paid"],
        {"n": 2},
        "ship",
    )
    commit(db, make.turned(woken, "done", consumed=ids_of(woken, "paid"), result='"shipped"'))
    assert [signal.status for signal in db.signals(claim.id)] == ["pending"]
    db.settle_committed(woken)
    assert [signal.status for signal in db.signals(claim.id)] == ["consumed"]
    assert (db.status(claim.id), db.job(claim.id).result) == ("succeeded", "shipped")


def test_children_are_spawned_by_the_settle_with_all_that_they_were_built_with(db, make):
    claim = db.begin()
    child = make.job(kind="ship", payload='{"a": [1, "é"]}', meta='{"m": 1}', scheduled_for=db.after(60_000), train="x")
    machine = make.machine(kind="sub", state={"deep": {"er": 1}}, step="second")
    commit(db, make.turned(claim, "spawn", children=(child, machine), step="joined"))
    assert db.run(db.ops.get([child.id, machine.id], tenant_id=None)) == []
    db.settle_committed(claim)
    assert db.job(claim.id).status == "waiting"
    job, sub = db.job(child.id), db.job(machine.id)
    assert (job.payload, job.meta, job.scheduled_for, job.train) == ({"a": [1, "é"]}, {"m": 1}, db.after(60_000), "x")
    assert (sub.state, sub.step) == ({"deep": {"er": 1}}, "second")


def test_an_outcome_that_the_store_refuses_is_a_dead_letter_and_not_run_again(db, make):
    claim = db.begin()
    commit(db, make.turned(claim, "spawn", children=(make.job(kind="ship", after=(new_id(),)),)))
    with pytest.raises(InvalidJob):
        db.settle_committed(claim)
    assert db.committed(claim) is not None
    (dead,) = db.settle_committed(claim, refused="its children were refused")
    job = db.job(claim.id)
    assert (job.status, job.error, job.tries, dead.to) == ("dead", "its children were refused", 1, "dead")
    assert db.committed(claim) is None


def test_progress_is_still_reported_after_the_commit(db, make):
    worker = db.worker()
    claim = db.start(worker)
    commit(db, make.settlement(claim, "succeeded"))
    db.report(worker, Report(claim.id, claim.fence, 0.5, "half", "a line", 6))
    db.settle_committed(claim)
    assert db.job(claim.id).progress == 0.5
    assert db.attempts(claim.id)[0].stdout_tail == "a line"
