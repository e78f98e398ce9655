"""Connections of one process: kept idle, last used first, opened by whoever needs one more.

A pool of its own because a caller must hear at once, with the reason, that the database is away, no thread may be
needed to connect, and a fork must find nothing but sockets to let go of.
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
from psycopg.types.string import TextLoader

from headway.errors import ConfigError
from headway.secrets import own, redact, show_url
from headway.store.postgres.engine.connection import TIMEOUT_S, AsyncConnection, Connection, NoAnswer
from headway.store.postgres.engine.decode import TimeLoader

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
        self._room: SimpleQueue[Place] = SimpleQueue()
        for _ in range(SIZE):
            self._room.put(Place(self._room))

    def acquire(self, timeout_s: float = TIMEOUT_S) -> Connection:
        """A connection that is nobody else's, until it is released; waits while too many are in use."""
        if self._pid != os.getpid():
            # after a fork the sockets are the parent's: let go of them without a word on the wire
            _abandoned.append(self._idle)
            self._reset()
        place = self._room.get()
        try:
            conn = self._take() or self._connect(timeout_s)
            conn.place, conn.timeout_s = place, timeout_s
        except BaseException:
            place.give_back()
            raise
        return conn

    def release(self, conn: Connection) -> None:
        """Back to the idle ones, unless it broke or is in the middle of something."""
        place = conn.place
        try:
            if conn.pgconn.transaction_status == _IDLE:
                self._idle.append(conn)
            else:
                if conn.broken:
                    self.forget()
                conn.close()
        finally:
            if place is not None:
                place.give_back()

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


class Place:
    """The right to one of a pool's connections. It is given back, or else comes back when nobody has it any more: a
    signal handler may raise between any two lines, and a place that was lost is one connection less for ever."""

    _given_back = True  # until it is made

    def __init__(self, room: SimpleQueue[Place]) -> None:
        self._room = weakref.ref(room)
        self._given_back = False

    def give_back(self) -> None:
        if not self._given_back:
            room = self._room()
            if room is not None:
                room.put(Place(room))
            self._given_back = True  # in this order: one too many, in the worst case, is better than one too few

    __del__ = give_back


class AsyncPool:
    """The same on event loops; each loop has connections of its own."""

    def __init__(self, url: str, size: int = SIZE) -> None:
        self._url = url
        self._size = size
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._of_loop: dict[asyncio.AbstractEventLoop, _OfLoop] = {}

    @asynccontextmanager
    async def connection(self, timeout_s: float = TIMEOUT_S, *, urgent: bool = False) -> AsyncIterator[AsyncConnection]:
        """The same as acquire and release; who is urgent does not wait for others' connections, but opens one more."""
        if self._pid != os.getpid():
            _abandoned.append(self._of_loop)
            self._reset()
        loop = asyncio.get_running_loop()
        mine = self._of_loop.get(loop)
        if mine is None:
            mine = await self._enter(loop)
        async with nullcontext() if urgent and mine.room.locked() else mine.room:
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
            # one that was closed without a word: nothing can be awaited there any more
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
        self.room = asyncio.Semaphore(size)
        self.keeper: AsyncGenerator[None] | None = None

    async def forget(self) -> None:
        while self.idle:
            await self.idle.pop().close()

    def finish(self) -> None:
        while self.idle:
            conn = self.idle.pop()
            conn.pgconn.finish()


def _shape(conn: Connection | AsyncConnection, backend: tuple[Any, ...] | None) -> None:
    """Ids travel as text, and JSON is decoded by its reader."""
    if backend == (conn.info.backend_pid,):
        conn.prepare_threshold = _PREPARE_AFTER
    for name in ("uuid", "json", "jsonb"):
        conn.adapters.register_loader(name, TextLoader)
    conn.adapters.register_loader("timestamptz", TimeLoader)
