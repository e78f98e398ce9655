"""Applications with a connection of their own, one for every library that `conn=` takes."""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import aiosqlite
import apsw
import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sa_async

from headway.store.foreign import postgres_session, sqlite_session
from headway.store.ops import Batch, Rows, Statement
from headway.store.run import adrive, drive

Steps = Generator[Statement | Batch, Rows, Any]
Open = Callable[..., Any]


class Boom(Exception):
    """What breaks an op from inside."""


class User:
    """An application with a connection of its own; async ones are driven here: tests have one colour."""

    conn: Any

    def __init__(self, session: Open) -> None:
        self.session = session

    def do(self, steps: Steps, **options: Any) -> Any:
        """Run the op as a store would."""
        with self.session(self.conn, **options) as execute:
            return drive(steps, execute)

    def execute(self, sql: str) -> None:
        self.conn.execute(sql)

    def commit(self) -> None:
        self.conn.commit()

    def rollback(self) -> None:
        self.conn.rollback()

    def close(self) -> None:
        self.conn.close()


class AsyncUser(User):
    def __init__(self, session: Open) -> None:
        super().__init__(session)
        self.loop = asyncio.Runner()

    def do(self, steps: Steps, **options: Any) -> Any:
        async def run() -> Any:
            async with self.session(self.conn, **options) as execute:
                return await adrive(steps, execute)

        return self.loop.run(run())

    def execute(self, sql: str) -> None:
        self.wait(self.conn.execute(sql))

    def commit(self) -> None:
        self.wait(self.conn.commit())

    def rollback(self) -> None:
        self.wait(self.conn.rollback())

    def close(self) -> None:
        self.wait(self.conn.close())
        self.loop.close()

    def wait(self, call: Any) -> Any:
        async def run() -> Any:
            return await call

        return self.loop.run(run())


class Psycopg(User):
    def __init__(self, url: str) -> None:
        super().__init__(postgres_session)
        self.conn = psycopg.connect(url)


class PsycopgWithDicts(User):
    def __init__(self, url: str) -> None:
        super().__init__(postgres_session)
        self.conn = psycopg.connect(url, row_factory=dict_row, cursor_factory=psycopg.ClientCursor)


class PsycopgPool(User):
    def __init__(self, url: str) -> None:
        super().__init__(postgres_session)
        self.pool = psycopg_pool.ConnectionPool(url, min_size=1, open=True)
        self.conn = self.pool.getconn()

    def close(self) -> None:
        self.pool.putconn(self.conn)
        self.pool.close()


class PsycopgAsync(AsyncUser):
    def __init__(self, url: str) -> None:
        super().__init__(postgres_session)
        self.conn = self.wait(psycopg.AsyncConnection.connect(url, row_factory=dict_row))


class Asyncpg(AsyncUser):
    def __init__(self, url: str) -> None:
        super().__init__(postgres_session)
        self.conn = self.wait(asyncpg.connect(url))
        self.execute("begin")

    def commit(self) -> None:
        self.execute("commit")

    def rollback(self) -> None:
        self.execute("rollback")


class AsyncpgPool(AsyncUser):
    def __init__(self, url: str) -> None:
        super().__init__(postgres_session)
        self.pool = self.loop.run(self.open(url))
        self.conn = self.wait(self.pool.acquire())
        self.transaction = self.conn.transaction()
        self.wait(self.transaction.start())

    async def open(self, url: str) -> Any:
        return await asyncpg.create_pool(url, min_size=1, max_size=1)

    def commit(self) -> None:
        self.wait(self.transaction.commit())

    def rollback(self) -> None:
        self.wait(self.transaction.rollback())

    def close(self) -> None:
        self.wait(self.pool.release(self.conn))
        self.wait(self.pool.close())
        self.loop.close()


class AlchemyConnection(User):
    def __init__(self, url: str, session: Open = postgres_session, **options: Any) -> None:
        super().__init__(session)
        self.engine = sa.create_engine(url, **options)
        self.conn = self.open()

    def open(self) -> Any:
        return self.engine.connect()

    def execute(self, sql: str) -> None:
        self.conn.execute(sa.text(sql))

    def close(self) -> None:
        self.conn.close()
        self.engine.dispose()


class AlchemySession(AlchemyConnection):
    def open(self) -> Any:
        return orm.Session(self.engine)


class AlchemyScopedSession(AlchemyConnection):
    def open(self) -> Any:
        return orm.scoped_session(orm.sessionmaker(self.engine))

    def close(self) -> None:
        self.conn.remove()
        self.engine.dispose()


class AlchemyAsyncConnection(AsyncUser):
    def __init__(self, url: str, session: Open = postgres_session, **options: Any) -> None:
        super().__init__(session)
        self.engine = sa_async.create_async_engine(url, **options)
        self.conn = self.loop.run(self.open())

    async def open(self) -> Any:
        return await self.engine.connect()

    def execute(self, sql: str) -> None:
        self.wait(self.conn.execute(sa.text(sql)))

    def close(self) -> None:
        self.wait(self.conn.close())
        self.wait(self.engine.dispose())
        self.loop.close()


class AlchemyAsyncSession(AlchemyAsyncConnection):
    async def open(self) -> Any:
        return sa_async.AsyncSession(self.engine)


class AlchemyAsyncScopedSession(AlchemyAsyncConnection):
    async def open(self) -> Any:
        self.name = object()
        return sa_async.async_scoped_session(sa_async.async_sessionmaker(self.engine), lambda: self.name)


class Django(User):
    """Inside `transaction.atomic()`, with the query log on, which renders every statement once more."""

    def __init__(self, database: dict[str, Any], session: Open = postgres_session) -> None:
        import django
        from django.conf import settings as django_settings
        from django.db import connections, transaction

        super().__init__(session)
        if not django_settings.configured:
            django_settings.configure(USE_TZ=True)
            django.setup()
        connections.settings = connections.configure_settings({"default": {}, "app": database})
        self.conn = connections["app"]
        self.conn.force_debug_cursor = True
        self.transaction = transaction
        self.atomic = transaction.atomic(using="app")
        self.atomic.__enter__()

    def execute(self, sql: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)

    def commit(self) -> None:
        self.atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        self.atomic.__exit__(Boom, Boom(), None)

    def close(self) -> None:
        from django.db import connections

        self.conn.close()
        del connections["app"]
        del connections.settings


class DjangoProxy(Django):
    """`django.db.connection` is a proxy; with autocommit off a transaction needs no atomic block."""

    def __init__(self, database: dict[str, Any], session: Open = postgres_session) -> None:
        from django.db import connections
        from django.utils.connection import ConnectionProxy

        super().__init__(database, session)
        super().commit()
        self.conn.set_autocommit(False)
        self.conn = ConnectionProxy(connections, "app")

    def commit(self) -> None:
        self.conn.commit()

    def rollback(self) -> None:
        self.conn.rollback()


def django_postgres(url: str) -> dict[str, Any]:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "PASSWORD": parts.get("password", ""),
        "HOST": parts.get("host", ""),
        "PORT": parts.get("port", ""),
    }


def alchemy_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


POSTGRES_USERS: dict[str, Callable[[str], User]] = {
    "psycopg": Psycopg,
    "psycopg with dict rows": PsycopgWithDicts,
    "psycopg_pool": PsycopgPool,
    "psycopg async": PsycopgAsync,
    "asyncpg": Asyncpg,
    "asyncpg pool": AsyncpgPool,
    "sqlalchemy connection": lambda url: AlchemyConnection(alchemy_url(url, "psycopg")),
    "sqlalchemy format": lambda url: AlchemyConnection(alchemy_url(url, "psycopg"), paramstyle="format"),
    "sqlalchemy session": lambda url: AlchemySession(alchemy_url(url, "psycopg")),
    "sqlalchemy scoped session": lambda url: AlchemyScopedSession(alchemy_url(url, "psycopg")),
    "sqlalchemy async connection": lambda url: AlchemyAsyncConnection(alchemy_url(url, "psycopg")),
    "sqlalchemy async session": lambda url: AlchemyAsyncSession(alchemy_url(url, "asyncpg")),
    "sqlalchemy asyncpg": lambda url: AlchemyAsyncConnection(alchemy_url(url, "asyncpg")),
    "sqlalchemy async scoped": lambda url: AlchemyAsyncScopedSession(alchemy_url(url, "asyncpg")),
    "django": lambda url: Django(django_postgres(url)),
    "django proxy": lambda url: DjangoProxy(django_postgres(url)),
}
if importlib.util.find_spec("psycopg2"):
    POSTGRES_USERS["sqlalchemy psycopg2"] = lambda url: AlchemySession(alchemy_url(url, "psycopg2"))
if importlib.util.find_spec("pg8000"):
    POSTGRES_USERS["sqlalchemy pg8000"] = lambda url: AlchemySession(
        "postgresql+pg8000://postgres:@/" + psycopg.conninfo.conninfo_to_dict(url)["dbname"],
        connect_args={"unix_sock": psycopg.conninfo.conninfo_to_dict(url)["host"] + "/.s.PGSQL.5432"},
    )


def on_file(path: Path, library: str) -> Open:
    def session(conn: Any, **options: Any) -> Any:
        return sqlite_session(conn, library=library, path=str(path), **options)

    return session


class Apsw(User):
    def __init__(self, path: Path) -> None:
        super().__init__(on_file(path, "apsw"))
        self.conn = apsw.Connection(str(path))
        self.conn.row_trace = lambda cursor, row: dict(enumerate(row))
        self.execute("begin")

    def commit(self) -> None:
        self.execute("commit")

    def rollback(self) -> None:
        self.execute("rollback")


class Sqlite3(User):
    """As most people have it: python begins before the first insert."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(on_file(path, "stdlib"))
        self.conn = sqlite3.connect(path, **options)


class Sqlite3WithFactories(Sqlite3):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.conn.row_factory = lambda cursor, row: dict(enumerate(row))
        self.conn.text_factory = bytes


class Sqlite3ByHand(Sqlite3):
    def __init__(self, path: Path) -> None:
        super().__init__(path, isolation_level=None)
        self.execute("begin")


class Aiosqlite(AsyncUser):
    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(on_file(path, "stdlib"))
        self.conn = self.wait(aiosqlite.connect(path, **options))
        self.conn.row_factory = lambda cursor, row: dict(enumerate(row))

    def execute(self, sql: str) -> None:
        async def run() -> None:
            async with self.conn.execute(sql):
                pass

        self.loop.run(run())


def django_sqlite(path: Path) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}


def alchemy_with_explicit_begin(path: Path) -> User:
    """The recipe of SQLAlchemy's manual for real transactions on pysqlite."""
    user = AlchemyConnection(f"sqlite:///{path}", on_file(path, "stdlib"))
    user.conn.close()
    user.engine.dispose()

    @sa.event.listens_for(user.engine, "connect")
    def connect(driver: sqlite3.Connection, record: Any) -> None:
        driver.isolation_level = None

    @sa.event.listens_for(user.engine, "begin")
    def begin(conn: sa.Connection) -> None:
        conn.exec_driver_sql("begin")

    user.conn = user.open()
    return user


SQLITE_USERS: dict[str, Callable[[Path], User]] = {
    "apsw": Apsw,
    "sqlite3": Sqlite3,
    "sqlite3 immediate": lambda path: Sqlite3(path, isolation_level="IMMEDIATE"),
    "sqlite3 with factories": Sqlite3WithFactories,
    "sqlite3 by hand": Sqlite3ByHand,
    "aiosqlite": Aiosqlite,
    "sqlalchemy connection": lambda path: AlchemyConnection(f"sqlite:///{path}", on_file(path, "stdlib")),
    "sqlalchemy named": lambda path: AlchemyConnection(
        f"sqlite:///{path}", on_file(path, "stdlib"), paramstyle="named"
    ),
    "sqlalchemy session": lambda path: AlchemySession(f"sqlite:///{path}", on_file(path, "stdlib")),
    "sqlalchemy explicit begin": alchemy_with_explicit_begin,
    "sqlalchemy async session": lambda path: AlchemyAsyncSession(
        f"sqlite+aiosqlite:///{path}", on_file(path, "stdlib")
    ),
    "sqlalchemy async connection": lambda path: AlchemyAsyncConnection(
        f"sqlite+aiosqlite:///{path}", on_file(path, "stdlib")
    ),
    "django": lambda path: Django(django_sqlite(path), on_file(path, "stdlib")),
    "django proxy": lambda path: DjangoProxy(django_sqlite(path), on_file(path, "stdlib")),
}
if sys.version_info >= (3, 12):
    SQLITE_USERS["sqlite3 autocommit off"] = lambda path: Sqlite3(path, autocommit=False)
    SQLITE_USERS["aiosqlite autocommit off"] = lambda path: Aiosqlite(path, autocommit=False)
