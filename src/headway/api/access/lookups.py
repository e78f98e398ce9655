"""Look-ups that requests share: those that want to know the same at the same moment wait for one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lookups(Generic[K, V]):
    """The look-ups under way. Each goes on when the request that began it goes away: others may wait for it."""

    def __init__(self, look_up: Callable[[K], Coroutine[Any, Any, V]]) -> None:
        self._look_up = look_up
        self._tasks: dict[K, asyncio.Task[V]] = {}

    def __contains__(self, key: K) -> bool:
        """Whether it is being looked up."""
        return key in self._tasks

    async def get(self, key: K) -> V:
        """What is found; raises what the look-up raised."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._look_up(key))
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)

    def _end(self, key: K, task: asyncio.Task[V]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # it may be that nobody waits any more, to whom it could be told
