"""Work that would hold up the event loop: in a thread, where tenants take turns, or in small parts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_WORKED_S = 0.005


class Aside:
    """Threads share one interpreter: two pieces at once would take as long, and leave the event loop a third of it."""

    def __init__(self) -> None:
        self._room = asyncio.Lock()  # those who wait get it in order
        self._tenants: dict[str | None, asyncio.Lock] = {}

    async def run(self, tenant_id: str | None, work: Callable[[], T]) -> T:
        """What this gives, or raises. Of each tenant one waits for its turn beside the others'."""
        lock = self._tenants.setdefault(tenant_id, asyncio.Lock())
        try:
            async with lock, self._room:
                return await asyncio.to_thread(work)
        finally:
            if not lock.locked():  # a lock that is waited for is passed on, and stays locked
                self._tenants.pop(tenant_id, None)


class Breath:
    """For work of many parts on the event loop: lets others run after each few milliseconds of it."""

    def __init__(self) -> None:
        self._since = time.thread_time()

    async def take(self) -> None:
        """Between two parts."""
        if time.thread_time() - self._since > _WORKED_S:
            await asyncio.sleep(0)
            self._since = time.thread_time()
