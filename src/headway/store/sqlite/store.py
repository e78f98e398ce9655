"""The SQLite store: one file, this process's writer and readers of it, and what a fork does to them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import weakref
from pathlib import Path
from typing import Any, Literal, TypeVar

from headway.clock import Clock, SystemClock
from headway.errors import StoreError, StoreUnavailable
from headway.store.ops import Op, Ops
from headway.store.run import Store, adrive, drive
from headway.store.sqlite.engine import migrate
from headway.store.sqlite.engine.backup import Backup, Tell, back_up
from headway.store.sqlite.engine.connection import Library
from headway.store.sqlite.engine.errors import PATIENCE_S, no_answer
from headway.store.sqlite.engine.file import File, Gate
from headway.store.sqlite.engine.own_transaction import check_beside, opened
from headway.store.sqlite.engine.pool import Readers
from headway.store.sqlite.engine.prefix import under
from headway.store.sqlite.engine.verbs import SqliteOp
from headway.store.sqlite.engine.writer import Writer
from headway.store.sqlite.ops import SqliteOps

T = TypeVar("T")

_FORK_PATIENCE_S = 5.0

_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


class _Live:
    """What a store has open in one process."""

    def __init__(self, file: File) -> None:
        self.pid = os.getpid()
        self.file = file
        self.writer = Writer(file)
        self.readers = Readers(file)


class SqliteStore:
    """Implements `Store` on a SQLite file; the first op opens it, and creates it if it does not exist."""

    dialect: Literal["sqlite", "postgres"] = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        library: Library = "apsw",
        clock: Clock | None = None,
        timeout_s: float = PATIENCE_S,
        prefix: str = "",
    ) -> None:
        self.ops: Ops = SqliteOps(clock or SystemClock())
        self._path = os.path.abspath(path) if path != ":memory:" else path
        self._library: Library = library
        self.prefix = prefix
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._live: _Live | None = None
        self._checked = False
        _stores.add(self)

    @property
    def install_id(self) -> str | None:
        # the file itself identifies it: a copy elsewhere is another database
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return f"{found.st_dev:x}-{found.st_ino:x}"

    @property
    def artifacts_beside(self) -> Path:
        return Path(f"{self._path}-artifacts")

    @property
    def is_absent(self) -> bool:
        return not os.path.exists(self._path)

    def describe(self) -> str:
        return self._path

    def for_tenant(self, tenant_id: str) -> Store:  # noqa: ARG002 - a file has no sessions: verbs filter by tenant
        return self

    def walled_for(self, tenant_id: str) -> Store:  # noqa: ARG002
        return self

    def walls(self) -> int:
        return 1

    def presume_silent(self, silent: bool) -> None:
        pass

    def with_own_connections(self) -> Store:
        """The same store: a process has one writer, and a second would gain nothing."""
        return self

    def run(self, op: Op[T]) -> T:
        live = self._opened()
        special = _special(op)
        if special is not None and special.absent is not None:
            return self._run_bare(special, special.absent)
        if special is not None and special.probe is not None:
            found = live.readers.run(special.probe)
            if found is not None:
                return found
        if special is not None and special.read_ahead is not None:
            live.readers.run(special.read_ahead)
        if not op.writes:
            return live.readers.run(op.steps)
        check_beside(self._path)
        try:
            return live.writer.run(op.steps)
        except Exception as error:
            if op.fallback is None or isinstance(error, StoreUnavailable):
                raise
        return live.writer.run(op.fallback.steps)

    async def arun(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        seconds = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._arun(op)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise no_answer(self._path, seconds) from error

    async def _arun(self, op: Op[T]) -> T:
        live = self._opened()
        special = _special(op)
        if special is not None and special.absent is not None:
            return await asyncio.to_thread(self._run_bare, special, special.absent)
        if special is not None and special.probe is not None:
            found = await live.readers.arun(special.probe)
            if found is not None:
                return found
        if special is not None and special.read_ahead is not None:
            await live.readers.arun(special.read_ahead)
        if not op.writes:
            return await live.readers.arun(op.steps)
        check_beside(self._path)
        try:
            return await live.writer.arun(op.steps)
        except Exception as error:
            if op.fallback is None or isinstance(error, StoreUnavailable):
                raise
        return await live.writer.arun(op.fallback.steps)

    def run_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import sqlite_session, still_open

        session = sqlite_session(conn, library=self._library, path=self._path)
        session.joins = op.joins
        with session as execute:
            mine = under(self.prefix, execute)
            if not self._checked:
                self._checked = drive(migrate.prepare(self._path, self.prefix), mine)
            result = drive(op.steps(), mine)
        if op.joins:
            opened(self._path, still_open(conn))
        return result

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        from headway.store.foreign import astill_open, sqlite_session

        session = sqlite_session(conn, library=self._library, path=self._path)
        session.joins = op.joins
        async with session as execute:
            mine = under(self.prefix, execute)
            if not self._checked:
                self._checked = await adrive(migrate.prepare(self._path, self.prefix), mine)
            result = await adrive(op.steps(), mine)
        if op.joins:
            opened(self._path, await astill_open(conn))
        return result

    def migrate(self, to: int | None = None) -> list[str]:
        """Bring the schema to a version (default: this library's) in one transaction; gives what was done."""
        file = self._opened().file
        with file.gate:
            conn = file.open_for_migration()
            try:
                # each part waits for whoever writes now
                conn.execute(f"pragma busy_timeout = {int(file.patience_s * 1000)}")
                return migrate.migrate(conn, to)
            except file.errors as error:
                raise StoreError(f"the migration of {self._path} failed and was undone: {error}") from error
            finally:
                conn.close()

    def back_up(self, path: str, *, force: bool, tell: Tell) -> Backup:
        """Copy the file while it is in use; raises `NotAllowed`, `StoreError`."""
        live = self._opened()
        live.readers.run(migrate.read_version)  # opens it: a file that is not ours, or that does not exist, is refused
        with live.file.gate:
            return back_up(live.file, path, force=force, tell=tell)

    def close(self) -> None:
        with self._lock:
            live, self._live = self._live, None
        if live is not None and live.pid == os.getpid():
            live.writer.stop()
            live.readers.stop()
            live.file.closed()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    async def leave_loop(self) -> None:
        """Nothing here belongs to an event loop."""

    def _opened(self) -> _Live:
        live = self._live
        if live is not None and live.pid == os.getpid():
            return live
        if self._path == ":memory:":
            raise StoreError("a database in memory loses its jobs with the process: give Headway the path of a file")
        with self._lock:
            if self._live is None or self._live.pid != os.getpid():
                if self._live is not None:
                    _abandon(self._live)
                self._live = _Live(File(self._path, self._library, self._timeout_s, self.prefix))
            return self._live

    def _run_bare(self, op: Op[T], absent: T) -> T:
        file = self._opened().file
        with file.gate:
            conn = file.open_bare()
            if conn is None:
                return absent
            try:
                return drive(op.steps(), conn.run)
            finally:
                conn.close()


def _special(op: Op[T]) -> SqliteOp[T] | None:
    return op if isinstance(op, SqliteOp) else None


def _abandon(live: _Live) -> None:
    """Keep the parent's connections from being closed in the child: that would touch files that the parent uses."""
    live.file.closed()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(live))


_held: list[Writer] = []
_shut: list[Gate] = []


def _before_fork() -> None:
    # An open SQLite must not cross a fork: the child would believe that it has its parent's locks, and a mutex held by
    # another thread would stay locked forever. So while we fork, nobody reads or writes and nothing is open.
    for live in [store._live for store in list(_stores)]:
        if live is None or live.pid != os.getpid():
            continue
        if live.writer.pause(_FORK_PATIENCE_S):
            _held.append(live.writer)
            live.writer.disconnect()
        _shut.append(live.file.gate)
        if live.file.gate.shut(_FORK_PATIENCE_S):
            live.readers.disconnect()


def _after_fork_in_parent() -> None:
    while _shut:
        _shut.pop().open()
    while _held:
        _held.pop().resume()


def _after_fork_in_child() -> None:
    _shut.clear()
    _held.clear()
    for store in list(_stores):
        store._lock = threading.Lock()
        if store._live is not None:
            _abandon(store._live)
            store._live = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
