"""Threads for plain functions: daemons, so that one that never ends does not keep the process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

Ended = tuple[Any, BaseException | None]
"""What a function returned, or what it raised. A pair, because asyncio's futures take no StopIteration."""


class Threads:
    """Runs functions in up to `size` threads, which are kept for the next ones."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._inbox: SimpleQueue[tuple[Future[Ended], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, call: Callable[[], Any]) -> Future[Ended]:
        future: Future[Ended] = Future()
        if not self._idle.acquire(blocking=False) and self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name=f"headway-{self._threads}", daemon=True).start()
        self._inbox.put((future, call))
        return future

    def close(self) -> None:
        """Let the idle threads end."""
        for _ in range(self._threads):
            self._inbox.put(None)

    def _work(self) -> None:
        while (item := self._inbox.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                future.set_result(_ended(call))
            del item, future, call  # an idle thread keeps nothing alive
            self._idle.release()


def _ended(call: Callable[[], Any]) -> Ended:
    try:
        return call(), None
    except BaseException as error:
        return None, error
