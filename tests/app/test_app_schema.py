"""The schema: made by the host's own migrations, and refused with the way out where it is not this library's."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import apsw
import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as aio

import headway
from headway import Headway
from headway.errors import ConfigError, SchemaMissing, SchemaOutdated
from headway.store.postgres import store as postgres_store
from headway.store.postgres.engine import migrate as postgres_migrate
from headway.store.sqlite.engine import migrate as sqlite_migrate
from headway.testing import drain
from tests.connection_libraries import Django, alchemy_url, django_postgres, django_sqlite


def works(app: Headway) -> bool:
    @app.job
    def work() -> None: ...

    work.enqueue()
    done = drain(app).succeeded
    app.close()
    return done == 1


def test_migrate_in_a_psycopg_transaction(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as conn:
        assert headway.migrate(conn)
        conn.rollback()
    app = Headway(postgres_url)
    with pytest.raises(SchemaMissing, match=r"has no Headway schema.*headway .*migrate"):
        app.enqueue("work")
    with psycopg.connect(postgres_url) as conn:
        assert headway.migrate(conn)
        assert headway.migrate(conn) == []  # again: nothing to do
    assert works(app)


def test_migrate_as_alembic_does(postgres_url: str) -> None:
    engine = sa.create_engine(alchemy_url(postgres_url, "psycopg"))
    with engine.begin() as bind:  # op.get_bind()
        assert headway.migrate(bind)
    with orm.Session(engine) as session:
        assert headway.migrate(session) == []
    engine.dispose()
    assert works(Headway(postgres_url))


def test_migrate_as_django_does(postgres_url: str, tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    for database, url in [
        (django_postgres(postgres_url), postgres_url),
        (django_sqlite(path), f"sqlite+stdlib:///{path}"),
    ]:
        user = Django(database)
        user.commit()
        with user.conn.schema_editor() as schema_editor:
            assert headway.migrate(schema_editor.connection)
        user.close()
        assert works(Headway(url))


def test_migrate_a_sqlite_file_by_either_library(tmp_path: Path) -> None:
    def by_alchemy(path: str) -> None:
        engine = sa.create_engine(f"sqlite:///{path}")
        with engine.begin() as bind:
            assert headway.migrate(bind)
        engine.dispose()

    def by_sqlite3(path: str) -> None:
        with closing(sqlite3.connect(path)) as conn:
            assert headway.migrate(conn)
            conn.rollback()
            assert headway.migrate(conn)
            assert headway.migrate(conn) == []
            conn.commit()

    def by_apsw(path: str) -> None:
        with closing(apsw.Connection(path)) as conn:
            conn.execute("begin")
            assert headway.migrate(conn)
            conn.execute("rollback")
            assert headway.migrate(conn)  # outside of a transaction: one of its own

    ways: dict[str, tuple[str, Callable[[str], None]]] = {
        "sqlalchemy": ("sqlite+stdlib", by_alchemy),
        "sqlite3": ("sqlite+stdlib", by_sqlite3),
        "apsw": ("sqlite", by_apsw),
    }
    for name, (scheme, migrate) in ways.items():
        path = str(tmp_path / f"{name}.db")
        migrate(path)
        assert works(Headway(f"{scheme}:///{path}"))


def test_migrate_on_an_async_connection(databases: Any, tmp_path: Path) -> None:
    async def by_asyncpg(url: str) -> None:
        conn = await asyncpg.connect(url)
        try:
            with pytest.raises(ConfigError, match="amigrate"):
                headway.migrate(conn)
            transaction = conn.transaction()
            await transaction.start()
            assert await headway.amigrate(conn)
            await transaction.rollback()
            assert await headway.amigrate(conn)  # outside of a transaction: one of its own
            assert await headway.amigrate(conn) == []
        finally:
            await conn.close()

    async def by_psycopg(url: str) -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            assert await headway.amigrate(conn)

    async def by_alchemy(url: str) -> None:
        engine = aio.create_async_engine(alchemy_url(url, "asyncpg"))
        async with engine.connect() as conn:
            assert await conn.run_sync(headway.migrate)  # as Alembic's async template does
            await conn.rollback()
            assert await headway.amigrate(conn)
            await conn.commit()
        async with aio.AsyncSession(engine) as session:
            assert await session.run_sync(headway.migrate) == []
            assert await headway.amigrate(session) == []
        await engine.dispose()

    async def by_aiosqlite(url: str) -> None:
        async with aiosqlite.connect(url.removeprefix("sqlite+stdlib:///")) as conn:
            assert await headway.amigrate(conn)
            await conn.commit()

    for way in (by_asyncpg, by_psycopg, by_alchemy):
        name = databases.create()
        asyncio.run(way(databases.url(name)))
        assert works(Headway(databases.url(name)))
        databases.drop(name)
    url = f"sqlite+stdlib:///{tmp_path / 'async.db'}"
    asyncio.run(by_aiosqlite(url))
    assert works(Headway(url))


def test_an_app_migrates_its_own_database(postgres_url: str, databases: Any, tmp_path: Path) -> None:
    other = databases.create()
    for first, second in ((postgres_url, databases.url(other)), (f"sqlite:///{tmp_path}/1", f"sqlite:///{tmp_path}/2")):
        app = Headway(first)
        assert app.migrate()
        assert app.migrate() == []
        assert app.migrate(0)
        assert app.migrate()
        assert works(app)
        again = Headway(second)
        assert asyncio.run(again.amigrate())
        assert asyncio.run(again.amigrate()) == []
        assert works(again)
    databases.drop(other)


def test_migrate_takes_only_connections() -> None:
    for wrong in ("sqlite:///x.db", None, object()):
        with pytest.raises(ConfigError, match="conn= cannot be"):
            headway.migrate(wrong)


def record(url: str, version: int) -> None:
    """Say that the schema is of another version."""
    app = Headway(url)
    app.counts()
    app.close()
    if app.store.dialect == "sqlite":
        with closing(apsw.Connection(app.store.describe())) as file:
            file.execute("delete from schema_version where version > max(1, ?)", (version,))
            last = "(select max(version) from schema_version)"
            file.execute(f"update schema_version set version = ? where version = {last}", (version,))
    else:
        with psycopg.connect(url) as conn:
            conn.execute(f"comment on table headway.jobs is 'headway schema version {version}'")


async def aenqueue(app: Headway) -> None:
    try:
        await app.aenqueue("work")
    finally:
        await app.aclose()


ACTS: dict[str, Callable[[Headway], Any]] = {
    "enqueue": lambda app: app.enqueue("work"),
    "aenqueue": lambda app: asyncio.run(aenqueue(app)),
    "get": lambda app: app.jobs(),
    "run": lambda app: app.run(until_idle=True),
}


def test_a_newer_schema_is_refused(url: str, app: Headway) -> None:
    record(url, 99)
    for act in ACTS.values():
        with pytest.raises(SchemaOutdated, match=r"has schema version 99, .*newer .*upgrade"):
            act(app)


def test_an_older_schema_is_refused_with_the_command(url: str, app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    record(url, 1)
    for module in (sqlite_migrate, postgres_migrate, postgres_store):
        monkeypatch.setattr(module, "VERSION", 2)  # as if this library were the next one
    for act in ACTS.values():
        with pytest.raises(SchemaOutdated, match=r"has schema version 1, .*needs \d+: .*run:? headway .*migrate"):
            act(app)
