"""Connections that do not wait forever: one whose server stays silent is closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import waiting

T = TypeVar("T")

TIMEOUT_S = 60.0
_INTERVAL_S = 0.1  # how often a wait checks the clock
_CANCEL_S = 1.0  # how long to try to cancel what the server is doing
_ACTIVE = psycopg.pq.TransactionStatus.ACTIVE


class NoAnswer(psycopg.OperationalError):
    """The server was silent for too long: what it was asked may have been done or not."""


class Connection(psycopg.Connection[Any]):
    """For threads. `timeout_s` is how long the server may be silent while it owes an answer."""

    timeout_s: float | None = TIMEOUT_S

    def __del__(self, *_: Any) -> None:
        """No warning where an app was not closed: libpq's part closes itself, in the process that opened it."""

    slot: Any = None  # in the pool: given back when the connection is lost

    def wait(self, gen: Any, interval: float = _INTERVAL_S, timeout: float | None = None) -> Any:  # noqa: ARG002
        try:
            return waiting.wait(_impatient(gen, self.timeout_s), self.pgconn.socket, interval=interval)
        except BaseException as error:
            if _is_adrift(error):
                self._throw_away()
            raise

    def _throw_away(self) -> None:
        try:
            if self.pgconn.transaction_status == _ACTIVE:
                # else the server would finish work that nobody waits for
                with suppress(Exception):
                    self.cancel_safe(timeout=_CANCEL_S)
        finally:
            self.pgconn.finish()


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for event loops."""

    timeout_s: float | None = TIMEOUT_S
    sends_much = False  # what it is about to send takes a while to copy
    is_silent: Callable[[], bool] = staticmethod(lambda: False)  # in a pool: whether the server is presumed silent

    def __del__(self, *_: Any) -> None:
        """No warning where an app was not closed: libpq's part closes itself, in the process that opened it."""

    async def wait(self, gen: Any, interval: float = _INTERVAL_S, timeout: float | None = None) -> Any:  # noqa: ARG002
        try:
            if self.sends_much:
                gen = await in_thread(partial(_begun, gen))
            return await waiting.wait_async(_impatient(gen, self.timeout_s), self.pgconn.socket, interval=interval)
        except BaseException as error:
            if _is_adrift(error):
                await self._throw_away()
            raise

    async def _throw_away(self) -> None:
        try:
            if self.pgconn.transaction_status == _ACTIVE and not self.is_silent():
                with suppress(Exception):
                    async with asyncio.timeout(_CANCEL_S):
                        await self.cancel_safe(timeout=_CANCEL_S)
        finally:
            self.pgconn.finish()


async def in_thread(work: Callable[[], T]) -> T:
    """What this gives. Who is canceled waits for its end: the thread has what is about to be closed."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({working})
        working.exception()
        raise


def _begun(gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """The same after its first step, in which psycopg hands over what it sends."""
    try:
        wanted = next(gen)
    except StopIteration as end:
        return _over(end.value)
    return _resumed(gen, wanted)


def _resumed(gen: Generator[Any, Any, T], wanted: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            wanted = gen.send((yield wanted))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        gen.close()


def _over(value: T) -> Generator[Any, Any, T]:
    yield from ()
    return value


def _is_adrift(error: BaseException) -> bool:
    """Whether the wait ended without an answer: out of time, cancelled, or broken off by a signal handler."""
    return isinstance(error, NoAnswer) or not isinstance(error, psycopg.Error)


def _impatient(gen: Generator[Any, Any, T], timeout_s: float | None) -> Generator[Any, Any, T]:
    """Drive psycopg's generator, and raise `NoAnswer` when nothing moved on the wire for so long."""
    moved_at = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                moved_at = time.monotonic()
            elif timeout_s is not None and time.monotonic() - moved_at >= timeout_s:
                raise NoAnswer(f"the server gave no answer for {timeout_s:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        gen.close()
