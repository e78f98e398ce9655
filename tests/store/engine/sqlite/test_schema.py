"""The schema in a file: up, down, by script, in a caller's transaction; older and newer ones are refused."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from headway.errors import ConfigError, SchemaOutdated, StoreError
from headway.model.status import MOVES
from headway.store.run import drive
from headway.store.sqlite.engine import catalogue, migrate
from headway.store.sqlite.engine.connection import connect
from headway.store.sqlite.engine.migrate import read_version
from tests.store.engine.sqlite.sqlite_processes import count, enqueue, job


def test_the_moves_of_the_trigger_are_those_of_the_model(store, path, library):
    enqueue(store)
    conn = connect(str(path), library)
    ((text,),) = conn.execute("select sql from sqlite_schema where type = 'trigger' and name = 'jobs_moves'")
    conn.close()
    assert {(a, b) for a, b in re.findall(r";(\w+)>(\w+);", text)} == MOVES


def test_a_move_that_does_not_exist_is_refused(store, path, library):
    (job_id,) = enqueue(store)
    conn = connect(str(path), library)
    with pytest.raises(Exception, match="a job cannot make this move"):
        conn.execute("update jobs set status = 'succeeded', finished_at = 1 where id = ?1", (job_id,))
    conn.close()
    assert store.run(store.ops.results([job_id], tenant_id=None))[job_id].status == "queued"


def test_an_older_schema_is_refused_with_the_command_that_fixes_it(store, path, library, monkeypatch):
    enqueue(store)
    store.close()
    monkeypatch.setattr(migrate, "VERSION", migrate.VERSION + 1)  # as if this library were the next one
    with pytest.raises(SchemaOutdated, match=re.escape(f"headway --url sqlite:///{path} migrate")):
        enqueue(store)
    assert store.run(store.ops.version()) == migrate.VERSION - 1


def test_a_newer_schema_is_refused(store, path, library):
    enqueue(store)
    store.close()
    conn = connect(str(path), library)
    conn.execute("insert into schema_version (version) values (99)")
    conn.close()
    with pytest.raises(SchemaOutdated, match="upgrade the library here"):
        enqueue(store)
    with pytest.raises(SchemaOutdated, match="upgrade the library here"):
        store.migrate()


def test_the_version_is_read_without_making_the_file(store, path):
    assert store.run(store.ops.version()) == 0
    assert not path.exists()
    enqueue(store)
    assert store.run(store.ops.version()) == migrate.VERSION
    assert asyncio.run(store.arun(store.ops.version())) == migrate.VERSION


def test_migrations_go_up_and_down_and_leave_nothing_behind(store, path, library):
    assert store.migrate() == [f"migrate up to version {migrate.VERSION}"]
    assert store.migrate() == []
    enqueue(store)
    store.close()
    down = store.migrate(0)
    assert down[-2:] == ["migrate down from version 10: record of steps", "migrate down from version 1"]
    conn = connect(str(path), library)
    assert conn.execute("select name from sqlite_master where name not like 'sqlite_%'") == []
    conn.close()
    with pytest.raises(ConfigError, match="no schema version 99"):
        store.migrate(99)
    enqueue(store)
    assert count(store) == 1


def test_a_migration_s_script_makes_the_schema_that_the_migration_makes(store, path, tmp_path, library):
    store.migrate()
    by_script = connect(str(tmp_path / "script.db"), library)
    for step in migrate.plan(migrate.NOTHING):
        for sql in catalogue.split(step.script()):
            by_script.execute(sql)
    by_store = connect(str(path), library)
    schema = "select type, name, sql from sqlite_master order by type, name"
    assert by_script.execute(schema) == by_store.execute(schema)
    assert drive(read_version(), by_script.run) == migrate.VERSION
    by_script.close()
    by_store.close()


def test_a_failed_migration_leaves_the_file_as_it_was(store, path, library, monkeypatch):
    whole = migrate.catalogue.script

    def broken(file: str) -> list[str]:
        return [*whole(file), "insert into nowhere values (1)"]

    monkeypatch.setattr(migrate.catalogue, "script", broken)
    with pytest.raises(StoreError, match="was undone"):
        store.migrate()
    monkeypatch.undo()
    assert store.run(store.ops.version()) == 0
    enqueue(store)


def test_a_callers_transaction_makes_the_schema_along_with_its_first_job(store, path, library):
    import sqlite3

    import apsw

    conn = apsw.Connection(str(path)) if library == "apsw" else sqlite3.connect(path, isolation_level=None)
    conn.execute("begin immediate")
    assert store.run_in(conn, store.ops.enqueue([job()]))[0].created
    conn.execute("rollback")
    conn.execute("begin immediate")
    assert store.run_in(conn, store.ops.enqueue([job()]))[0].created
    conn.execute("commit")
    conn.close()
    assert count(store) == 1


def test_a_migration_waits_for_who_writes(store, path, library):
    enqueue(store)
    store.close()
    store.migrate(1)
    other = connect(str(path), library)
    other.execute("begin immediate", ())
    done: list[list[str]] = []
    thread = threading.Thread(target=lambda: done.append(store.migrate()))
    thread.start()
    thread.join(0.3)
    assert done == []
    other.execute("commit", ())
    other.close()
    thread.join(30)
    assert len(done[0]) > 1
