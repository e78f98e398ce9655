"""Claims that wait for work: one poller per process looks for all of them, and serves those of a queue in turn."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from headway.app import Headway
from headway.config import Settings
from headway.worker.intervals import poll_interval
from headway.worker.loop import Loop
from headway.worker.wake import HintListener, folder_of

_NOBODY_WAITS_S = 60.0
_MOST_QUEUES = 1_000  # that are remembered: workers choose their names


class WaitingClaims:
    """Holds no database connection while claims wait. `fleet` says how many workers share the polls of a queue."""

    def __init__(self, app: Headway, fleet: Callable[[str], int], on_queues: Callable[[Sequence[str]], None]) -> None:
        self._store = app.store
        self._settings: Settings = app.settings
        self._app_wake = app._wake
        self._fleet = fleet
        self._on_queues = on_queues
        self._waiting: dict[str, OrderedDict[asyncio.Event, None]] = {}  # by queue, in order of arrival
        self._worked_at: dict[str, float] = {}
        self._queues: set[str] = set()  # those that somebody waits for, and has waited for lately
        self._event_loop = asyncio.get_running_loop()
        self._hints: HintListener | None = None
        self._loop = Loop("looking for work", self._look, lambda: _NOBODY_WAITS_S)

    def start(self) -> None:
        self._loop.start()
        self._app_wake.add(self._on_enqueue)
        if self._settings.hints and (folder := folder_of(self._store.install_id)) is not None:
            self._hints = HintListener(folder, [], self.wake)
            self._hints.open()

    async def stop(self) -> None:
        self._app_wake.remove(self._on_enqueue)
        if self._hints is not None:
            self._hints.close()
        await self._loop.stop(1.0)

    async def wait(self, queues: Sequence[str], *, until: float, unless: Sequence[asyncio.Future[Any]]) -> bool:
        """Wait until one of these queues may have work for this claim; False if its time is over, or one of `unless` is
        done first: its client has gone away, or the server ends."""
        event = asyncio.Event()
        self._know(queues)
        for queue in queues:
            self._waiting.setdefault(queue, OrderedDict())[event] = None
        if any(len(self._waiting[queue]) == 1 for queue in queues):
            self._loop.poke()
        woken = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait(
                (woken, *unless), timeout=max(until - time.monotonic(), 0.0), return_when=asyncio.FIRST_COMPLETED
            )
            over = any(each.done() for each in unless)
            if event.is_set() and over:
                self._pass_on(queues)
            return event.is_set() and not over
        finally:
            woken.cancel()
            for queue in queues:
                waiting = self._waiting.get(queue)
                if waiting is not None:
                    waiting.pop(event, None)
                    if not waiting:
                        del self._waiting[queue]

    def wake(self, queue: str) -> bool:
        """Wake the claim that has waited longest for this queue; gives whether there is one."""
        waiting = self._waiting.get(queue)
        while waiting:
            event, _ = waiting.popitem(last=False)
            if not event.is_set():
                event.set()
                return True
        return False

    def wake_all(self) -> None:
        """Any queue may have work."""
        self._loop.poke()

    def _pass_on(self, queues: Sequence[str]) -> None:
        for queue in queues:
            self.wake(queue)

    def _know(self, queues: Sequence[str]) -> None:
        if self._queues.issuperset(queues):
            return
        if len(self._queues) > _MOST_QUEUES:
            self._queues = set(self._waiting)
        self._queues.update(queues)
        self._on_queues(sorted(self._queues))
        if self._hints is not None:
            self._hints.serve(self._queues)

    def _on_enqueue(self, queue: str | None) -> bool:
        """An enqueue in this process, from any thread."""
        with suppress(RuntimeError):  # the event loop is about to end
            if queue is None:
                self._event_loop.call_soon_threadsafe(self.wake_all)
                return False
            if self._waiting.get(queue):
                self._event_loop.call_soon_threadsafe(self.wake, queue)
                return True
        return False

    async def _look(self) -> float:
        queues = list(self._waiting)
        if not queues:
            return _NOBODY_WAITS_S
        found: list[str] = await self._store.arun(self._store.ops.claimable(queues))
        now = time.monotonic()
        for queue in found:
            self._worked_at[queue] = now
            self.wake(queue)
        jitter = random.random()
        return min(self._interval(queue, now, jitter) for queue in queues)

    def _interval(self, queue: str, now: float, jitter: float) -> float:
        return poll_interval(
            pace_ms=self._settings.pace_ms,
            idle_pace_ms=self._settings.idle_pace_ms,
            heartbeat_ms=self._settings.heartbeat_ms,
            fleet=self._fleet(queue),
            since_work_s=now - self._worked_at.get(queue, 0.0),
            jitter=jitter,
        )
