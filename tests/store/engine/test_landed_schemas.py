"""Databases that older code made are brought up with all their rows, and today's code runs their work to its end."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.store import migrate
from headway.store.postgres.engine import catalogue as postgres_catalogue
from headway.store.postgres.engine import migrate as postgres_migrate
from headway.store.sqlite import SqliteStore
from headway.store.sqlite.engine import catalogue as sqlite_catalogue
from headway.store.sqlite.engine import migrate as sqlite_migrate
from headway.store.steps import read_steps
from headway.testing import drain
from tests.store.engine.schemas.work import make_app

FOLDER = Path(__file__).parent / "schemas"
NAMES = sorted(path.name.removesuffix(".db.xz") for path in FOLDER.glob("*.db.xz"))
SCRIPTS = json.loads(lzma.decompress((FOLDER / "scripts.json.xz").read_bytes()))


def definitions(path: Path | str) -> dict[str, Any]:
    """A file's catalogue."""
    with closing(sqlite3.connect(path)) as conn:
        rows = conn.execute("select name, sql from sqlite_master where sql is not null")
        return {name: sqlite_catalogue.definition(sql) for name, sql in rows}


def parts(url: str) -> set[str]:
    """A database's catalogue."""
    sql = postgres_catalogue.script("engine/migrations/catalogue.sql")[0]
    with psycopg.connect(url) as conn:
        return {re.sub("[()]", "", part) for (part,) in conn.execute(sql)}


@pytest.fixture
def new_file(tmp_path: Path) -> Path:
    store = SqliteStore(str(tmp_path / "new.db"))
    store.migrate()
    store.close()
    return tmp_path / "new.db"


@pytest.fixture
def old_postgres(databases: Any) -> Iterator[str]:
    """An empty database."""
    name = databases.create()
    yield databases.url(name)
    databases.drop(name)


def unpacked(name: str) -> bytes:
    return lzma.decompress((FOLDER / name).read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_every_landed_schema_is_brought_up_and_finished(name: str, tmp_path: Path, new_file: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(unpacked(f"{name}.db.xz"))
    with closing(sqlite3.connect(path)) as conn:
        before = dict(conn.execute("select id, status from jobs"))
        rows = dict(count_rows(conn, definitions(path)))
    app, kinds = make_app(f"sqlite:///{path}")
    assert app.migrate()
    assert app.migrate() == []
    with closing(sqlite3.connect(path)) as conn:
        assert dict(conn.execute("select id, status from jobs")) == before
        kept = {"schema_version", "schema_steps"}
        assert {table: rows[table] for table in rows if table not in kept} == {
            table: count for table, count in count_rows(conn, definitions(path)) if table in rows and table not in kept
        }
    assert definitions(path) == definitions(new_file)
    finish(app, kinds)


def count_rows(conn: sqlite3.Connection, tables: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for table, parts_of_it in tables.items():
        if parts_of_it[0].startswith("create table"):
            ((count,),) = conn.execute(f"select count(*) from {table}")
            yield table, count


@pytest.mark.parametrize("name", NAMES)
def test_a_dump_of_every_landed_schema_is_brought_up_and_finished(
    name: str, old_postgres: str, postgres_migrated_url: str
) -> None:
    with psycopg.connect(old_postgres, autocommit=True) as conn:
        conn.execute(unpacked(f"{name}.sql.xz"))
    jobs = "select id, status, kind, payload::text, state::text from headway.jobs order by id"
    with psycopg.connect(old_postgres) as conn:
        before = conn.execute(jobs).fetchall()
    app, kinds = make_app(old_postgres)
    assert app.migrate()
    assert app.migrate() == []
    with psycopg.connect(old_postgres) as conn:
        assert conn.execute(jobs).fetchall() == before
    assert parts(old_postgres) == parts(postgres_migrated_url)
    finish(app, kinds)


def finish(app: Headway, kinds: dict[str, Any]) -> None:
    """Run everything that is there, and see that nothing is left."""
    app.store.run(app.store.ops.reap([], limit=100))  # what ran when the schema was kept: its lease is long over
    kinds["order"].signal("unpaid", "paid", {})
    app.resume_train("to_2")
    drain(app, with_scheduled=True)
    drain(app, with_scheduled=True)
    counts = app.counts()
    assert set(counts) == {"succeeded", "dead", "canceled"}, [(job.kind, job.status) for job in app.jobs(limit=100)]
    assert (counts["dead"], counts["canceled"]) == (2, 1)
    results = {job.kind: app.result(job.id).value for job in app.jobs(status="succeeded", limit=100)}
    assert (results["hang"], results["order"]) == ("went on", "closed")
    assert app.get_schedule("nightly").enabled
    assert app.tenant("acme").jobs()[0].status == "succeeded"
    app.close()


# every text that 0001.up.sql ever had, with empty tables


@pytest.mark.parametrize("revision", SCRIPTS["sqlite"])
def test_a_file_of_every_version_1_is_brought_up(revision: str, tmp_path: Path, new_file: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as conn:
        conn.executescript(sqlite_migrate._SQL["table"] + ";" + SCRIPTS["sqlite"][revision])
        conn.execute("insert into schema_version (version) values (1)")
        conn.commit()
    store = SqliteStore(str(tmp_path / "old.db"))
    store.migrate()
    assert migrate.current(store) == sqlite_migrate.VERSION
    store.close()
    found = definitions(tmp_path / "old.db")
    found.pop("transfers", None)  # for two hours, store_transfers was called that
    assert found == definitions(new_file)


def test_a_database_of_every_version_1_is_brought_up(old_postgres: str, postgres_migrated_url: str) -> None:
    whole = parts(postgres_migrated_url)
    for revision, script in SCRIPTS["postgres"].items():
        with psycopg.connect(old_postgres, autocommit=True) as conn:
            conn.execute(script)
            conn.execute("comment on table headway.jobs is 'headway schema version 1 functions 0123'")
            # without the functions, which take most of the time
            with conn.transaction():
                cursor = psycopg.RawCursor(conn)
                assert _steps(cursor)
        assert parts(old_postgres) == whole, revision
        with psycopg.connect(old_postgres, autocommit=True) as conn:
            conn.execute("drop schema headway cascade")


def _steps(cursor: psycopg.RawCursor[Any]) -> bool:
    from headway.store.run import drive

    def execute(request: Any) -> Any:
        cursor.execute(request.sql, request.params or None)
        return cursor.fetchall() if cursor.description else []

    planned = drive(postgres_migrate.plan(), execute)
    for part in planned:
        if part.title != "install the functions":
            drive(postgres_migrate._run(part), execute)
    return bool(planned)


# what has landed stays as it is


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_version_that_is_not_the_newest_has_fixtures(dialect: str) -> None:
    folder = {"sqlite": sqlite_migrate._FOLDER, "postgres": postgres_migrate._FOLDER / "engine/migrations"}[dialect]
    versions = sorted({step.version for step in read_steps(folder)})
    for version in versions[:-1]:
        assert f"version-{version}" in NAMES, f"run: python tools/schema_fixtures.py REVISION version-{version}"
        assert (FOLDER / f"version-{version}.sql.xz").is_file()


def test_steps_that_have_landed_are_what_they_were() -> None:
    listed = json.loads((FOLDER / "landed.json").read_text())
    store = Path(str(postgres_migrate._FOLDER)).parent
    scripts = [path for path in store.glob("*/engine/migrations/**/*.sql") if path.name[:1].isdigit()]
    found = {str(path.relative_to(store)): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in scripts}
    changed = [name for name in listed if found.get(name) != listed[name]]
    assert not changed, f"{changed} have landed and never change: write another step"
    assert found.keys() == listed.keys(), "new steps: run python tools/schema_fixtures.py landed"
