"""What `conn=` refuses, in words that help, and how it maps colours, placeholders and errors."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sa_async

from headway import errors
from headway.store.foreign import postgres_session, sqlite_session
from headway.store.foreign.placeholders import render
from headway.store.ops import Statement
from headway.store.run import adrive
from headway.store.sqlstate import from_sqlstate
from tests.connection_libraries import (
    POSTGRES_USERS,
    AlchemyAsyncConnection,
    AlchemySession,
    Asyncpg,
    AsyncUser,
    Django,
    Psycopg,
    PsycopgAsync,
    Steps,
    User,
    alchemy_url,
    django_postgres,
    django_sqlite,
    on_file,
)
from tests.store.foreign.stand_in_schema import enqueue, insert, kinds_in, orders_in


def test_an_async_connection_is_refused_by_a_blocking_call(
    postgres_user: User,
) -> None:
    session = postgres_session(postgres_user.conn)
    assert session.is_async is isinstance(postgres_user, AsyncUser)
    if session.is_async:
        with pytest.raises(errors.ConfigError, match="aenqueue"), session:
            pass


def test_an_async_sqlite_connection_is_refused_by_a_blocking_call(sqlite_user: User, file: Path) -> None:
    session = sqlite_user.session(sqlite_user.conn)
    assert session.is_async is isinstance(sqlite_user, AsyncUser)
    if session.is_async:
        with pytest.raises(errors.ConfigError, match="aenqueue"), session:
            pass


@pytest.mark.parametrize("name", ["psycopg", "sqlalchemy session"])
def test_a_blocking_connection_may_be_used_by_an_async_call(
    name: str, database: psycopg.Connection[Any], shared_url: str
) -> None:
    with closing(POSTGRES_USERS[name](shared_url)) as user:

        async def run() -> None:
            async with postgres_session(user.conn) as execute:
                await adrive(enqueue("welcome"), execute)
            with pytest.raises(errors.Duplicate):
                async with postgres_session(user.conn) as execute:
                    await adrive(enqueue("taken"), execute)

        asyncio.run(run())
        user.commit()
        assert kinds_in(database) == ["welcome"]


def test_djangos_connection_in_async_code_is_refused_with_the_way_out(file: Path) -> None:
    async def run() -> None:
        async with sqlite_session(user.conn, library="stdlib", path=str(file)):
            pass

    with closing(Django(django_sqlite(file), on_file(file, "stdlib"))) as user:
        user.commit()
        with pytest.raises(errors.ConfigError, match="sync_to_async"):
            asyncio.run(run())


def test_a_canceled_op_leaves_nothing(database: psycopg.Connection[Any], shared_url: str) -> None:
    def slow() -> Steps:
        yield from enqueue("welcome")
        yield Statement("select pg_sleep($1::float8)", (60.0,))

    def sleeps() -> bool:
        asleep = "select 1 from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
        return database.execute(asleep).fetchone() is not None

    async def cancel(user: AsyncUser) -> None:
        async def op() -> None:
            async with postgres_session(user.conn) as execute:
                await adrive(slow(), execute)

        task = asyncio.create_task(op())
        deadline = time.monotonic() + 60
        while not sleeps() and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for connect in (PsycopgAsync, Asyncpg):
        with closing(connect(shared_url)) as user:
            user.execute("insert into orders values ('first')")
            user.loop.run(cancel(user))
            user.commit()
    assert kinds_in(database) == []
    assert orders_in(database) == ["first", "first"]


def test_a_lost_connection_shows_its_own_error(database: psycopg.Connection[Any], shared_url: str) -> None:
    def cut() -> Steps:
        yield from enqueue("welcome")
        yield Statement("select pg_terminate_backend(pg_backend_pid())")

    user = Psycopg(shared_url)
    with pytest.raises(psycopg.OperationalError) as caught:
        user.do(cut())
    assert "undoing the operation" in caught.value.__notes__[0]
    user.close()
    assert kinds_in(database) == []


def test_what_is_no_connection_is_named_and_answered(file: Path) -> None:
    engine = sa.create_engine("postgresql+psycopg://")
    pool = psycopg_pool.ConnectionPool("", open=False)
    with closing(sqlite3.connect(file)) as conn, closing(conn.cursor()) as cursor:
        for given, answer in [
            ("postgresql://localhost/app", r"a str \(a URL has no transaction"),
            (None, "a NoneType; on PostgreSQL it takes a psycopg"),
            (engine, r"Engine \(an engine has no transaction: pass a connection or session of it\)"),
            (sa_async.create_async_engine("postgresql+asyncpg://"), "an engine has no transaction"),
            (orm.sessionmaker(engine), "pass a session of it"),
            (pool, r"ConnectionPool \(a pool has no transaction: pass a connection of it\)"),
            (cursor, r"sqlite3.Cursor \(pass the cursor's connection\)"),
            (conn, "a sqlite3.Connection; on PostgreSQL it takes a psycopg"),
            (object(), "an object; on PostgreSQL"),
        ]:
            with pytest.raises(errors.ConfigError, match=answer):
                postgres_session(given)
        for given, answer in [
            (str(file), r"a str \(a URL has no transaction"),
            (cursor, "pass the cursor's connection"),
            (engine, "an engine has no transaction"),
            (pool, "on SQLite it takes an apsw"),
        ]:
            with pytest.raises(errors.ConfigError, match=answer):
                sqlite_session(given, library="stdlib", path=str(file))


def test_a_connection_to_the_other_database_is_refused(
    database: psycopg.Connection[Any], shared_url: str, file: Path
) -> None:
    for user in (
        AlchemySession(f"sqlite:///{file}"),
        AlchemyAsyncConnection(f"sqlite+aiosqlite:///{file}"),
        Django(django_sqlite(file)),
    ):
        with pytest.raises(errors.ConfigError, match="to sqlite, but this app keeps its jobs in PostgreSQL"):
            user.do(enqueue("welcome"))
        user.close()
    for user in (
        AlchemySession(alchemy_url(shared_url, "psycopg"), on_file(file, "stdlib")),
        Django(django_postgres(shared_url), on_file(file, "stdlib")),
    ):
        with pytest.raises(errors.ConfigError, match="to postgresql, but this app keeps its jobs in a SQLite file"):
            user.do(insert("welcome", "invoice"))
        user.close()


def test_a_session_with_several_engines_is_asked_for_its_connection(file: Path) -> None:
    with (
        orm.Session(binds={}) as session,
        pytest.raises(errors.ConfigError, match=r"session\.connection\("),
        postgres_session(session),
    ):
        pass


def test_no_library_is_imported_before_a_connection_of_it_comes() -> None:
    code = (
        "import sys, headway.store.foreign as f, headway.errors as e\n"
        "for session in (f.postgres_session, lambda c: f.sqlite_session(c, library='stdlib', path='x')):\n"
        "    try: session('nothing')\n"
        "    except e.ConfigError: pass\n"
        "names = 'psycopg asyncpg sqlalchemy django aiosqlite'\n"
        "print([n for n in names.split() if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("paramstyle", "sql", "params"),
    [
        ("format", "f(%s, %s, %s) %% 2", (7, None, 7)),
        ("pyformat", "f(%(p1)s, %(p2)s, %(p1)s) %% 2", {"p1": 7, "p2": None}),
        ("qmark", "f(?, ?, ?) % 2", (7, None, 7)),
        ("named", "f(:p1, :p2, :p1) % 2", {"p1": 7, "p2": None}),
        ("numeric", "f(:1, :2, :1) % 2", (7, None)),
        ("numeric_dollar", "f($1, $2, $1) % 2", (7, None)),
    ],
)
def test_placeholders_follow_the_drivers_style(paramstyle: str, sql: str, params: Any) -> None:
    assert render("f($1, $2, $1) % 2", (7, None), paramstyle) == (sql, params)
    assert render("f(?1, ?2, ?1) % 2", (7, None), paramstyle) == (sql, params)


def test_sqlstates_become_our_errors() -> None:
    job_id = "0198c0de-0000-7000-8000-00000000abcd"
    for message, detail in [
        ("taken", job_id),
        (f"taken job_id={job_id}", None),
        (f"taken (job_id={job_id})", ""),
    ]:
        error = from_sqlstate("HW001", message, detail)
        assert isinstance(error, errors.Duplicate)
        assert (str(error), error.job_id) == ("taken", job_id)
    unknown = from_sqlstate("HW001", "taken", None)
    assert isinstance(unknown, errors.Duplicate)
    assert unknown.job_id is None
    for code, kind in [
        ("HW002", errors.LeaseLost),
        ("HW003", errors.NotAllowed),
        ("HW004", errors.InvalidJob),
    ]:
        error = from_sqlstate(code, f"about {code}", "more")
        assert type(error) is kind
        assert str(error) == f"about {code}"
    assert isinstance(from_sqlstate("42P01", 'relation "headway.jobs" does not exist', None), errors.SchemaMissing)
    assert from_sqlstate("42P01", 'relation "orders" does not exist', None) is None
    assert from_sqlstate("23505", "headway", None) is None
    assert from_sqlstate(None, "headway", None) is None
