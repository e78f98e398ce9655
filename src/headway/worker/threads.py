"""Threads for sync handlers: daemons, so that one that never ends does not keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Ended = tuple["asyncio.Future[tuple[Any, BaseException | None]]", Any, BaseException | None, Callable[[], None]]


class Threads:
    """Runs functions in up to `size` threads. A thread cannot be killed, so its end is always reported."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._inbox: SimpleQueue[tuple[Callable[[], Any], Any, Callable[[], None]] | None] = SimpleQueue()
        self._ended: deque[Ended] = deque()
        self._collecting = False
        self._threads = 0
        self._busy = 0

    async def call(self, fn: Callable[[], Any], on_end: Callable[[], None]) -> Any:
        """Gives what `fn` returns or raises; calls `on_end` on the event loop once the thread is free."""
        # a pair and not an exception: a future takes no StopIteration, and SystemExit must not reach the loop
        value, error = await self.begin(fn, on_end)
        if error is not None:
            raise error
        return value

    def begin(
        self, fn: Callable[[], Any], on_end: Callable[[], None]
    ) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """The same at once, for who does not wait; what it returned, and what it raised."""
        future: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        self._busy += 1
        if self._busy > self._threads and self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name=f"headway-{self._threads}", daemon=True).start()
        self._inbox.put((fn, future, on_end))
        return future

    def close(self) -> None:
        """Let the idle threads end."""
        for _ in range(self._threads):
            self._inbox.put(None)

    def _work(self) -> None:
        while (item := self._inbox.get()) is not None:
            fn, future, on_end = item
            value = error = None
            try:
                value = fn()
            except BaseException as raised:
                error = raised
            self._ended.append((future, value, error, on_end))
            del item, fn, future, on_end, value, error
            # one wake-up of the event loop for all threads that end before it runs
            if not self._collecting:
                self._collecting = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    return  # the event loop is closed: nobody waits any more

    def _collect(self) -> None:
        self._collecting = False
        while self._ended:
            future, value, error, on_end = self._ended.popleft()
            self._busy -= 1
            on_end()
            if not future.done():
                future.set_result((value, error))
