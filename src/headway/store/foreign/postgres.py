"""The caller's PostgreSQL connection, of psycopg, asyncpg, SQLAlchemy or Django, for one op."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headway.errors import ConfigError
from headway.store.foreign.django import DjangoPort
from headway.store.foreign.identify import describe, is_django, library_of, refusal
from headway.store.foreign.session import (
    BARE,
    SAVEPOINT,
    TRANSACTION,
    AsyncSession,
    Guard,
    Session,
    SyncSession,
)
from headway.store.foreign.sqlalchemy import sqlalchemy_session
from headway.store.ops import Rows
from headway.store.sqlstate import from_postgres_error

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy

_ACCEPTED = (
    "a psycopg (3) or asyncpg connection, an SQLAlchemy session or connection, or Django's connection, "
    "blocking or async"
)


def postgres_session(conn: Any, *, refusable: bool = True) -> Session:
    """Run an op inside the transaction that `conn` is in, so that its writes exist exactly if that commits.

    `conn` is a psycopg 3 connection (also one of a psycopg_pool), an asyncpg connection or its pool's proxy,
    an SQLAlchemy session or connection, or Django's connection. A connection in autocommit mode that is in no
    transaction runs the op in a transaction of its own. Raises `ConfigError` for anything else.

    A failed statement aborts a PostgreSQL transaction. `refusable` says that the database may refuse the op
    (`Duplicate`, `NotFound`, …) and that the caller can go on after that: it then runs under a savepoint,
    which costs two more round trips (0.15 ms on a local socket) and a subtransaction (past 64 of them in one
    transaction everybody's snapshots get slower). An op that cannot be refused says so: one round trip, and
    should it fail after all, the caller's transaction is aborted, as by any failed statement.
    """
    inside = SAVEPOINT if refusable else BARE
    match library_of(conn):
        case "psycopg":
            session = _psycopg(conn, inside)
        case "asyncpg":
            session = _asyncpg(conn, inside)
        case "sqlalchemy":
            session = sqlalchemy_session(conn, partial(_choose_sqlalchemy, inside=inside), from_postgres_error)
        case "django" if is_django(conn):
            _check_vendor("Django's connection", conn.vendor)
            session = SyncSession(DjangoPort(conn, partial(_choose_django, inside=inside)), from_postgres_error)
        case _:
            session = None
    if session is None:
        raise refusal(conn, store="PostgreSQL", accepted=_ACCEPTED)
    return session


def _psycopg(conn: Any, inside: Guard) -> Session | None:
    import psycopg

    match conn:
        case psycopg.Connection():
            return SyncSession(_Psycopg(conn, inside), from_postgres_error)
        case psycopg.AsyncConnection():
            return AsyncSession(_AsyncPsycopg(conn, inside), from_postgres_error, name=describe(conn))
        case _:
            return None


def _asyncpg(conn: Any, inside: Guard) -> Session | None:
    from asyncpg import Connection  # type: ignore[import-untyped]
    from asyncpg.pool import PoolConnectionProxy  # type: ignore[import-untyped]

    if isinstance(conn, Connection | PoolConnectionProxy):
        return AsyncSession(_Asyncpg(conn, inside), from_postgres_error, name=describe(conn))
    return None


def _choose_sqlalchemy(connection: sqlalchemy.Connection, inside: Guard) -> Guard:
    _check_vendor("of SQLAlchemy", connection.dialect.name)
    driver = connection.connection.dbapi_connection
    return TRANSACTION if getattr(driver, "autocommit", False) is True else inside


def _choose_django(port: DjangoPort, inside: Guard) -> Guard:
    return inside if port.in_transaction else TRANSACTION


def _check_vendor(given: str, vendor: str) -> None:
    if vendor != "postgresql":
        raise ConfigError(
            f"conn= is {given} to {vendor}, but this app keeps its jobs in PostgreSQL, and one transaction "
            "cannot span both: pass a connection to the database that Headway's URL names, or leave conn= out"
        )


def _psycopg_guard(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], inside: Guard) -> Guard:
    from psycopg.pq import TransactionStatus

    # not in autocommit, psycopg begins before our first statement and leaves the commit to the caller
    alone = conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE
    return TRANSACTION if alone else inside


class _Psycopg:
    def __init__(self, conn: psycopg.Connection[Any], inside: Guard) -> None:
        self._conn = conn
        self._inside = inside

    def guard(self) -> Guard:
        return _psycopg_guard(self._conn, self._inside)

    def run(self, sql: str, params: Sequence[Any]) -> Rows:
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        from headway.store.postgres.engine.decode import register_text_loaders

        with RawCursor(self._conn, row_factory=tuple_row) as cursor:
            register_text_loaders(cursor.adapters)
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []


class _AsyncPsycopg:
    def __init__(self, conn: psycopg.AsyncConnection[Any], inside: Guard) -> None:
        self._conn = conn
        self._inside = inside

    async def guard(self) -> Guard:
        return _psycopg_guard(self._conn, self._inside)

    async def run(self, sql: str, params: Sequence[Any]) -> Rows:
        from psycopg import AsyncRawCursor
        from psycopg.rows import tuple_row

        from headway.store.postgres.engine.decode import register_text_loaders

        async with AsyncRawCursor(self._conn, row_factory=tuple_row) as cursor:
            register_text_loaders(cursor.adapters)
            await cursor.execute(sql, params)
            return await cursor.fetchall() if cursor.description else []


class _Asyncpg:
    def __init__(self, conn: Any, inside: Guard) -> None:
        self._conn = conn
        self._inside = inside

    async def guard(self) -> Guard:
        return self._inside if self._conn.is_in_transaction() else TRANSACTION

    async def run(self, sql: str, params: Sequence[Any]) -> Rows:
        return [tuple(record) for record in await self._conn.fetch(sql, *params)]
