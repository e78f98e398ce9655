"""Only the moves of model/status.py exist: the stores refuse any other, also behind the library's back."""

from __future__ import annotations

import pytest

from headway.model.ids import new_id
from headway.model.status import FINISHED, MOVES, STATUSES

REFUSAL = r"(?i)cannot (go|make)"


def move(db, job_id: str, to: str) -> None:
    """A raw update, with everything that a row in that status may be required to have."""
    worker, start = (f"'{new_id()}'", "created_at") if to == "running" else ("null", "null")
    finished = "created_at" if to in FINISHED else "null"
    due = "created_at" if to == "scheduled" else "scheduled_for"
    db.sql(
        f"update {{jobs}} set status = '{to}', worker_id = {worker}, attempt_started_at = {start},"
        f" finished_at = {finished}, scheduled_for = {due}, fence = fence + 1 where id = '{job_id}'"
    )


def put(db, job_id: str, status: str) -> None:
    """Set a status past the trigger."""
    worker, start = (f"'{new_id()}'", "created_at") if status == "running" else ("null", "null")
    text = (
        f"update {{jobs}} set status = '{status}', worker_id = {worker}, attempt_started_at = {start}"
        f" where id = '{job_id}'"
    )
    if db.dialect == "postgres":
        db.sql("do $$ begin set local session_replication_role = replica; " + text + "; end $$")
        return
    triggers = db.sql("select name, sql from sqlite_schema where type = 'trigger' and tbl_name = ?", db.table("jobs"))
    for name, _ in triggers:
        db.sql(f"drop trigger {name}")
    db.sql(text)
    for _, sql in triggers:
        db.sql(sql)


@pytest.mark.parametrize("start", STATUSES)
def test_the_store_allows_exactly_the_moves_of_the_model(db, start):
    job_id = db.enqueue().id
    for to in STATUSES:
        put(db, job_id, start)
        if to == start or (start, to) in MOVES:
            move(db, job_id, to)
            assert db.status(job_id) == to
        else:
            with pytest.raises(Exception, match=REFUSAL):
                move(db, job_id, to)
            assert db.status(job_id) == start


def test_a_status_that_does_not_exist_is_refused(db):
    db.enqueue()
    with pytest.raises(Exception, match=rf"(?i)check|constraint|{REFUSAL[4:]}"):
        db.sql("update {jobs} set status = 'lost'")
    assert db.find()[0].status == "queued"


def test_a_refused_move_changes_nothing(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    before = db.job(claim.id)
    with pytest.raises(Exception, match=REFUSAL):
        db.sql("update {jobs} set status = 'waiting', priority = 1")
    assert db.job(claim.id) == before


def test_a_row_that_keeps_its_status_may_change(db):
    claim = db.start()
    db.settle(claim, "succeeded")
    db.sql("update {jobs} set status = 'succeeded', priority = 3")
    assert db.job(claim.id).priority == 3
