"""Migrations with work in the tables: down removes all of it, and up again begins with an empty database."""

from __future__ import annotations

import pytest

from headway.model.ids import new_id
from headway.store.migrate import latest
from headway.store.ops import Op


def migrate(db, to=None):
    db.store.close()
    if db.dialect == "sqlite":
        return db.store.migrate(to)
    from headway.store.postgres.engine.migrate import migrate as steps

    done = db.store.run_script(Op(lambda: steps(to), writes=True))
    if to is None:
        db.advance("1s")  # the functions are new ones: hold the clock again
    return done


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


def test_down_to_nothing_and_up_leaves_an_empty_database(busy):
    migrate(busy, 0)
    assert migrate(busy)[0] == f"migrate up to version {latest(busy.store)}"
    assert busy.find() == []
    assert busy.status(busy.enqueue().id) == "queued"


def test_steps_go_down_to_version_1_and_up_again_with_all_jobs(busy):
    before = [(job.id, job.status) for job in busy.find()]
    migrate(busy, 1)
    assert migrate(busy)[0] == "migrate up to version 10: record of steps"
    assert migrate(busy) == []
    assert [(job.id, job.status) for job in busy.find()] == before


def test_machines_that_were_queued_before_they_were_woken_wait_again(db, make):
    """As an older library left cars that were canceled while they waited, and retried."""
    awaiting, woken = db.parked("paid", deadline_ms=60_000), db.parked("paid")
    joining = db.begin(partition="p")
    db.spawn(joining, make.job(queue="kids"))
    child = db.take(queue="kids")
    db.signal(woken, "paid")
    db.process_arrivals()
    before = {job.id: job for job in db.find()}
    migrate(db, 1)
    db.sql("update {jobs} set status = 'queued' where status = 'waiting'")
    db.sql("update {jobs} set limited_by = 'p:x' where id = ?", joining.id)
    migrate(db)
    assert {job.id: job for job in db.find()} == before
    assert [claim.id for claim in db.claim()] == [woken]
    db.signal(awaiting, "paid")
    db.finish(child)
    assert {claim.id for claim in db.claim()} == {awaiting, joining.id}
