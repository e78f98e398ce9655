"""SQLAlchemy's sessions and connections of both colours as ports, whatever driver is under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headway.errors import ConfigError
from headway.store.foreign.placeholders import render
from headway.store.foreign.session import AsyncSession, Guard, Session, SyncSession, Translate
from headway.store.ops import Rows

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection
    from sqlalchemy.ext.asyncio import AsyncSession as AsyncOrmSession
    from sqlalchemy.orm import Session as OrmSession

Choose = Callable[["Connection"], Guard]


def sqlalchemy_session(conn: Any, choose: Choose, translate: Translate) -> Session | None:
    """A session for any of SQLAlchemy's connections and sessions; None for its other objects.

    `choose` checks the connection and gives the guard for it.
    """
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session as OrmSession
    from sqlalchemy.orm import scoped_session

    if isinstance(conn, scoped_session):
        conn = conn()
    if isinstance(conn, OrmSession | Connection):
        return SyncSession(_Port(conn, choose), translate)

    try:
        from sqlalchemy.ext import asyncio as aio
    except ImportError:  # SQLAlchemy without greenlet has no async side
        return None

    if isinstance(conn, aio.async_scoped_session):
        conn = conn()
    if isinstance(conn, aio.AsyncSession | aio.AsyncConnection):
        name = f"an SQLAlchemy {type(conn).__name__}"
        return AsyncSession(_AsyncPort(conn, choose), translate, name=name)
    return None


class _Port:
    def __init__(self, conn: OrmSession | Connection, choose: Choose) -> None:
        self._conn = conn
        self._choose = choose
        self._connection: Connection

    def guard(self) -> Guard:
        self._connection = _connection_of(self._conn)
        return self._choose(self._connection)

    def run(self, sql: str, params: Sequence[Any]) -> Rows:
        if params:
            text, values = render(sql, params, self._connection.dialect.paramstyle)
            result = self._connection.exec_driver_sql(text, values)
        else:
            options = {"no_parameters": True}  # so that no driver looks for % signs
            result = self._connection.exec_driver_sql(sql, execution_options=options)
        if not result.returns_rows:
            return []
        return [tuple(row) for row in result]


def _connection_of(conn: OrmSession | Connection) -> Connection:
    from sqlalchemy import Connection
    from sqlalchemy.exc import UnboundExecutionError

    if isinstance(conn, Connection):
        return conn
    try:
        return conn.connection()
    except UnboundExecutionError as error:
        raise ConfigError(
            "conn= is an SQLAlchemy session without an engine, or with several: pass the connection to "
            "the database that Headway's URL names, session.connection(bind_arguments={…})"
        ) from error


class _AsyncPort:
    """Runs the blocking port in the greenlet that SQLAlchemy makes for it."""

    def __init__(self, conn: AsyncOrmSession | AsyncConnection, choose: Choose) -> None:
        self._conn = conn
        self._choose = choose
        self._port: _Port

    async def guard(self) -> Guard:
        def start(conn: OrmSession | Connection) -> Guard:
            self._port = _Port(conn, self._choose)
            return self._port.guard()

        return await self._conn.run_sync(start)

    async def run(self, sql: str, params: Sequence[Any]) -> Rows:
        def run(_: OrmSession | Connection) -> Rows:
            return self._port.run(sql, params)

        return await self._conn.run_sync(run)
