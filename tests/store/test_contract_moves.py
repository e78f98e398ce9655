"""Only the moves of model/status.py exist: the stores refuse any other, also behind the library's back."""

from __future__ import annotations

import pytest

from headway.model.ids import new_id
from headway.model.status import MOVES, STATUSES


@pytest.fixture
def raw(db):
    """Move a job by a raw update: from a status it was put in by a raw insert's equivalent."""
    job_id = db.enqueue().id
    worker = new_id()
    path = {
        "queued": (),
        "scheduled": ("scheduled",),
        "running": ("running",),
        "waiting": ("running", "waiting"),
        "succeeded": ("running", "succeeded"),
        "failed": ("running", "failed"),
        "dead": ("running", "dead"),
        "canceled": ("canceled",),
    }

    def move(to: str) -> None:
        # with everything that a row in that status may be required to have
        worker_id, start = (f"'{worker}'", "created_at") if to == "running" else ("null", "null")
        finished = "created_at" if to in ("succeeded", "failed", "dead", "canceled") else "null"
        due = "created_at" if to == "scheduled" else "scheduled_for"
        db.sql(
            f"update {{jobs}} set status = '{to}', worker_id = {worker_id}, attempt_started_at = {start},"
            f" finished_at = {finished}, scheduled_for = {due}, fence = fence + 1 where id = '{job_id}'"
        )

    def prepare(status: str) -> None:
        for to in path[status]:
            move(to)

    move.prepare = prepare
    move.job_id = job_id
    return move


@pytest.mark.parametrize("start", sorted(set(STATUSES) - {"held"}))
def test_the_store_allows_exactly_the_moves_of_the_model(db, raw, start):
    raw.prepare(start)
    conn = db.connect()
    allowed = set()
    for to in STATUSES:
        if to == start:
            continue
        try:
            raw(to)
        except Exception as error:
            assert "cannot go" in str(error) or "move" in str(error), (start, to, error)
        else:
            allowed.add(to)
            raw_reset(db, raw.job_id, start)
    conn.close()
    assert allowed == {to for origin, to in MOVES if origin == start}


def raw_reset(db, job_id: str, status: str) -> None:
    """Put the row back past the trigger."""
    text = f"update {{jobs}} set status = '{status}' where id = '{job_id}'"
    if db.dialect == "postgres":
        db.sql("do $$ begin set local session_replication_role = replica; " + text + "; end $$")
    else:
        triggers = db.sql("select name, sql from sqlite_schema where type = 'trigger' and tbl_name = 'jobs'")
        for name, _ in triggers:
            db.sql(f"drop trigger {name}")
        db.sql(text)
        for _, sql in triggers:
            db.connect().execute(sql)


def test_held_jobs_move_as_the_model_says(db, raw):
    allowed = set()
    for to in STATUSES:
        if to == "held":
            continue
        raw_reset(db, raw.job_id, "held")
        try:
            raw(to)
        except Exception:
            continue
        allowed.add(to)
    assert allowed == {to for origin, to in MOVES if origin == "held"}


def test_a_status_that_does_not_exist_is_refused(db):
    db.enqueue()
    with pytest.raises(Exception, match=r"(?i)check|constraint|cannot|move"):
        db.sql("update {jobs} set status = 'lost'")
    assert db.find()[0].status == "queued"


def test_a_refused_move_changes_nothing(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    before = db.job(claim.id)
    with pytest.raises(Exception, match=r"(?i)cannot|move"):
        db.sql("update {jobs} set status = 'running', priority = 1")
    assert db.job(claim.id) == before


def test_a_row_that_keeps_its_status_may_change(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    db.sql("update {jobs} set status = 'succeeded', priority = 3")
    assert db.job(claim.id).priority == 3
