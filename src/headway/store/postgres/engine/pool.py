"""Connections of one process: kept idle, last used first, opened when one more is needed.

A pool of our own because a caller must learn at once, with the reason, that the database is away, connecting must not
need a thread, and after a fork there must be nothing to clean up but sockets.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from queue import SimpleQueue
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headway.errors import ConfigError
from headway.secrets import own, redact, show_url
from headway.store.postgres.engine.connection import TIMEOUT_S, AsyncConnection, Connection, NoAnswer
from headway.store.postgres.engine.decode import register_text_loaders

SIZE = 8
"""The most connections of an app, for its threads and for each event loop."""
WORKER_SIZE = 3
"""The most connections of a worker itself: one claims, one settles, one does the rest, the heartbeat included."""

# a dead peer is noticed within 30 seconds; the URL may say otherwise
_DEFAULTS: dict[str, Any] = {
    "application_name": "headway",
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_FIXED: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
# Statements are prepared after three uses, but not behind a pooler: it gives a backend to others between transactions,
# who may have prepared something else under the same name. A pooler shows by the backend's process id, which is not the
# one that it announced.
_PREPARE_AFTER = 3
_BACKEND = "select pg_catalog.pg_backend_pid()"

_IDLE = psycopg.pq.TransactionStatus.IDLE

_abandoned: list[Any] = []


class CannotConnect(psycopg.OperationalError):
    """There was no connection, so nothing can have been written."""


def parameters(url: str) -> dict[str, Any]:
    """What to connect with; raises `ConfigError` for what is no URL."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # from None: the driver's own words may show the password
        raise ConfigError(redact(f"the database URL {show_url(url)} cannot be read: {error}".strip(), own())) from None
    return {**_DEFAULTS, **given, **_FIXED}


class Pool:
    """Blocking connections, for any thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._slots: SimpleQueue[Slot] = SimpleQueue()
        for _ in range(SIZE):
            self._slots.put(Slot(self._slots))

    def acquire(self, timeout_s: float = TIMEOUT_S) -> Connection:
        """A connection for the caller alone, until it is released; waits while all are in use."""
        if self._pid != os.getpid():
            # after a fork the sockets are the parent's: drop them without sending anything
            _abandoned.append(self._idle)
            self._reset()
        slot = self._slots.get()
        try:
            conn = self._take() or self._connect(timeout_s)
            conn.slot, conn.timeout_s = slot, timeout_s
        except BaseException:
            slot.give_back()
            raise
        return conn

    def release(self, conn: Connection) -> None:
        """Keep it idle for the next caller, unless it broke or a transaction is open."""
        slot = conn.slot
        try:
            if conn.pgconn.transaction_status == _IDLE:
                self._idle.append(conn)
            else:
                if conn.broken:
                    self.forget()
                conn.close()
        finally:
            if slot is not None:
                slot.give_back()

    def forget(self) -> None:
        """Close the idle connections: when one broke, the others are not to be trusted."""
        while conn := self._take():
            conn.close()

    def _take(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self, timeout_s: float) -> Connection:
        conn: Connection | None = None
        try:
            conn = Connection.connect(**parameters(self._url))
            conn.timeout_s = timeout_s
            _shape(conn, conn.execute(_BACKEND).fetchone())
        except BaseException as error:
            if conn is not None:
                conn.close()
            if isinstance(error, psycopg.OperationalError) and not isinstance(error, NoAnswer):
                raise CannotConnect(str(error)) from error
            raise
        return conn


class Slot:
    """The right to one of a pool's connections. If nobody gives it back, the garbage collector does: a signal handler
    may raise between any two lines, and a lost slot would be one connection less for good."""

    _given_back = True  # until it is made

    def __init__(self, slots: SimpleQueue[Slot]) -> None:
        self._slots = weakref.ref(slots)
        self._given_back = False

    def give_back(self) -> None:
        if not self._given_back:
            slots = self._slots()
            if slots is not None:
                slots.put(Slot(slots))
            self._given_back = True  # last: at worst there is one slot too many, never one too few

    __del__ = give_back


class AsyncPool:
    """The same on event loops; each loop has connections of its own."""

    def __init__(self, url: str, size: int = SIZE) -> None:
        self._url = url
        self._size = size
        self.silent = False  # the server is presumed not to answer
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._of_loop: dict[asyncio.AbstractEventLoop, _OfLoop] = {}

    @asynccontextmanager
    async def connection(self, timeout_s: float = TIMEOUT_S, *, urgent: bool = False) -> AsyncIterator[AsyncConnection]:
        """Acquire and release; an urgent caller does not wait for a free connection, but opens one more."""
        if self._pid != os.getpid():
            _abandoned.append(self._of_loop)
            self._reset()
        loop = asyncio.get_running_loop()
        mine = self._of_loop.get(loop)
        if mine is None:
            mine = await self._enter(loop)
        async with nullcontext() if urgent and mine.slots.locked() else mine.slots:
            conn = mine.idle.pop() if mine.idle else await self._connect(timeout_s)
            conn.timeout_s = timeout_s
            try:
                yield conn
            except BaseException:
                if conn.broken:
                    await mine.forget()
                raise
            finally:
                if conn.broken or conn.pgconn.transaction_status != _IDLE or len(mine.idle) >= self._size:
                    await conn.close()
                else:
                    mine.idle.append(conn)

    async def forget(self) -> None:
        mine = self._of_loop.get(asyncio.get_running_loop())
        if mine is not None:
            await mine.forget()

    async def _enter(self, loop: asyncio.AbstractEventLoop) -> _OfLoop:
        for other in list(self._of_loop):
            # a loop that was closed without closing its generators: nothing can be awaited there any more
            if other.is_closed() and (gone := self._of_loop.pop(other, None)) is not None:
                gone.finish()
        mine = self._of_loop[loop] = _OfLoop(self._size)
        mine.keeper = self._keep(loop, mine)
        await anext(mine.keeper)
        return mine

    async def _keep(self, loop: asyncio.AbstractEventLoop, mine: _OfLoop) -> AsyncGenerator[None]:
        """Waits for the end of the event loop, which closes its generators (`asyncio.run` does) before itself."""
        try:
            yield
        finally:
            self._of_loop.pop(loop, None)
            await mine.forget()

    async def _connect(self, timeout_s: float) -> AsyncConnection:
        conn: AsyncConnection | None = None
        try:
            conn = await AsyncConnection.connect(**parameters(self._url))
            conn.timeout_s = timeout_s
            conn.is_silent = lambda: self.silent
            _shape(conn, await (await conn.execute(_BACKEND)).fetchone())
        except BaseException as error:
            if conn is not None:
                await conn.close()
            if isinstance(error, psycopg.OperationalError) and not isinstance(error, NoAnswer):
                raise CannotConnect(str(error)) from error
            raise
        return conn


class _OfLoop:
    def __init__(self, size: int) -> None:
        self.idle: list[AsyncConnection] = []
        self.slots = asyncio.Semaphore(size)
        self.keeper: AsyncGenerator[None] | None = None

    async def forget(self) -> None:
        while self.idle:
            await self.idle.pop().close()

    def finish(self) -> None:
        while self.idle:
            conn = self.idle.pop()
            conn.pgconn.finish()


def _shape(conn: Connection | AsyncConnection, backend: tuple[Any, ...] | None) -> None:
    if backend == (conn.info.backend_pid,):
        conn.prepare_threshold = _PREPARE_AFTER
    register_text_loaders(conn.adapters)
