"""Look-ups that requests share: those that ask for the same at the same time wait for one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Shared(Generic[V]):
    def __init__(self, task: asyncio.Task[V]) -> None:
        self.task = task
        self.waiting = 0


class Lookups(Generic[K, V]):
    """The look-ups under way. One goes on while any request waits for it, even if the one that began it was canceled.
    With the last of them it is canceled too: the database may be silent, and the next request asks on a new connection.
    """

    def __init__(self, look_up: Callable[[K], Coroutine[Any, Any, V]]) -> None:
        self._look_up = look_up
        self._shared: dict[K, _Shared[V]] = {}

    def __contains__(self, key: K) -> bool:
        """Whether it is being looked up now."""
        return key in self._shared

    async def get(self, key: K) -> V:
        """What is found; raises what the look-up raised."""
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = _Shared(asyncio.create_task(self._look_up(key)))
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiting -= 1
            if not shared.waiting and self._shared.get(key) is shared:
                del self._shared[key]
                shared.task.cancel()
