"""Work that would hold up the event loop: in a thread, where tenants take turns, or in small parts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_WORKED_S = 0.005
_AT_ONCE_S = 0.002  # of a thread's work, while requests of others are under way
_LEFT_S = 0.004  # to the event loop after that
_this_thread = threading.local()


class Aside:
    """Threads share one interpreter: two pieces at once would take as long, and leave the event loop a third of it."""

    def __init__(self, is_crowded: Callable[[str | None], bool] = lambda _: False) -> None:
        """`is_crowded` says whether others than this tenant have requests under way; it is asked in threads."""
        self._is_crowded = is_crowded
        self._room = asyncio.Lock()  # those who wait get it in order
        self._tenants: dict[str | None, asyncio.Lock] = {}

    async def run(self, tenant_id: str | None, work: Callable[[], T]) -> T:
        """What this gives, or raises. Of each tenant one waits for its turn beside the others'."""
        lock = self._tenants.setdefault(tenant_id, asyncio.Lock())
        try:
            async with lock, self._room:
                return await asyncio.to_thread(self._work, tenant_id, work)
        finally:
            if not lock.locked():  # a lock that is waited for is passed on, and stays locked
                self._tenants.pop(tenant_id, None)

    def _work(self, tenant_id: str | None, work: Callable[[], T]) -> T:
        _this_thread.pauses = _Pauses(lambda: self._is_crowded(tenant_id))
        try:
            return work()
        finally:
            del _this_thread.pauses


class _Pauses:
    def __init__(self, is_crowded: Callable[[], bool]) -> None:
        self._is_crowded = is_crowded
        self._since = time.thread_time()

    def take(self) -> None:
        if time.thread_time() - self._since > _AT_ONCE_S:
            if self._is_crowded():
                time.sleep(_LEFT_S)
            self._since = time.thread_time()


def pause() -> None:
    """Between two parts of work that may be done aside. While others' requests are under way, it leaves them the
    interpreter for a moment now and then: the event loop gives it up at each look at a socket, and a thread that
    computes would have it again each time, for as long as threads switch."""
    pauses: _Pauses | None = getattr(_this_thread, "pauses", None)
    if pauses is not None:
        pauses.take()


class Breath:
    """For work of many parts on the event loop: lets others run after each few milliseconds of it."""

    def __init__(self) -> None:
        self._since = time.thread_time()

    async def take(self) -> None:
        """Between two parts."""
        if time.thread_time() - self._since > _WORKED_S:
            await asyncio.sleep(0)
            self._since = time.thread_time()
