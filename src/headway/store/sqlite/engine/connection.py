"""One connection to the file, of either SQLite library, behind the same few methods."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from tempfile import NamedTemporaryFile
from typing import Any, Literal, Protocol
from urllib.parse import quote

from headway.store.ops import Batch, Row, Rows, Statement

Library = Literal["apsw", "stdlib"]

# statements kept prepared per connection; apsw drops one that was not used for this many runs, and compiles it again
# the next time
_STATEMENTS = 512
_PAGES = 1_000  # copied at a time


class Connection(Protocol):
    """A connection in autocommit mode: transactions are begun and ended by statements."""

    def run(self, request: Statement | Batch) -> Rows: ...

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Rows: ...

    @property
    def in_transaction(self) -> bool: ...

    def copy_into(self, other: Any, tell: Callable[[int, int], None]) -> None:
        """Copy the database into that of another connection of the same library, which is empty; tells the pages."""
        ...

    def close(self) -> None: ...


def connect(path: str, library: Library, *, create: bool = True) -> Connection:
    """Open the file; raises the library's own error. A new file can be read by its owner alone, whatever the umask, and
    so can its log and index; an existing one keeps its mode."""
    open_ = _Apsw if library == "apsw" else _Stdlib
    if create and not os.path.exists(path):
        # SQLite creates the file with the mode of this one: it never has another mode, and we never close a descriptor
        # of it, which would drop the locks of another thread's connection
        with suppress(OSError), NamedTemporaryFile(dir=os.path.dirname(path), prefix=".headway-") as private:
            return open_(f"file:{quote(os.fsencode(path))}?mode=rwc&modeof={quote(os.fsencode(private.name))}")
    return open_(f"file:{quote(os.fsencode(path))}?mode={'rwc' if create else 'rw'}")


def library_errors(library: Library) -> type[Exception]:
    """The base of the errors that the library raises; `code_of` reads them."""
    if library == "apsw":
        import apsw

        return apsw.Error
    import sqlite3

    return sqlite3.Error


def code_of(error: Exception) -> int:
    """SQLite's extended result code."""
    code = getattr(error, "extendedresult", None) or getattr(error, "sqlite_errorcode", None)
    return code if isinstance(code, int) else 1


class _Apsw:
    def __init__(self, uri: str) -> None:
        import apsw

        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        self._conn = apsw.Connection(uri, flags=flags, statementcachesize=_STATEMENTS)
        # otherwise SQLite plans by the value of `limit ?` and recompiles the statement on every run
        self._conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._cursor = self._conn.cursor()  # one is enough: a statement's rows are read before the next one runs

    def run(self, request: Statement | Batch) -> Rows:
        if isinstance(request, Statement):
            return self._cursor.execute(request.sql, request.params).fetchall()
        return self._cursor.executemany(request.sql, request.rows).fetchall()

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Rows:
        return self._cursor.execute(sql, params).fetchall()

    @property
    def in_transaction(self) -> bool:
        return self._conn.in_transaction

    def copy_into(self, other: Any, tell: Callable[[int, int], None]) -> None:
        with other._conn.backup("main", self._conn, "main") as copy:
            while not copy.done:
                copy.step(_PAGES)
                tell(copy.page_count - copy.remaining, copy.page_count)

    def close(self) -> None:
        self._conn.close()


class _Stdlib:
    def __init__(self, uri: str) -> None:
        import sqlite3

        self._conn = sqlite3.connect(
            uri,
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        if sys.version_info >= (3, 12):
            self._conn.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_QPSG, True)

    def run(self, request: Statement | Batch) -> Rows:
        if isinstance(request, Statement):
            return self._conn.execute(request.sql, request.params).fetchall()
        if "returning" not in request.sql and not request.sql.startswith("select"):
            self._conn.executemany(request.sql, request.rows)
            return []
        # Python's executemany discards rows and refuses select
        found: list[Row] = []
        for params in request.rows:
            found += self._conn.execute(request.sql, params).fetchall()
        return found

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Rows:
        return self._conn.execute(sql, params).fetchall()

    @property
    def in_transaction(self) -> bool:
        return self._conn.in_transaction

    def copy_into(self, other: Any, tell: Callable[[int, int], None]) -> None:
        self._conn.backup(other._conn, pages=_PAGES, progress=lambda _status, left, all_: tell(all_ - left, all_))

    def close(self) -> None:
        self._conn.close()
