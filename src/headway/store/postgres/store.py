"""The PostgreSQL store: pools of either colour, one round trip an op, and errors in Headway's words."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

from headway.errors import (
    ConfigError,
    HeadwayError,
    SchemaMissing,
    SchemaOutdated,
    StoreError,
    StoreUnavailable,
)
from headway.store.ops import Batch, Op, Ops, Rows, Statement
from headway.store.postgres.migrate import VERSION
from headway.store.postgres.ops import PostgresOps
from headway.store.run import Store, adrive, drive
from headway.store.sqlstate import from_sqlstate

try:
    import psycopg
    import psycopg_pool
    from psycopg.types.string import TextLoader
except ImportError as missing:  # pragma: no cover
    raise ConfigError(
        "PostgreSQL needs psycopg: install it with pip install 'headway[postgres]'"
    ) from missing

T = TypeVar("T")

_POOL_SIZE = 8
_CONNECT_TIMEOUT = 10.0
_SESSION = "select set_config('headway.tenant_id', $1, true)"
# SQLSTATE classes that mean "not now": connection, resources, shutdown, serialization
_PASSING = ("08", "53", "57", "40", "55P03", "58", "25006")


class PostgresStore:
    """Implements `Store` on PostgreSQL 15 and later."""

    dialect: Literal["sqlite", "postgres"] = "postgres"

    def __init__(
        self, url: str, *, tenant_id: str | None = None, parent: PostgresStore | None = None
    ) -> None:
        self.ops: Ops = PostgresOps()
        self._url = url
        self._tenant_id = tenant_id
        self._pools: _Pools = parent._pools if parent else _Pools(url)

    def describe(self) -> str:
        parts = urlsplit(self._url)
        if parts.password is None:
            return self._url
        return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")))

    def bound(self, tenant_id: str) -> Store:
        return PostgresStore(self._url, tenant_id=tenant_id, parent=self)

    def run(self, op: Op[T]) -> T:
        with self._errors():
            try:
                return self._run(op)
            except psycopg.OperationalError as error:
                if not (op.repeatable and _is_lost(error)):
                    raise
                return self._run(op)

    async def arun(self, op: Op[T]) -> T:
        with self._errors():
            try:
                return await self._arun(op)
            except psycopg.OperationalError as error:
                if not (op.repeatable and _is_lost(error)):
                    raise
                return await self._arun(op)

    def run_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import postgres_session

        with postgres_session(conn, refusable=op.refusable) as execute:
            return drive(op.steps(), execute)

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import postgres_session

        async with postgres_session(conn, refusable=op.refusable) as execute:
            return await adrive(op.steps(), execute)

    def run_script(self, op: Op[T]) -> T:
        """Run several statements in one transaction on a connection of its own, without asking for a schema."""
        with self._errors(), psycopg.connect(self._url) as conn:
            return drive(op.steps(), lambda request: _execute(_cursor(conn), request))

    def close(self) -> None:
        self._pools.close()

    async def aclose(self) -> None:
        await self._pools.aclose()

    def _run(self, op: Op[T]) -> T:
        with self._pools.sync().connection() as conn:
            cursor = _cursor(conn)
            if self._tenant_id is None:
                return drive(op.steps(), lambda request: _execute(cursor, request))
            with conn.transaction():
                cursor.execute(_SESSION, (self._tenant_id,))
                return drive(op.steps(), lambda request: _execute(cursor, request))

    async def _arun(self, op: Op[T]) -> T:
        pool = await self._pools.of_loop()
        async with pool.connection() as conn:
            cursor = psycopg.AsyncRawCursor(conn)

            async def execute(request: Statement | Batch) -> Rows:
                assert isinstance(request, Statement)
                await cursor.execute(request.sql, request.params)
                return await cursor.fetchall() if cursor.description else []

            if self._tenant_id is None:
                return await adrive(op.steps(), execute)
            async with conn.transaction():
                await cursor.execute(_SESSION, (self._tenant_id,))
                return await adrive(op.steps(), execute)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: psycopg.Error) -> HeadwayError:
        code = error.sqlstate or ""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        ours = from_sqlstate(code, error.diag.message_primary or text, error.diag.message_detail)
        if ours is not None:
            return ours
        if isinstance(error, psycopg.OperationalError) or code.startswith(_PASSING):
            return StoreUnavailable(
                f"PostgreSQL at {self.describe()} cannot be used right now: {text}. Nothing was written; check that "
                "the server is up and reachable (headway doctor), then try again"
            )
        return StoreError(
            f"PostgreSQL refused the operation ({code or 'no code'}): {text}. Nothing was written"
        )


class _Pools:
    """The connections of one process: a pool for threads and one for each event loop, opened when first used."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sync: psycopg_pool.ConnectionPool[psycopg.Connection] | None = None
        self._async: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection]
        ] = weakref.WeakKeyDictionary()

    def _own(self) -> None:
        if self._pid != os.getpid():
            # after a fork the sockets are the parent's: let go of them without a word on the wire
            _abandoned.append((self._sync, self._async))
            self._reset()

    def sync(self) -> psycopg_pool.ConnectionPool[psycopg.Connection]:
        self._own()
        with self._lock:
            if self._sync is None:
                check(self._url)
                self._sync = psycopg_pool.ConnectionPool(
                    self._url,
                    min_size=0,
                    max_size=_POOL_SIZE,
                    timeout=_CONNECT_TIMEOUT,
                    reconnect_timeout=0,
                    kwargs=_KWARGS,
                    configure=_configure,
                    open=True,
                    num_workers=1,
                )
            return self._sync

    async def of_loop(self) -> psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection]:
        self._own()
        loop = asyncio.get_running_loop()
        pool = self._async.get(loop)
        if pool is None:
            await acheck(self._url)
            pool = self._async.get(loop)
        if pool is None:
            pool = psycopg_pool.AsyncConnectionPool(
                self._url,
                min_size=0,
                max_size=_POOL_SIZE,
                timeout=_CONNECT_TIMEOUT,
                reconnect_timeout=0,
                kwargs=_KWARGS,
                configure=_aconfigure,
                open=False,
                num_workers=1,
            )
            self._async[loop] = pool
            await pool.open()
        return pool

    def close(self) -> None:
        with self._lock:
            pool, self._sync = self._sync, None
        if pool is not None:
            pool.close()

    async def aclose(self) -> None:
        pool = self._async.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()


_abandoned: list[Any] = []
# no prepared statements: the functions keep their plans, and a pooler in transaction mode keeps no session
_KWARGS: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "application_name": "headway"}


def check(url: str) -> None:
    """Refuse a database whose schema is missing or not this library's."""
    with psycopg.connect(url, **_KWARGS) as conn:
        cursor = _cursor(conn)
        _judge(drive(PostgresOps().version().steps(), lambda request: _execute(cursor, request)), url)


async def acheck(url: str) -> None:
    """The same without blocking."""
    async with await psycopg.AsyncConnection.connect(url, **_KWARGS) as conn:
        cursor = psycopg.AsyncRawCursor(conn)

        async def execute(request: Statement | Batch) -> Rows:
            assert isinstance(request, Statement)
            await cursor.execute(request.sql, request.params)
            return await cursor.fetchall()

        _judge(await adrive(PostgresOps().version().steps(), execute), url)


def _judge(version: int, url: str) -> None:
    where = PostgresStore(url).describe()
    if version == 0:
        raise SchemaMissing(f"{where} has no Headway schema: run headway --url {where} migrate")
    if version < VERSION:
        raise SchemaOutdated(
            f"{where} has schema version {version}, this library needs {VERSION}: run headway --url {where} migrate"
        )
    if version > VERSION:
        raise SchemaOutdated(
            f"{where} has schema version {version}, newer than this library's {VERSION}: upgrade the library"
        )


def _cursor(conn: psycopg.Connection[Any]) -> psycopg.RawCursor[Any]:
    return psycopg.RawCursor(conn)


def _execute(cursor: psycopg.RawCursor[Any], request: Statement | Batch) -> Rows:
    assert isinstance(request, Statement)
    cursor.execute(request.sql, request.params or None)
    return cursor.fetchall() if cursor.description else []


def _configure(conn: psycopg.Connection[Any]) -> None:
    # ids travel as text, JSON is decoded by its reader
    for name in ("uuid", "json", "jsonb"):
        conn.adapters.register_loader(name, TextLoader)


async def _aconfigure(conn: psycopg.AsyncConnection[Any]) -> None:
    for name in ("uuid", "json", "jsonb"):
        conn.adapters.register_loader(name, TextLoader)


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the connection broke, so that the op may or may not have been done."""
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
