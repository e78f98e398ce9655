"""Answers 503 while the database is silent. A dead server refuses connections, which every request notices at once; one
that hangs, or a network that swallows everything, would keep requests waiting for as long as a long query may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from headway.app import Headway
from headway.errors import HeadwayError, StoreUnavailable
from headway.logs import get_logger
from headway.store.patience import lock_patience_s

_log = get_logger("headway.api")
# together less than a second, after which a request is answered 503
_TICK_S = 0.05
_SLOW_S = 0.2  # a request that takes longer makes us ask whether the database is there at all
_EVERY_S = 1.0  # how often to ask while requests take long
_LOCKED_S = 0.7  # how long a request waits for a SQLite file that another process keeps locked, and does not write to
_SILENCE_TICKS = 13  # it answers a question about nothing within this many, or is taken for silent


class DatabaseWatch:
    """Asks the database for the time when requests take long; if it is silent, ends them, and refuses new ones until
    it answers again. While requests are quick it asks nothing."""

    def __init__(self, app: Headway) -> None:
        self._app = app
        self._open: dict[asyncio.Timeout, float] = {}  # requests under way, and since when
        self._task: asyncio.Task[None] | None = None
        self._silent = False
        self._asked = 0.0

    def request(self) -> AbstractAsyncContextManager[None]:
        """Raises `StoreUnavailable` when the database is silent."""
        return _Hurried() if self._app.store.dialect == "sqlite" else self._watched()  # a file is not silent

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        if self._silent:
            raise _silent()
        limit = asyncio.timeout(None)
        self._open[limit] = time.monotonic()
        try:
            async with limit:
                yield
        except TimeoutError:
            if limit.expired():
                raise _silent() from None
            raise
        finally:
            self._open.pop(limit, None)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch(self) -> None:
        """Lives while there are requests."""
        while self._open or self._silent:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            slow = [since + _SLOW_S for since in self._open.values() if now - since > _SLOW_S]
            # once for each that has become slow since the last time, and again for those that take long
            if self._silent or any(self._asked < at for at in slow) or (slow and now - self._asked > _EVERY_S):
                self._asked = now
                await self._ask()

    async def _ask(self) -> None:
        store = self._app.store
        question = asyncio.create_task(store.arun(store.ops.now()))
        # ticks, not a second by the clock: while this process is held up itself, nobody reads an answer that is there
        for _ in range(_SILENCE_TICKS):
            done, _pending = await asyncio.wait({question}, timeout=_TICK_S)
            if done:
                break
        else:
            self._set_silent(True)  # first: it is not worth asking a silent server to break off what it does
            for limit in list(self._open):
                limit.reschedule(0)
            question.cancel()
            await asyncio.gather(question, return_exceptions=True)
            return
        try:
            question.result()
        except HeadwayError:
            return  # it says so itself, to every request
        self._set_silent(False)

    def _set_silent(self, silent: bool) -> None:
        if silent != self._silent:
            _log.error("the database is silent") if silent else _log.info("the database answers again")
            self._silent = silent
            self._app.store.presume_silent(silent)


class _Hurried:
    """A request that is answered 503 while another process keeps the file locked."""

    async def __aenter__(self) -> None:
        self._token = lock_patience_s.set(_LOCKED_S)

    async def __aexit__(self, *_: object) -> None:
        lock_patience_s.reset(self._token)


def _silent() -> StoreUnavailable:
    return StoreUnavailable("the database does not answer. It may have been written or not; repeating it is safe")
