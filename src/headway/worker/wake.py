"""Wake-ups: an enqueue wakes a worker of its own process, or sends a hint to another; no job waits for a poll."""

from __future__ import annotations

import os
from collections.abc import Callable

Listener = Callable[[str | None], bool]
"""Gets the queue; returns whether this worker has a free slot there, so that no other needs to be woken."""


class Wake:
    """Tells the workers of this process, from any thread, that a queue got work."""

    def __init__(self, hint: Callable[[str], None] | None = None) -> None:
        self._hint = hint
        self._listeners: tuple[Listener, ...] = ()
        self._pid = 0

    def poke(self, queue: str | None) -> None:
        """Call it after the commit, so that a claim finds the job. None: any queue may have work."""
        # a forked child has a copy of the listeners, but their event loops run in the parent
        listeners = self._listeners if self._listeners and os.getpid() == self._pid else ()
        taken = [listener(queue) for listener in listeners]
        if self._hint is not None and queue is not None and True not in taken:
            self._hint(queue)

    def add(self, listener: Listener) -> None:
        if self._pid != os.getpid():
            self._listeners = ()
            self._pid = os.getpid()
        self._listeners = (*self._listeners, listener)

    def remove(self, listener: Listener) -> None:
        self._listeners = tuple(known for known in self._listeners if known != listener)
