"""One row that somebody wrote by hand, and that nobody can read or end, does not stop the others."""

from __future__ import annotations

from contextlib import closing, suppress

import apsw
import psycopg
import pytest

from headway.errors import StoreError
from tests.store.machines.machine_calls import new_machine

UNREADABLE = {
    "number": '{"a": 1e999}',
    "surrogate": '{"a": "\\ud800"}',
    "deep": '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}",
}
REFUSED = (psycopg.errors.CheckViolation, apsw.ConstraintError)
BAD_JSON = pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)


def says_why(value: object) -> bool:
    return isinstance(value, str) and value.startswith("unreadable: ") and "cannot be read" in value


@BAD_JSON
@pytest.mark.parametrize("column", ["payload", "result", "meta", "state"])
def test_a_value_that_cannot_be_read_is_shown_as_such_in_its_list(db, column, text):
    bad, good = db.enqueue_ids(2)
    db.sql(f"update {{jobs}} set {column} = ? where id = ?", text, bad)
    found = {job.id: job for job in db.find()}
    assert says_why(getattr(found[bad], column))
    assert says_why(getattr(db.job(bad), column))
    assert found[good] == db.job(good)
    outcomes = db.run(db.ops.results([bad, good], tenant_id=None))
    assert outcomes.keys() == {bad, good}


@BAD_JSON
def test_an_attempt_whose_state_cannot_be_read_is_shown_with_the_others(db, text):
    claim = db.start()
    db.finish(claim)
    other = db.start()
    db.finish(other)
    tenant = "tenant_id, " if db.dialect == "postgres" else ""
    db.sql("delete from {attempts} where job_id = ?", claim.id)
    db.sql(
        f"insert into {{attempts}} (job_id, {tenant}fence, status, started_at, finished_at, state)"
        f" select ?, {tenant}fence, status, started_at, finished_at, ? from {{attempts}} where job_id = ?",
        *(claim.id, text, other.id),
    )
    (attempt,) = db.attempts(claim.id)
    assert says_why(attempt.state)


@BAD_JSON
def test_a_signal_that_cannot_be_read_is_shown_with_the_others(db, make, text):
    machine = make.machine()
    db.enqueue_all([machine])
    for name in ("one", "two"):
        db.signal(machine.id, name)
    db.sql("update {signals} set payload = ? where name = 'one'", text)
    one, two = db.signals(machine.id)
    assert says_why(one.payload)
    assert two.payload is None


@BAD_JSON
def test_jobs_are_claimed_beside_one_that_cannot_be_read(db, text):
    ids = db.enqueue_ids(3)
    machine = new_machine()
    db.enqueue_all([machine])
    db.signal(machine.id, "go")
    db.sql("update {jobs} set payload = ? where id = ?", text, ids[1])
    db.sql("update {signals} set payload = ?", text)
    claims = {claim.id: claim for claim in db.claim()}
    assert claims.keys() == {*ids, machine.id}
    assert claims[ids[1]].payload == text


TIMES = {
    "postgres": [
        "infinity",
        "-infinity",
        "0001-01-01 00:00:00+14",
        "0044-03-15 00:00:00+00 BC",
        "12000-01-01 00:00:00+00",
    ],
    "sqlite": [2**62, -(2**62)],
}


@pytest.mark.parametrize("column", ["created_at", "started_at", "finished_at", "queued_at"])
def test_a_time_that_no_datetime_can_hold_is_shown_as_the_first_or_the_last(db, column):
    job_id, other = db.enqueue_ids(2)
    for time in TIMES[db.dialect]:
        db.sql(f"update {{jobs}} set {column} = ? where id = ?", time, job_id)
        found = {job.id: job for job in db.find()}
        assert getattr(found[job_id], column).year in (1, 9999)
        assert getattr(db.job(job_id), column).astimezone().isoformat()
        assert found[other] == db.job(other)


def unchecked(db, statement: str, *params) -> None:
    """As a restored dump, or somebody who has switched the checks off, may write it."""
    if db.dialect == "postgres":
        db.sql("alter table {jobs} disable trigger user")
        db.sql(statement, *params)
        db.sql("alter table {jobs} enable trigger user")
    else:
        with closing(db.connect()) as conn:
            conn.execute("pragma ignore_check_constraints = on")
            list(conn.execute(statement.format(jobs="jobs"), params))


@pytest.mark.parametrize("missing", ["worker_id", "attempt_started_at", "both"])
def test_a_job_that_is_running_without_worker_or_start_is_lost_like_any_other(db, missing):
    worker = db.worker(lease_ms=1_000)
    bad, other = db.enqueue_ids(2)
    assert len(db.claim(worker)) == 2
    columns = ("worker_id", "attempt_started_at") if missing == "both" else (missing,)
    unchecked(db, f"update {{jobs}} set {', '.join(f'{column} = null' for column in columns)} where id = ?", bad)
    db.advance("2s")
    assert {(each.job_id, each.to, each.fault) for each in db.reap()} == {
        (bad, "scheduled", None),
        (other, "scheduled", None),
    }
    assert [attempt.status for attempt in db.attempts(bad)] == ["lost"]
    db.advance("1h")
    db.promote()
    assert {claim.id for claim in db.claim()} == {bad, other}
    assert db.workers().keys() == {db.home()}


def refuse(db, verb: str, job_id: str) -> None:
    """Make the database refuse any change of this job, as somebody's own constraint may."""
    if db.dialect == "postgres":
        db.sql(
            "create function refuse() returns trigger language plpgsql as "
            f"$$ begin if old.id = '{job_id}' then raise 'not this one'; end if; return coalesce(new, old); end $$"
        )
        db.sql(f"create trigger refuse before {verb} on {{jobs}} for each row execute function refuse()")
    else:
        db.sql(
            f"create trigger refuse before {verb} on jobs when old.id = '{job_id}'"
            " begin select raise(abort, 'not this one'); end"
        )


def test_a_lost_job_that_cannot_be_ended_is_named_and_stops_no_other(db):
    worker = db.worker(lease_ms=1_000)
    bad, *others = db.enqueue_ids(4)
    db.claim(worker)
    refuse(db, "update", bad)
    db.advance("2s")
    reaped = {each.job_id: each for each in db.reap()}
    assert reaped.keys() == {bad, *others}
    assert reaped[bad].to is None
    assert "not this one" in reaped[bad].fault
    assert [reaped[job_id].to for job_id in others] == ["scheduled"] * 3
    assert db.status(bad) == "running"


def test_a_job_that_cannot_be_queued_or_ended_stops_no_other(db, make):
    due = [db.enqueue(scheduled_for=db.after(1)).id for _ in range(3)]
    late = [db.enqueue(expires_at=db.after(1)).id for _ in range(3)]
    for bad in (due[0], late[0]):
        if db.dialect == "sqlite":
            db.sql("drop trigger if exists refuse")
        else:
            db.sql("drop function if exists refuse cascade")
        refuse(db, "update", bad)
        db.advance("1s")
        db.promote()
    assert {db.status(job_id) for job_id in due[1:]} == {"queued"}
    assert {db.status(job_id) for job_id in late[1:]} == {"canceled"}


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_an_old_job_that_cannot_be_deleted_stops_no_other(db):
    claims = [db.start() for _ in range(3)]
    db.finish(*claims)
    refuse(db, "delete", claims[0].id)
    db.advance("1h")
    assert db.prune("succeeded", older_than_ms=1_000) == 2
    assert [job.id for job in db.find()] == [claims[0].id]


def test_a_machine_that_cannot_be_woken_stops_no_other(db):
    bad, *others = [db.parked("go") for _ in range(3)]
    refuse(db, "update", bad)
    for job_id in (bad, *others):
        with suppress(StoreError):  # on SQLite it is the sender who wakes it
            db.signal(job_id, "go")
    assert {claim.id for claim in db.claim()} == set(others)
    assert db.status(bad) == "waiting"


# what is refused when it comes in


@pytest.mark.parametrize("missing", ["worker_id", "attempt_started_at"])
def test_what_is_running_has_a_worker_and_a_start(db, missing):
    claim = db.start()
    with pytest.raises(REFUSED):
        db.sql(f"update {{jobs}} set {missing} = null where id = ?", claim.id)
    db.finish(claim)


@pytest.mark.parametrize("column", ["scheduled_for", "expires_at", "deadline_at"])
def test_a_time_of_a_job_is_from_1970_to_9000(db, column):
    job_id = db.enqueue().id
    times = {
        "postgres": ["infinity", "-infinity", "1969-12-31 23:59:59+00", "9000-01-01 00:00:01+00", "0044-03-15 BC"],
        "sqlite": [-1, 221_845_392_000_000_001],
    }
    for time in times[db.dialect]:
        with pytest.raises(REFUSED):
            db.sql(f"update {{jobs}} set {column} = ? where id = ?", time, job_id)


CALLS = {
    "enqueue": "select headway.enqueue('mail', %s)",
    "enqueue meta": "select headway.enqueue('mail', meta => %s)",
    "enqueue state": "select headway.enqueue('mail', state => %s)",
    "enqueue_many": "select headway.enqueue_many(array[headway.uuid7()], '{mail}', p_payloads => array[%s::json])",
    "signal": "select headway.signal((select id from headway.jobs), 'go', %s)",
    "emit": "select headway.emit('paid', %s)",
    "change": "select headway.change((select id from headway.jobs), json_build_object('payload', %s::json))",
}


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("call", CALLS)
def test_what_could_not_be_read_does_not_come_in_by_sql(db, call):
    """On SQLite nothing comes in but by the library, which looks at everything."""
    machine = db.machine()
    large = '"' + "x" * 2**20 + '"'
    texts = [*UNREADABLE.values(), '{"a": "\\u0000"}', '{"a": -1e999}']
    for text in texts if call == "change" else [*texts, large]:
        with closing(db.connect()) as conn, pytest.raises(psycopg.Error) as refusal:
            conn.execute(CALLS[call], (text,))
        assert refusal.value.sqlstate in ("HW004", "22P05", "22P02"), text
    with closing(db.connect()) as conn:
        conn.execute(CALLS[call], ('{"a": ["b", 1.5e300, "\\u00e9"]}',))
    assert db.job(machine).id == machine
