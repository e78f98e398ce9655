"""The caller's SQLite connection, of apsw, sqlite3, aiosqlite, SQLAlchemy or Django, for one op."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from headway.errors import ConfigError, HeadwayError, SchemaMissing, StoreUnavailable
from headway.store.foreign.django import DjangoPort
from headway.store.foreign.identify import describe, is_django, library_of, refusal
from headway.store.foreign.session import SAVEPOINT, AsyncSession, Guard, Session, SyncSession
from headway.store.foreign.sqlalchemy import sqlalchemy_session
from headway.store.ops import Rows
from headway.store.sqlstate import causes

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite
    import apsw
    import sqlalchemy

Library = Literal["apsw", "stdlib"]

_ACCEPTED = "an apsw, sqlite3 or aiosqlite connection, an SQLAlchemy session or connection, or Django's connection"
_BUSY, _LOCKED, _BUSY_SNAPSHOT = 5, 6, 517

# a lone op takes the write lock at once: upgrading later would fail without waiting for the busy timeout
_IMMEDIATE = Guard(("begin immediate",), ("commit",), ("rollback",))
# python's sqlite3 begins before the first insert and the caller commits; a lone savepoint commits on release
_LEFT_OPEN = Guard(("begin immediate",), (), ("rollback",))

_DATABASES = "pragma database_list"

Allowed = Callable[[str, Library], None]
Check = Callable[[Rows], None]


def sqlite_session(conn: Any, *, library: Library | None = None, path: str | None = None) -> Session:
    """Run an op inside the transaction that `conn` is in, so that its writes exist exactly if that commits.

    `library` is the SQLite library that this process uses for Headway's file, `path` is that file; None is any.
    `conn` is an apsw connection (library apsw), or a sqlite3, aiosqlite, SQLAlchemy or Django connection (stdlib).

    The op runs under a savepoint, so after any error the caller's transaction stands as before. Outside of a
    transaction, a connection that commits by itself (apsw, `isolation_level=None`, Django's autocommit) runs
    it in a transaction of its own; python's other sqlite3 connections begin one and leave it open, as they do
    before any insert. Raises `ConfigError` for a connection of the other library, to another file or of an
    unknown kind, and `StoreUnavailable` when another connection holds the write lock.
    """
    allowed = partial(_check_library, library=library)
    check = partial(_check_file, path=path)
    match library_of(conn):
        case "apsw":
            session = _apsw(conn, allowed, check)
        case "sqlite3" | "aiosqlite":
            session = _stdlib(conn, allowed, check)
        case "sqlalchemy":
            choose = partial(_choose_sqlalchemy, allowed=allowed, check=check)
            session = sqlalchemy_session(conn, choose, from_sqlite_error)
        case "django" if is_django(conn):
            _check_vendor("Django's connection", conn.vendor)
            allowed("Django's connection", "stdlib")
            session = SyncSession(DjangoPort(conn, partial(_choose_django, check=check)), from_sqlite_error)
        case _:
            session = None
    if session is None:
        raise refusal(conn, store="SQLite", accepted=_ACCEPTED)
    return session


def still_open(conn: Any) -> Callable[[], bool]:
    """A function that tells whether the transaction that `conn` is in now is still open; False if nobody can."""
    match library_of(conn):
        case "sqlite3" if _begins_at_once(conn):
            return lambda: False
        case "sqlalchemy":
            if hasattr(conn, "registry"):  # a scoped session
                conn = conn()
            held = getattr(conn, "sync_session", None) or getattr(conn, "sync_connection", None) or conn
            begun = held.get_transaction()
            return lambda: begun is not None and held.get_transaction() is begun
        case "django":
            conn = conn.connection
    return partial(_in_transaction, conn)


async def astill_open(conn: Any) -> Callable[[], bool]:
    if library_of(conn) == "aiosqlite" and await conn._execute(_begins_at_once, conn._conn):
        return lambda: False
    return still_open(conn)


def _begins_at_once(conn: Any) -> bool:
    """Whether it is in a transaction all the time: Python 3.12's `autocommit=False` begins the next one at each end."""
    return getattr(conn, "autocommit", -1) is False


def _in_transaction(conn: Any) -> bool:
    try:
        return bool(conn.in_transaction)
    except Exception:  # closed
        return False


def from_sqlite_error(error: BaseException) -> HeadwayError | None:
    """The error that one of sqlite3, aiosqlite or apsw stands for, also inside SQLAlchemy's or Django's."""
    if isinstance(error, HeadwayError):
        return None
    for cause in causes(error):
        code = getattr(cause, "sqlite_errorcode", None) or getattr(cause, "extendedresult", None)
        if not isinstance(code, int):
            continue
        if code == _BUSY_SNAPSHOT:
            return StoreUnavailable(
                "another connection wrote to the file after the caller's transaction had read from it, so "
                "that transaction cannot write any more; nothing of this operation was written: roll back "
                "and try again, and begin such transactions with begin immediate"
            )
        if code & 0xFF in (_BUSY, _LOCKED):
            return StoreUnavailable(
                "another connection held the file's write lock for longer than the caller's connection waits "
                f"({cause}); nothing of this operation was written: keep transactions short, give the "
                "connection a longer busy timeout (sqlite3.connect(…, timeout=10)), or try again"
            )
        if "no such table" in str(cause):
            return SchemaMissing(f"this file has no Headway schema ({cause}): run headway migrate")
    return None


def _apsw(conn: Any, allowed: Allowed, check: Check) -> Session | None:
    import apsw

    if not isinstance(conn, apsw.Connection):
        return None
    allowed(describe(conn), "apsw")
    return SyncSession(_Apsw(conn, check), from_sqlite_error)


def _stdlib(conn: Any, allowed: Allowed, check: Check) -> Session | None:
    import sqlite3

    if isinstance(conn, sqlite3.Connection):
        allowed(describe(conn), "stdlib")
        return SyncSession(_Sqlite3(conn, check), from_sqlite_error)
    if library_of(conn) == "sqlite3":
        return None

    import aiosqlite

    if isinstance(conn, aiosqlite.Connection):
        allowed(describe(conn), "stdlib")
        return AsyncSession(_Aiosqlite(conn, check), from_sqlite_error, name=describe(conn))
    return None


def _choose_sqlalchemy(connection: sqlalchemy.Connection, allowed: Allowed, check: Check) -> Guard:
    _check_vendor("of SQLAlchemy", connection.dialect.name)
    driver: Any = connection.connection.driver_connection
    allowed("of SQLAlchemy", "apsw" if library_of(driver) == "apsw" else "stdlib")
    check([tuple(row) for row in connection.exec_driver_sql(_DATABASES)])
    return _stdlib_guard(getattr(driver, "_conn", driver))  # after the check, before which SQLAlchemy may have begun


def _choose_django(port: DjangoPort, check: Check) -> Guard:
    check(port.run(_DATABASES, ()))
    return _stdlib_guard(port.driver)  # connected by the check; with autocommit off it is a legacy connection


def _check_vendor(given: str, vendor: str) -> None:
    if vendor != "sqlite":
        raise ConfigError(
            f"conn= is {given} to {vendor}, but this app keeps its jobs in a SQLite file, and one "
            "transaction cannot span both: give Headway the application's database URL, or leave conn= out"
        )


def _check_library(given: str, of: Library, *, library: Library | None) -> None:
    if library is None or of == library:
        return
    names = {"apsw": "apsw", "stdlib": "Python's sqlite3 module"}
    fix = (
        "give the app the URL sqlite+stdlib:///file, so that all of this process uses sqlite3"
        if of == "stdlib"
        else "give the app the URL sqlite:///file, so that all of this process uses apsw"
    )
    raise ConfigError(
        f"conn= is {given}, which uses {names[of]}, but this app opens its file with {names[library]}: two "
        "SQLite libraries on one file in one process lose committed data, because POSIX locks belong to the "
        f"process and each library drops the other's; {fix}"
    )


def _check_file(databases: Rows, *, path: str | None) -> None:
    if path is None:
        return
    found = next((str(row[2] or "") for row in databases if row[1] == "main"), "")
    if not found:
        raise ConfigError(
            f"conn= is a connection to a database in memory, but this app keeps its jobs in {path}: "
            "pass a connection to that file, or leave conn= out"
        )
    if os.path.realpath(found) != os.path.realpath(path):
        raise ConfigError(
            f"conn= is a connection to {found}, but this app keeps its jobs in {path}, and one transaction "
            "cannot span both: keep both in one file, or leave conn= out"
        )


def _stdlib_guard(conn: sqlite3.Connection) -> Guard:
    if conn.in_transaction:
        return SAVEPOINT
    # Python 3.12's `autocommit`: True, False (then a transaction is always open), or -1: see isolation_level
    autocommit = getattr(conn, "autocommit", -1)
    commits_itself = conn.isolation_level is None if autocommit == -1 else autocommit
    return _IMMEDIATE if commits_itself else _LEFT_OPEN


@contextmanager
def _text_as_str(conn: sqlite3.Connection | aiosqlite.Connection) -> Iterator[None]:
    before = conn.text_factory
    conn.text_factory = str
    try:
        yield
    finally:
        conn.text_factory = before


class _Apsw:
    def __init__(self, conn: apsw.Connection, check: Check) -> None:
        self._conn = conn
        self._check = check

    def guard(self) -> Guard:
        self._check(self.run(_DATABASES, ()))
        return SAVEPOINT if self._conn.in_transaction else _IMMEDIATE

    def run(self, sql: str, params: Sequence[Any]) -> Rows:
        import apsw

        cursor = apsw.Cursor(self._conn)
        cursor.row_trace = lambda _, row: row  # over the connection's own, which may turn rows into dicts
        return list(cursor.execute(sql, params))


class _Sqlite3:
    def __init__(self, conn: sqlite3.Connection, check: Check) -> None:
        self._conn = conn
        self._check = check

    def guard(self) -> Guard:
        self._check(self.run(_DATABASES, ()))
        return _stdlib_guard(self._conn)

    def run(self, sql: str, params: Sequence[Any]) -> Rows:
        import sqlite3

        with _text_as_str(self._conn):
            cursor = sqlite3.Cursor(self._conn)  # unlike conn.cursor(), without the connection's row_factory
            return cursor.execute(sql, params).fetchall()


class _Aiosqlite:
    def __init__(self, conn: aiosqlite.Connection, check: Check) -> None:
        self._conn = conn
        self._check = check
        self._cursor: aiosqlite.Cursor

    async def guard(self) -> Guard:
        self._cursor = await self._conn.cursor()
        self._cursor.row_factory = None
        self._check(await self.run(_DATABASES, ()))
        # only the thread of the connection may look at all of it
        guard: Guard = await self._conn._execute(_stdlib_guard, self._conn._conn)  # type: ignore[no-untyped-call]
        return guard

    async def run(self, sql: str, params: Sequence[Any]) -> Rows:
        with _text_as_str(self._conn):
            await self._cursor.execute(sql, params)
            if self._cursor.description is None:  # each call is a hop to the connection's thread
                return []
            return [tuple(row) for row in await self._cursor.fetchall()]
