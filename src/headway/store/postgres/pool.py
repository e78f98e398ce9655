"""Connections of one process: kept idle, last used first, opened by whoever needs one more.

A pool of its own because a caller must hear at once, with the reason, that the database is away, no thread may be
needed to connect, and a fork must find nothing but sockets to let go of.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import TextLoader

SIZE = 8
"""The most connections of an app, for its threads and for each event loop."""
WORKER_SIZE = 3
"""The most of a worker itself: a claim, a settle, and the rest one after another, the heartbeat among them."""

# a connection that hangs is as bad as one that broke; the URL may say otherwise
_DEFAULTS: dict[str, Any] = {
    "application_name": "headway",
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_FIXED: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
# What is said again and again is prepared, where this session is the server's own: a pooler gives a backend to others
# between two transactions, who may have prepared something else under the same name. It also makes up the key for
# cancelling, of which the process id is a part.
_PREPARE_AFTER = 3
_BACKEND = "select pg_catalog.pg_backend_pid()"

_IDLE = psycopg.pq.TransactionStatus.IDLE

_abandoned: list[Any] = []


class CannotConnect(psycopg.OperationalError):
    """There was no connection, so nothing can have been written."""


def parameters(url: str) -> dict[str, Any]:
    """What to connect with."""
    return {**_DEFAULTS, **conninfo_to_dict(url), **_FIXED}


class Pool:
    """Blocking connections, for any thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[psycopg.Connection[Any]] = []
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(SIZE):
            self._room.put(None)

    def acquire(self) -> psycopg.Connection[Any]:
        """A connection that is nobody else's, until it is released; waits while too many are in use."""
        if self._pid != os.getpid():
            # after a fork the sockets are the parent's: let go of them without a word on the wire
            _abandoned.append(self._idle)
            self._reset()
        self._room.get()
        try:
            return self._take() or self._connect()
        except BaseException:
            self._room.put(None)
            raise

    def release(self, conn: psycopg.Connection[Any]) -> None:
        """Back to the idle ones, unless it broke or is in the middle of something."""
        try:
            if conn.pgconn.transaction_status == _IDLE:
                self._idle.append(conn)
            else:
                if conn.broken:
                    self.forget()
                conn.close()
        finally:
            self._room.put(None)

    def forget(self) -> None:
        """Close the idle connections: when one broke, the others are not to be trusted."""
        while conn := self._take():
            conn.close()

    def _take(self) -> psycopg.Connection[Any] | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self) -> psycopg.Connection[Any]:
        conn: psycopg.Connection[Any] | None = None
        try:
            conn = psycopg.connect(**parameters(self._url))
            _shape(conn, conn.execute(_BACKEND).fetchone())
        except BaseException as error:
            if conn is not None:
                conn.close()
            if isinstance(error, psycopg.OperationalError):
                raise CannotConnect(str(error)) from error
            raise
        return conn


class AsyncPool:
    """The same on event loops; each loop has connections of its own."""

    def __init__(self, url: str, size: int = SIZE) -> None:
        self._url = url
        self._size = size
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = weakref.WeakKeyDictionary()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        if self._pid != os.getpid():
            _abandoned.append(self._of_loop)
            self._reset()
        loop = asyncio.get_running_loop()
        mine = self._of_loop.get(loop)
        if mine is None:
            mine = self._of_loop[loop] = _OfLoop(self._size)
            weakref.finalize(loop, _finish, os.getpid(), mine.idle).atexit = False
        async with mine.room:
            conn = mine.idle.pop() if mine.idle else await self._connect()
            try:
                yield conn
            except BaseException:
                if conn.broken:
                    await mine.forget()
                raise
            finally:
                if conn.broken or conn.pgconn.transaction_status != _IDLE:
                    await conn.close()
                else:
                    mine.idle.append(conn)

    async def forget(self) -> None:
        mine = self._of_loop.get(asyncio.get_running_loop())
        if mine is not None:
            await mine.forget()

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        conn: psycopg.AsyncConnection[Any] | None = None
        try:
            conn = await psycopg.AsyncConnection.connect(**parameters(self._url))
            _shape(conn, await (await conn.execute(_BACKEND)).fetchone())
        except BaseException as error:
            if conn is not None:
                await conn.close()
            if isinstance(error, psycopg.OperationalError):
                raise CannotConnect(str(error)) from error
            raise
        return conn


class _OfLoop:
    def __init__(self, size: int) -> None:
        self.idle: list[psycopg.AsyncConnection[Any]] = []
        self.room = asyncio.Semaphore(size)

    async def forget(self) -> None:
        while self.idle:
            await self.idle.pop().close()


def _finish(pid: int, idle: list[psycopg.AsyncConnection[Any]]) -> None:
    """Close what an event loop left open when it went: nothing can be awaited any more."""
    for conn in idle if pid == os.getpid() else ():
        conn.pgconn.finish()


def _shape(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], backend: tuple[Any, ...] | None) -> None:
    """Ids travel as text, and JSON is decoded by its reader."""
    if backend == (conn.info.backend_pid,):
        conn.prepare_threshold = _PREPARE_AFTER
    for name in ("uuid", "json", "jsonb"):
        conn.adapters.register_loader(name, TextLoader)
