"""Migrations with work in the tables: up keeps it as it is, down keeps what the older version can hold."""

from __future__ import annotations

import pytest

from headway.model.ids import new_id
from headway.store.ops import Op


def migrate(db, to=None):
    db.store.close()
    if db.dialect == "sqlite":
        return db.store.migrate(to)
    from headway.store.postgres.migrate import migrate as steps

    done = db.store.run_script(Op(lambda: steps(to), writes=True))
    if to is None:
        db.advance("1s")  # the functions are new ones: hold the clock again
    return done


def rows(db):
    return {str(job_id): status for job_id, status in db.sql("select id, status from {jobs}")}


@pytest.fixture
def busy(db, make):
    """A database with something of everything."""
    db.limit("kind", "mail", max_running=50)
    db.limit("tenant", "*", max_pending=500)
    db.set_fair("fair")
    db.reserve(new_id(), "reserved")
    for name in "abc":
        db.enqueue_ids(3, train=name, on_dead="hold")
    db.settle(db.take(), "dead")
    parent = db.start(queue="parents")
    db.enqueue(after=(parent.id,))
    db.enqueue(after=(parent.id,), delay_ms=3_600_000_000)
    db.enqueue_ids(3, partition="p", concurrency=1, concurrency_key="k", rate_count=1, rate_period_ms=1_000)
    group_id = new_id()
    member = make.job(group_id=group_id)
    callback = make.job(after=(member.id,), queue="callbacks")
    db.enqueue_all([member, callback], make.group(id=group_id, callback_id=callback.id))
    db.claim(limit=3)
    return db


def test_down_keeps_every_job_and_holds_none(busy):
    before = rows(busy)
    assert "held" in before.values()
    migrate(busy, 1)
    after = rows(busy)
    assert set(after) == set(before)
    assert {job_id: status for job_id, status in after.items() if before[job_id] != "held"} == {
        job_id: status for job_id, status in before.items() if status != "held"
    }
    assert {after[job_id] for job_id, status in before.items() if status == "held"} == {"queued", "scheduled"}
    assert busy.sql("select count(*) from {jobs} where status = 'queued' and position is null") == [(0,)]


def test_up_again_everything_runs(busy):
    migrate(busy, 1)
    waiting = {job_id for job_id, status in rows(busy).items() if status == "queued"}
    migrate(busy)
    assert busy.limits() == []
    assert busy.trains() == []
    started = busy.drain() + busy.drain("callbacks")
    assert set(started) == waiting


def test_down_ends_what_would_enter_a_taken_unique_scope(db):
    scope = ("queued",)
    db.enqueue(queue="other", unique_key="k", unique_scope=scope)
    db.enqueue(train="t")
    car = db.enqueue(train="t", unique_key="k", unique_scope=scope).id
    migrate(db, 1)
    assert rows(db)[car] == "canceled"


def test_plain_jobs_of_version_one_run_on_after_the_migration(db):
    queued = db.enqueue_ids(3)
    running = db.start(queue="running")
    scheduled = db.enqueue(delay_ms=60_000).id
    migrate(db, 1)
    migrate(db)
    assert db.drain() == queued
    db.finish(running)
    db.advance("2m")
    db.promote()
    assert db.drain() == [scheduled]


def test_down_to_version_two_ends_machines_and_nothing_else(db, make):
    """What begins anew at its first step would have its effects twice."""
    waiting = db.parked("paid", queue="shop")
    db.signal(waiting, "other")
    parent = db.begin(queue="shop")
    (child,) = db.spawn(parent, make.job(queue="kids"))
    machines = [waiting, parent.id, db.machine(), db.machine(delay_ms=60_000), db.begin(queue="running").id]
    done = db.begin(queue="shop")
    db.turn(done, "done")
    plain = db.enqueue(queue="plain").id
    migrate(db, 2)
    assert rows(db) == {
        **dict.fromkeys(machines, "canceled"),
        done.id: "succeeded",
        child: "queued",
        plain: "queued",
    }
    migrate(db)
    assert (db.drain("kids"), db.drain("plain")) == ([child], [plain])
    assert db.signals(waiting) == []


def test_down_to_nothing_and_up_leaves_an_empty_database(busy):
    migrate(busy, 0)
    assert migrate(busy)[0] == "migrate up to version 1"
    assert busy.find() == []
