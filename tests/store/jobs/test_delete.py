"""The contract of delete: only finished jobs, with all that belongs to them; never what another job still needs."""

from __future__ import annotations

import pytest

from headway.store.sqlite.order import postponed
from tests.tenant_ids import tenant_id

_SIZE = "create or replace function headway.piece() returns integer language sql immutable as 'select {}'"


@pytest.fixture
def small_pieces(db, monkeypatch):
    """What one transaction does of many followers."""
    monkeypatch.setattr(postponed, "PIECE", 4)
    if db.dialect == "sqlite":
        yield
        return
    db.store.side.execute(_SIZE.format(4))
    yield
    db.store.side.execute(_SIZE.format(500))


def ended(db, to, **options):
    claim = db.start(queue="ended", **options)
    db.settle(claim, to)
    return claim.id


def rows(db):
    """How many rows every table has that may hold something of a job."""
    tables = ("jobs", "attempts", "signals", "edges", "groups")
    return {name: db.sql(f"select count(*) from {{{name}}}")[0][0] for name in tables}


NOTHING = {"jobs": 0, "attempts": 0, "signals": 0, "edges": 0, "groups": 0}


def test_finished_jobs_are_deleted_with_their_attempts_and_others_say_why_not(db, make):
    over = {to: ended(db, to) for to in ("succeeded", "dead", "canceled")}
    failed = db.start(queue="ended", delivery="at_most_once", max_attempts=1)
    db.settle(failed, "failed")
    over["failed"] = failed.id
    db.enqueue(train="t")
    live = {
        "running": db.start(queue="running").id,
        "scheduled": db.enqueue(delay_ms=3_600_000).id,
        "held": db.enqueue(train="t").id,
        "queued": db.enqueue().id,
    }
    waiting = db.begin(queue="machine")
    db.turn(waiting, "await", awaiting=["x"])
    live["waiting"] = waiting.id
    unknown = make.job().id
    answer = db.delete(*over.values(), *live.values(), unknown)
    assert answer == dict.fromkeys(over.values(), "deleted") | {job_id: status for status, job_id in live.items()}
    left = {job.id: job.status for job in db.find()}
    assert not left.keys() & set(over.values())
    assert {job_id: left[job_id] for job_id in live.values()} == {job_id: status for status, job_id in live.items()}
    assert {attempt[0] for attempt in db.sql("select job_id from {attempts}")} <= {live["waiting"]} | {
        attempt[0] for attempt in db.sql("select id from {jobs}")
    }
    assert db.delete(*over.values()) == {}


def test_everything_of_a_machine_goes_with_it(db, make):
    machine = db.begin(queue="machine", unique_key="order:1")
    children = db.spawn(machine, make.job(queue="kids"), make.job(queue="kids"))
    db.signal(machine.id, "hello")
    db.drain("kids")
    again = db.take(queue="machine")
    db.turn(again, "done")
    assert rows(db)["attempts"] == 4
    assert set(db.delete(machine.id, *children).values()) == {"deleted"}
    assert rows(db) == NOTHING
    assert db.enqueue(queue="machine", unique_key="order:1", kind="checkout").created


def test_a_child_stays_until_its_machine_goes_on(db, make):
    machine = db.begin(queue="machine")
    first, second = db.spawn(machine, make.job(queue="kids"), make.job(queue="kids"))
    db.finish(*db.claim(queue="kids", limit=1))
    db.process_arrivals()
    assert db.delete(first) == {first: "awaited"}
    db.drain("kids")
    db.turn(db.take(queue="machine"), "done")
    assert db.delete(first, second) == {first: "deleted", second: "deleted"}
    assert [job.id for job in db.find()] == [machine.id]


@pytest.mark.parametrize(("to", "becomes"), [("succeeded", "queued"), ("dead", "canceled")])
def test_a_dependent_still_learns_how_the_deleted_job_ended(db, to, becomes):
    claim = db.start(queue="ended")
    other = db.enqueue(queue="other")
    child = db.enqueue(queue="after", after=(claim.id, other.id)).id
    db.settle(claim, to)
    assert db.delete(claim.id) == {claim.id: "deleted"}  # before any arrival was processed
    assert db.statuses(child) == ["held"]
    db.drain("other")
    assert db.statuses(child) == [becomes]


def test_dependents_of_a_failed_job_wait_for_its_retry_even_if_it_is_deleted(db):
    claim = db.start(queue="ended", delivery="at_most_once", max_attempts=2)
    db.settle(claim, "failed", delay_ms=0)
    child = db.enqueue(queue="after", after=(claim.id,)).id
    # on PostgreSQL processing its arrival makes it wait for the retry, which is found by the failed job
    assert db.delete(claim.id) == {claim.id: "unsettled" if db.dialect == "postgres" else "deleted"}
    db.process_arrivals()
    db.delete(claim.id)
    db.promote()
    retry = db.take(queue="ended")
    assert db.statuses(child) == ["held"]
    db.settle(retry, "succeeded")
    assert db.statuses(child) == ["queued"]
    assert [job.id for job in db.find(queue="ended")] == [retry.id]


def test_every_one_of_many_dependents_learns_of_the_end(db, make, small_pieces):
    claim = db.start(queue="ended")
    children = [make.job(queue="after", after=(claim.id,)) for _ in range(9)]
    db.enqueue_all(children)
    db.process_arrivals()
    db.settle(claim, "succeeded")
    # SQLite has told four of them and tells the others later, by its row
    assert db.delete(claim.id) == {claim.id: "deleted" if db.dialect == "postgres" else "unsettled"}
    db.process_arrivals()
    db.delete(claim.id)
    assert db.statuses(*(child.id for child in children)) == ["queued"] * 9
    assert len(db.find()) == 9


def test_a_canceled_machine_stays_until_its_children_are_canceled(db, make, small_pieces):
    machine = db.begin(queue="machine")
    children = db.spawn(machine, *(make.job(queue="kids") for _ in range(9)))
    db.cancel(machine.id)
    assert db.delete(machine.id) == {machine.id: "unsettled"}
    assert db.statuses(*children) == ["canceled"] * 9
    assert db.delete(machine.id, *children) == dict.fromkeys([machine.id, *children], "deleted")
    assert rows(db) == NOTHING


def test_a_group_goes_with_the_last_of_its_jobs(db, make):
    group = make.group()
    ids = [answer.id for answer in db.enqueue_all([make.job(group_id=group.id) for _ in range(2)], group)]
    db.drain()
    db.delete(ids[0])
    assert rows(db)["groups"] == 1
    db.delete(ids[1])
    assert rows(db) == NOTHING


def test_a_deleted_locomotive_has_given_its_train_on(db):
    first, second, third = (db.enqueue(train="t").id for _ in range(3))
    db.process_arrivals()
    db.cancel(first)
    assert db.delete(first) == {first: "deleted"}
    assert db.drain() == [second, third]


def test_a_job_of_another_tenant_is_not_there(db):
    job_id = db.enqueue(tenant="acme").id
    db.cancel(job_id)
    assert db.delete(job_id, tenant_id=tenant_id("beta")) == {}
    assert db.status(job_id) == "canceled"
    assert db.delete(job_id, tenant_id=tenant_id("acme")) == {job_id: "deleted"}


def test_the_audit_has_one_entry_per_call_and_tenant(db):
    one = ended(db, "dead", kind="report", tenant="acme")
    many = [ended(db, "succeeded") for _ in range(3)]
    running = db.start(queue="running").id
    db.delete(one, actor="ann", reason="as asked")
    db.delete(*many, running, actor="bob")
    db.delete(running, actor="eve")
    (entry,) = db.audit(one)
    assert (entry.action, entry.actor, entry.detail, entry.tenant_id) == (
        *("delete", "ann", "report, dead: as asked"),
        tenant_id("acme"),
    )
    found = [(entry.actor, entry.job_id, entry.detail) for entry in db.audit_log(action="delete")]
    assert found == [("bob", None, "3 jobs"), ("ann", one, "report, dead: as asked")]


def test_a_late_settle_and_a_retry_find_nothing(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    db.delete(claim.id)
    assert db.settle(claim, "dead", error="late") == [(claim.id, 1)]
    assert db.retry(claim.id) == {}
    assert db.find() == []
