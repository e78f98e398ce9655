"""PostgreSQL sessions that outlive the app or the worker that opened them.

A new session costs the server some 20 ms, until it has read the catalogue and compiled the functions. The sessions of a
database that serves test after test are kept for the stores of the tests to come.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from headway.store.postgres import store as postgres_store
from headway.store.postgres.engine.connection import AsyncConnection, Connection
from headway.store.postgres.engine.pool import AsyncPool, Pool, _OfLoop

_MOST = 4  # of a kind and database; tests that need more open them


class Sessions:
    """The idle sessions of one database, of this process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._async_idle: list[AsyncConnection] = []
        self._of_tests: list[psycopg.Connection[Any]] = []

    def backends(self) -> list[int]:
        """The ids of their server processes."""
        return [conn.info.backend_pid for conn in self._all()]

    def keep(self, conn: Connection) -> None:
        if self._is_mine() and not conn.closed and len(self._idle) < _MOST:
            self._idle.append(conn)
        else:
            conn.close()

    def keep_async(self, conn: AsyncConnection) -> None:
        if self._is_mine() and not conn.closed and len(self._async_idle) < _MOST:
            conn.lock = asyncio.Lock()  # of the next event loop
            self._async_idle.append(conn)
        else:
            conn.pgconn.finish()

    def take(self) -> Connection | None:
        while self._is_mine() and self._idle:
            if _is_alive(conn := self._idle.pop()):
                return conn
        return None

    def take_async(self) -> AsyncConnection | None:
        while self._is_mine() and self._async_idle:
            if _is_alive(conn := self._async_idle.pop()):
                return conn
        return None

    @contextmanager
    def one_for_test(self) -> Iterator[psycopg.Connection[Any]]:
        """A session for transactions that a test holds open beside the store's."""
        conn = self._of_tests.pop() if self._of_tests else psycopg.connect(self._url)
        yield conn
        with suppress(psycopg.Error):
            if not conn.closed and conn.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
                conn.rollback()
                conn.isolation_level = None
                conn.execute("select pg_advisory_unlock_all()")
                conn.execute("reset all")
                conn.commit()
                self._of_tests.append(conn)
                return
        conn.close()

    def close(self) -> None:
        for conn in self._all():
            conn.pgconn.finish()

    def _all(self) -> tuple[Connection | AsyncConnection | psycopg.Connection[Any], ...]:
        return *self._idle, *self._async_idle, *self._of_tests

    def _is_mine(self) -> bool:
        return self._pid == os.getpid()  # after a fork the sockets are the parent's


def _is_alive(conn: Connection | AsyncConnection) -> bool:
    """A server that sends something unasked has ended the session."""
    if conn.closed or select.select([conn.pgconn.socket], [], [], 0)[0]:
        conn.pgconn.finish()
        return False
    return True


_kept: dict[str, Sessions] = {}


def install() -> None:
    """Have all stores use the pools below; those of a database that keeps no sessions work as ever."""
    postgres_store.Pool, postgres_store.AsyncPool = _WarmPool, _WarmAsyncPool  # type: ignore[misc]


def keep_sessions(url: str, sessions: Sessions) -> None:
    """From now on the stores of this URL take their sessions from here, and leave them here."""
    _kept[url] = sessions


def keep_sessions_no_more(url: str) -> None:
    _kept.pop(url, None)


def kept_sessions(url: str) -> Sessions:
    return _kept[url]


class _WarmPool(Pool):
    def _connect(self, timeout_s: float) -> Connection:
        sessions = _kept.get(self._url)
        return (sessions and sessions.take()) or super()._connect(timeout_s)

    def release(self, conn: Connection) -> None:
        if conn.broken:
            super().forget()
        super().release(conn)

    def forget(self) -> None:
        sessions = _kept.get(self._url)
        if sessions is None:
            super().forget()
            return
        while conn := self._take():
            sessions.keep(conn)


class _WarmAsyncPool(AsyncPool):
    async def _connect(self, timeout_s: float) -> AsyncConnection:
        sessions = _kept.get(self._url)
        return (sessions and sessions.take_async()) or await super()._connect(timeout_s)

    async def forget(self) -> None:
        mine = self._of_loop.get(asyncio.get_running_loop())
        if mine is not None:
            await self._leave(mine)

    async def _keep(self, loop: asyncio.AbstractEventLoop, mine: _OfLoop) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._of_loop.pop(loop, None)
            await self._leave(mine)

    async def _leave(self, mine: _OfLoop) -> None:
        sessions = _kept.get(self._url)
        if sessions is None:
            await mine.forget()
            return
        while mine.idle:
            sessions.keep_async(mine.idle.pop())
