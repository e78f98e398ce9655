"""Wake-ups: an enqueue wakes a worker of its own process, or hints at one in another, so nothing waits for a poll."""

from __future__ import annotations

import os
from collections.abc import Callable

Listener = Callable[[str | None], bool]
"""Told the queue; says whether this worker has a free slot there, so that nobody else need be told."""


class Wake:
    """Carries the name of a queue that got work (None: any may have) to this process's workers, from any thread."""

    def __init__(self, hint: Callable[[str], None] | None = None) -> None:
        self._hint = hint
        self._listeners: tuple[Listener, ...] = ()
        self._pid = 0

    def poke(self, queue: str | None) -> None:
        """Call it after the commit: a worker that claims now finds the job. None: it is not known in which queue."""
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
