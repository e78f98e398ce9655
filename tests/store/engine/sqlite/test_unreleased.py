"""A SQLite file of a version before the first release: adopted by migrate if its tables are the same, else refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.errors import SchemaOutdated
from headway.model.job import NewJob
from headway.store import migrate
from headway.store.sqlite import SqliteStore
from headway.store.sqlite.engine import catalogue
from headway.store.sqlite.engine.migrate import VERSION

CHANGES = {
    "a table without a column": "alter table jobs drop column log_end",
    "a column without its default": "pragma writable_schema = on; "
    "update sqlite_master set sql = replace(sql, 'log_end integer', 'log_end text') where name = 'jobs'",
    "a table without a check": "pragma writable_schema = on; "
    "update sqlite_master set sql = replace(sql, \"'deduped', \", '') where name = 'fires'",
    "no index": "drop index jobs_claim",
    "another order in an index": "drop index jobs_group; create index jobs_group on jobs (id, group_id)",
    "no trigger": "drop trigger jobs_moves",
    "no table": "drop table buckets",
    "a column that went": "alter table attempts add column artifacts text",
}
STRANGE = {
    "another column under the name of none": "alter table audit rename column detail to details",
    "no column that every row needs": "alter table attempts drop column started_at",
    "rows in a column that went": "alter table attempts add column artifacts text default 'x'",
}


def age(path: Path, version: int, script: str = "", prefix: str = "") -> None:
    """Make the file one of an unreleased version with the tables of version 1, changed by this script."""
    SqliteStore(str(path), library="stdlib", prefix=prefix).migrate(1)
    with closing(sqlite3.connect(path)) as conn:
        for number in range(2, version + 1):
            conn.execute(f"insert into {prefix}schema_version (version) values (?)", (number,))
        conn.commit()
        conn.executescript(script)
        conn.commit()


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as conn:
        return list(conn.iterdump())


@pytest.fixture(params=["", "headway_"], ids=["plain", "prefixed"])
def store(request: Any, tmp_path: Path) -> Any:
    store = SqliteStore(str(tmp_path / "old.db"), library="stdlib", prefix=request.param)
    yield store
    store.close()


@pytest.fixture
def path(store: SqliteStore) -> Path:
    return Path(store.describe())


@pytest.fixture
def job_id(store: SqliteStore, make: Any) -> str:
    job: NewJob = make.job()
    store.run(store.ops.enqueue([job]))
    store.close()
    return job.id


@pytest.mark.parametrize("version", [2, 9])
def test_the_same_tables_are_adopted_with_their_rows(store: SqliteStore, path: Path, job_id: str, version: int) -> None:
    age(path, version, prefix=store.prefix)
    title = f"adopt the tables of unreleased version {version} as version 1"
    titles = [part.title for part in migrate.plan(store)]
    assert titles[0] == title
    assert store.migrate() == titles
    assert store.migrate() == []
    assert store.run(store.ops.version()) == VERSION
    assert store.run(store.ops.results([job_id], tenant_id=None))[job_id].status == "queued"


def test_tables_that_grew_column_by_column_are_the_same(store: SqliteStore, path: Path, job_id: str) -> None:
    script = f"""
        pragma writable_schema = on;
        update sqlite_master
        set sql = replace(sql, 'name text not null primary key,', '') where name = '{store.prefix}counters';
        update sqlite_master
        set sql = replace(sql, 'value integer not null', 'value integer not null, "name" TEXT not null primary key')
        where name = '{store.prefix}counters';
        pragma writable_schema = off;
    """
    with closing(sqlite3.connect(path)) as conn:
        ((before,),) = conn.execute("select sql from sqlite_master where name = ?", (f"{store.prefix}counters",))
    age(path, 9, script, store.prefix)
    with closing(sqlite3.connect(path)) as conn:
        ((after,),) = conn.execute("select sql from sqlite_master where name = ?", (f"{store.prefix}counters",))
    assert after != before
    assert store.migrate()[0] == "adopt the tables of unreleased version 9 as version 1"


def test_the_script_of_the_plan_adopts_them_too(store: SqliteStore, path: Path, job_id: str) -> None:
    age(path, 9, prefix=store.prefix)
    scripts = [part.script() for part in migrate.plan(store)]
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript("".join(scripts))
    assert store.run(store.ops.results([job_id], tenant_id=None))[job_id].status == "queued"


@pytest.mark.parametrize("version", [1, 7])
@pytest.mark.parametrize("change", CHANGES)
def test_tables_that_differ_are_made_whole(tmp_path: Path, make: Any, change: str, version: int) -> None:
    new = SqliteStore(str(tmp_path / "new.db"), library="stdlib")
    new.migrate()
    store = SqliteStore(str(tmp_path / "old.db"), library="stdlib")
    job = make.job()
    store.run(store.ops.enqueue([job]))
    store.close()
    age(tmp_path / "old.db", version, CHANGES[change])
    assert "make the tables of version 1 whole" in store.migrate()
    assert definitions(tmp_path / "old.db") == definitions(tmp_path / "new.db")
    assert store.run(store.ops.results([job.id], tenant_id=None))[job.id].status == "queued"
    store.close()


def definitions(path: Path) -> dict[str, tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as conn:
        rows = conn.execute("select name, sql from sqlite_master where sql is not null")
        return {name: catalogue.definition(sql) for name, sql in rows}


def test_what_an_application_added_stays(tmp_path: Path, make: Any) -> None:
    """Even on a table that is made anew."""
    path = tmp_path / "old.db"
    store = SqliteStore(str(path), library="stdlib")
    store.run(store.ops.enqueue([make.job()]))
    store.close()
    mine = "alter table jobs add column mine text default 'x'; create index mine on fires (job_id);"
    age(path, 1, mine + CHANGES["a table without a check"])
    store.migrate()
    store.close()
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("select mine from jobs").fetchall() == [("x",)]
        assert conn.execute("select tbl_name from sqlite_master where name = 'mine'").fetchall() == [("fires",)]


@pytest.mark.parametrize("version", [1, 7])
@pytest.mark.parametrize("change", STRANGE)
def test_other_tables_are_refused_and_left_as_they_are(tmp_path: Path, make: Any, change: str, version: int) -> None:
    path = tmp_path / "old.db"
    store = SqliteStore(str(path), library="stdlib")
    store.run(store.ops.enqueue([make.job()]))
    store.close()
    with closing(sqlite3.connect(path)) as conn:
        values = "('a', 1, 'succeeded', 1, 1)"
        conn.execute(f"insert into attempts (job_id, fence, status, started_at, finished_at) values {values}")
        conn.commit()
    age(path, version, STRANGE[change])
    before = contents(path)
    attempts: list[Callable[[], object]] = [store.migrate, lambda: migrate.plan(store), lambda: store.migrate(0)]
    for attempt in attempts:
        with pytest.raises(SchemaOutdated, match=r"its tables are not version 1's.*migrate --to 0.*Nothing"):
            attempt()
    store.close()
    assert contents(path) == before


def test_migrate_says_what_a_schema_of_its_version_lacks(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(str(path), library="stdlib")
    store.run(store.ops.enqueue([make.job()]))
    store.close()
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript("drop index jobs_due; alter table signals drop column created_by;")
    for attempt in (store.migrate, lambda: migrate.plan(store)):
        with pytest.raises(SchemaOutdated, match=r"version 10, but its .*no index jobs_due; signals lacks created_by"):
            attempt()
    store.close()


def test_a_store_says_how_an_unreleased_version_is_adopted(store: SqliteStore, path: Path, job_id: str) -> None:
    age(path, 9, prefix=store.prefix)
    with pytest.raises(
        SchemaOutdated, match=r"version 9 of an unreleased Headway: stop its workers.*headway .*migrate"
    ):
        store.run(store.ops.results([job_id], tenant_id=None))
    with closing(sqlite3.connect(path)) as conn, pytest.raises(SchemaOutdated, match="unreleased"):
        store.run_in(conn, store.ops.results([job_id], tenant_id=None))


def test_a_host_adopts_them_by_its_own_migration(store: SqliteStore, path: Path, job_id: str) -> None:
    age(path, 9, prefix=store.prefix)
    with closing(sqlite3.connect(path)) as conn:
        done = headway.migrate(conn, prefix=store.prefix)
        conn.commit()
    assert done[0] == "adopt the tables of unreleased version 9 as version 1"
    assert store.run(store.ops.results([job_id], tenant_id=None))[job_id].status == "queued"
