"""Calls back once a foreign transaction has committed, where its library tells: SQLAlchemy and Django do."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from headway.store.foreign.identify import is_django, library_of

if TYPE_CHECKING:
    import sqlalchemy

Call = Callable[..., object]

_KEY = "headway.after_commit"


def after_commit(conn: Any, call: Call, *args: Hashable) -> None:
    """Call `call(*args)` once the transaction that `conn` is in has committed; never after a rollback.

    What SQLAlchemy is told repeatedly in one transaction is called once.
    A connection in no transaction has committed already. psycopg, asyncpg and the SQLite libraries do not tell of a
    commit: in a transaction of theirs it is never called.
    """
    match library_of(conn):
        case "sqlalchemy":
            _after_sqlalchemy(_connection_of(conn), call, args)
        case "django" if is_django(conn):
            # Django refuses on_commit where autocommit is off and there is no atomic block
            if conn.in_atomic_block or conn.get_autocommit():
                conn.on_commit(lambda: call(*args), robust=True)
        case "asyncpg":
            if not conn.is_in_transaction():
                call(*args)
        case "psycopg":
            from psycopg.pq import TransactionStatus

            if conn.info.transaction_status == TransactionStatus.IDLE:
                call(*args)
        case _:
            if not conn.in_transaction:
                call(*args)


class _Waiting:
    """The calls of one driver's connection: those that wait for its commit, and those whose commit was sent."""

    __slots__ = ("calls", "sent")

    def __init__(self) -> None:
        self.calls: dict[tuple[Call, tuple[Hashable, ...]], None] = {}
        self.sent: dict[tuple[Call, tuple[Hashable, ...]], None] = {}


def _after_sqlalchemy(connection: sqlalchemy.Connection, call: Call, args: tuple[Hashable, ...]) -> None:
    driver: Any = connection.connection.dbapi_connection
    if getattr(driver, "autocommit", False) is True or getattr(driver, "in_transaction", True) is False:
        call(*args)
        return
    _listen(connection.engine)
    connection.info.setdefault(_KEY, _Waiting()).calls[call, args] = None


def _connection_of(conn: Any) -> sqlalchemy.Connection:
    """The connection that our statements ran on."""
    from sqlalchemy import Connection
    from sqlalchemy.orm import scoped_session

    if type(conn).__name__ == "async_scoped_session" or isinstance(conn, scoped_session):
        conn = conn()
    # what is async has a blocking one inside, for which there are events
    conn = getattr(conn, "sync_session", None) or getattr(conn, "sync_connection", None) or conn
    return conn if isinstance(conn, Connection) else conn.connection()


def _listen(engine: sqlalchemy.Engine) -> None:
    """SQLAlchemy tells just before a connection commits. That it did is known when it goes back to its pool, as that of
    a session does at once, or begins its next transaction."""
    from sqlalchemy import event

    if not event.contains(engine, "checkin", _checked_in):
        event.listen(engine, "commit", _commits)
        event.listen(engine, "rollback", _rolls_back)
        event.listen(engine, "begin", _begins)
        event.listen(engine, "handle_error", _failed)
        event.listen(engine, "checkin", _checked_in)


def _commits(connection: sqlalchemy.Connection) -> None:
    waiting: _Waiting | None = connection.info.get(_KEY)
    if waiting is not None:
        waiting.calls, waiting.sent = {}, waiting.sent | waiting.calls


def _rolls_back(connection: sqlalchemy.Connection) -> None:
    waiting: _Waiting | None = connection.info.get(_KEY)
    if waiting is not None:
        waiting.calls = {}


def _failed(context: sqlalchemy.ExceptionContext) -> None:
    """It may have been the commit."""
    if context.connection is not None and not context.connection.invalidated:
        waiting: _Waiting | None = context.connection.info.get(_KEY)
        if waiting is not None:
            waiting.sent = {}


def _begins(connection: sqlalchemy.Connection) -> None:
    waiting: _Waiting | None = connection.info.get(_KEY)
    if waiting is not None:
        sent, waiting.sent = waiting.sent, {}
        for call, args in sent:
            call(*args)


def _checked_in(_: Any, record: Any) -> None:
    waiting: _Waiting | None = record.info.pop(_KEY, None)
    if waiting is not None:
        for call, args in waiting.sent:
            call(*args)
