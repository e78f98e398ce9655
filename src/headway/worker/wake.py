"""The wake-up inside a process: who enqueues here tells the workers here, so nothing waits for a poll."""

from __future__ import annotations

import os
from collections.abc import Callable

from headway.model.job import NewJob
from headway.worker.handover import Kept

Listener = Callable[[str | None], None]
Keeper = Callable[[NewJob], Kept | None]


class Wake:
    """Carries the name of a queue that got work (None: any may have) to this process's workers, from any thread."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._keepers: tuple[Keeper, ...] = ()
        self._pid = 0

    def poke(self, queue: str | None) -> None:
        """Call it after the commit: a worker that claims now finds the job. None: it is not known in which queue."""
        # a forked child has a copy of the listeners, but their event loops run in the parent
        if self._listeners and os.getpid() == self._pid:
            for listener in self._listeners:
                listener(queue)

    def keep(self, job: NewJob) -> Kept | None:
        """A slot of a worker of this process, for a job that is about to be enqueued; None: no worker has one."""
        if self._keepers and os.getpid() == self._pid:
            for keeper in self._keepers:
                if (kept := keeper(job)) is not None:
                    return kept
        return None

    def add(self, listener: Listener, keeper: Keeper | None = None) -> None:
        if self._pid != os.getpid():
            self._listeners, self._keepers = (), ()
            self._pid = os.getpid()
        self._listeners = (*self._listeners, listener)
        if keeper is not None:
            self._keepers = (*self._keepers, keeper)

    def remove(self, listener: Listener, keeper: Keeper | None = None) -> None:
        self._listeners = tuple(known for known in self._listeners if known != listener)
        self._keepers = tuple(known for known in self._keepers if known != keeper)
