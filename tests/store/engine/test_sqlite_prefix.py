"""Tables under a prefix: every statement finds them, and nothing of the application's own is touched."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

import headway
from headway import Headway
from headway.errors import ConfigError, StoreError
from headway.store.sqlite.engine import migrate
from headway.store.sqlite.engine.connection import connect
from headway.store.sqlite.engine.prefix import _made, prefixed, renamed
from headway.store.sqlite.engine.statements import ROOT, statements
from headway.store.sqlite.jobs.insert import _INSERTS
from headway.testing import drain

PREFIX = "headway_"
TEXTS = {
    f"{path.parent.name}/{path.stem}.{name}": text
    for path in sorted(ROOT.glob("*/*.sql"))
    for name, text in statements(f"{path.parent.name}/{path.stem}").items()
} | {f"of_rows.{name}": text for name, text in _INSERTS.items()}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with nothing but tables of that prefix."""
    path = tmp_path_factory.mktemp("prefix") / "app.db"
    with closing(connect(str(path), "stdlib")) as conn:
        migrate.migrate(prefixed(conn, PREFIX))
    return path


def test_everything_that_the_schema_makes_has_the_prefix(file: Path) -> None:
    with closing(sqlite3.connect(file)) as conn:
        names = {name for (name,) in conn.execute("select name from sqlite_master where name not like 'sqlite_%'")}
    assert names == {PREFIX + name for name in _made()}


def test_every_statement_finds_its_tables(file: Path) -> None:
    """There is no other table in the file: a name that was left as it is would not be found."""
    faults = []
    with closing(sqlite3.connect(file)) as conn:
        conn.text_factory = bytes
        for name, text in TEXTS.items():
            sql = renamed(text, PREFIX)
            if sql.startswith(("create", "drop")):
                continue
            count = max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)
            try:
                conn.execute(f"explain {sql}", [None] * count).fetchall()
            except sqlite3.Error as error:
                faults.append(f"{name}: {error}")
    assert not faults, "\n".join(faults)


def test_every_table_is_looked_for_among_those_of_the_application() -> None:
    named = re.findall(r"'(\w+)'", TEXTS["engine/migrate.strangers"])
    assert set(named) - {"table", "view"} == {name for name, what in _made().items() if what == "table"}


def test_no_common_table_expression_is_named_as_a_table() -> None:
    for text in TEXTS.values():
        named = re.findall(r"(?:with(?: recursive)?|\),) (\w+) (?:\([^)]*\) )?as (?:materialized )?\(", text)
        assert not set(named) & set(_made())


def test_what_is_renamed() -> None:
    for plain, with_prefix in {
        "select jobs.id from jobs where id = ?1": "select jobs.id from h_jobs as jobs where id = ?1",
        "select 1 from jobs as j indexed by jobs_prune": "select 1 from h_jobs as j indexed by h_jobs_prune",
        "update or ignore jobs set queue = 'queues'": "update or ignore h_jobs as jobs set queue = 'h_queues'",
        "select queues from workers order by queues": "select queues from h_workers as workers order by queues",
        "delete from jobs where 'it''s from jobs'": "delete from h_jobs as jobs where 'it''s from jobs'",
        "drop table jobs": "drop table h_jobs",
        "select value from json_each(?1)": "select value from json_each(?1)",
    }.items():
        assert renamed(plain, "h_") == with_prefix


@pytest.fixture(params=["sqlite", "sqlite+stdlib"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """An application's file, with tables that are called as ours."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(
            "create table jobs (title text); insert into jobs values ('plumber');"
            "create table events (at text); create table schema_version (version integer primary key);"
            "insert into schema_version values (41);"
        )
    return path


def own(path: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute("select title from jobs").fetchall()


def test_an_app_shares_a_file_that_has_tables_of_the_same_names(shared: Path, scheme: str) -> None:
    with pytest.raises(StoreError, match=r"\(events, jobs, schema_version\).*\?prefix=headway_"):
        Headway(f"{scheme}:///{shared}").enqueue("work")
    app = Headway(f"{scheme}:///{shared}?prefix=headway_")
    ran: list[int] = []

    @app.job(partition=lambda n: "p")
    def work(n: int) -> int:
        ran.append(n)
        return n

    jobs = [work.using(train="t").enqueue(n=n) for n in range(3)]
    assert drain(app).succeeded == 3
    assert ran == [0, 1, 2]
    assert app.result(jobs[2].id).value == 2
    assert app.counts() == {"succeeded": 3}
    assert app.migrate() == []
    assert app.migrate(0)
    app.close()
    assert own(shared) == [("plumber",)]
    with closing(sqlite3.connect(shared)) as conn:
        left = {name for (name,) in conn.execute("select name from sqlite_master where type = 'table'")}
    assert left == {"jobs", "events", "schema_version"}


def test_two_prefixes_of_one_file_are_two_stores(tmp_path: Path, scheme: str) -> None:
    first, second = (Headway(f"{scheme}:///{tmp_path}/app.db?prefix={prefix}") for prefix in ("a_", "b_"))
    first.enqueue("work")
    assert (first.counts(), second.counts()) == ({"queued": 1}, {})
    first.close()
    second.close()


def test_a_job_commits_with_the_applications_own_row(shared: Path) -> None:
    app = Headway(f"sqlite+stdlib:///{shared}?prefix=headway_")
    with closing(sqlite3.connect(shared, timeout=10)) as conn:
        conn.execute("pragma journal_mode = wal")
        assert headway.migrate(conn, prefix="headway_")
        conn.commit()
        for ends, commits in ((conn.rollback, False), (conn.commit, True)):
            conn.execute("insert into jobs values ('baker')")
            app.enqueue("work", conn=conn)
            ends()
            assert sum(app.counts().values()) == commits
    assert own(shared) == [("plumber",), ("baker",)]
    app.close()
    engine = sa.create_engine(f"sqlite:///{shared}")
    with engine.begin() as bind:
        assert headway.migrate(bind, prefix="headway_") == []
    engine.dispose()


@pytest.mark.parametrize("prefix", ["Headway_", "a-", "1_", "x" * 33, "sqlite_", "a b", "a;drop", "é"])
def test_a_prefix_is_a_name(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(ConfigError, match="cannot begin the name of a table"):
        Headway(f"sqlite:///{tmp_path}/app.db?prefix={prefix}").counts()
    with closing(sqlite3.connect(tmp_path / "app.db")) as conn, pytest.raises(ConfigError, match="cannot begin"):
        headway.migrate(conn, prefix=prefix)


def test_a_prefix_is_for_sqlite(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as conn, pytest.raises(ConfigError, match="a schema of its own"):
        headway.migrate(conn, prefix="headway_")
