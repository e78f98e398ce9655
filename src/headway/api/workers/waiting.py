"""Claims that wait for work: one poller per process looks for all of them, and wakes those that can take it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.config import Settings
from headway.worker.intervals import poll_interval
from headway.worker.loop import Loop
from headway.worker.wake import HintListener, News, folder_of

_NOBODY_WAITS_S = 60.0
_MOST_QUEUES = 1_000  # that are remembered: workers choose their names
_MOST_OF_OWNER = 2_000  # queues that the waiting claims of one tenant name, each as often as it is named
_TOLD_EVERY_S = 0.5  # who counts queues is told of new ones: that takes a while, for a thousand of them
_TRIED_AGAIN_S = 5.0  # a claim for some kinds only tries, if there is work, though a look has not met its kinds
_numbers = count()


class Waiter:
    """A claim that waits: for the jobs of one tenant (None: of all) and of these kinds (none: all) in some queues."""

    __slots__ = ("event", "kinds", "news", "number", "queues", "since", "tenant_id")

    def __init__(self, queues: Sequence[str], tenant_id: str | None, kinds: frozenset[str]) -> None:
        self.queues = queues
        self.tenant_id = tenant_id
        self.kinds = kinds
        self.event = asyncio.Event()
        self.news: tuple[str, News] | None = None  # what it was woken for
        self.number = next(_numbers)  # in order of arrival
        self.since = time.monotonic()

    def suits(self, news: News) -> bool:
        """Whether it may take such a job."""
        tenant_id, kind = news
        return self.tenant_id in (None, tenant_id) and (kind is None or not self.kinds or kind in self.kinds)


class WaitingClaims:
    """Holds no database connection while claims wait. `fleet` says how many workers share the polls of a queue."""

    def __init__(self, app: Headway, fleet: Callable[[str], int], on_queues: Callable[[Sequence[str]], None]) -> None:
        self._store = app.store
        self._settings: Settings = app.settings
        self._app_wake = app._wake
        self._fleet = fleet
        self._on_queues = on_queues
        self._waiting: dict[str, dict[str | None, dict[Waiter, None]]] = {}  # by queue and tenant, in order of arrival
        self._named: dict[str | None, int] = {}  # by tenant: how many queues its waiting claims name
        self._worked_at: dict[str, float] = {}
        self._queues: set[str] = set()  # those that somebody waits for, and has waited for lately
        self._untold = False  # there are queues that nobody was told of
        self._telling: asyncio.TimerHandle | None = None
        self._event_loop = asyncio.get_running_loop()
        self._hints: HintListener | None = None
        self._loop = Loop("looking for work", self._look, lambda: _NOBODY_WAITS_S)

    def start(self) -> None:
        self._loop.start()
        self._app_wake.add(self._on_enqueue)
        if self._settings.hints and (folder := folder_of(self._store.install_id)) is not None:
            self._hints = HintListener(folder, [], self._on_hint)
            self._hints.open()

    async def stop(self) -> None:
        self._app_wake.remove(self._on_enqueue)
        if self._telling is not None:
            self._telling.cancel()
        if self._hints is not None:
            self._hints.close()
        await self._loop.stop(1.0)

    async def wait(
        self,
        queues: Sequence[str],
        *,
        tenant_id: str | None,
        kinds: frozenset[str],
        until: float,
        unless: Sequence[asyncio.Future[Any]],
    ) -> bool:
        """Wait until one of these queues may have work for this claim; False if its time is over, or one of `unless` is
        done first: its client has gone away, or the server ends. Raises `Refused` if its tenant's claims wait for too
        many queues."""
        waiter = Waiter(queues, tenant_id, kinds)
        self._know(queues)
        self._add(waiter)
        woken = asyncio.ensure_future(waiter.event.wait())
        try:
            await asyncio.wait(
                (woken, *unless), timeout=max(until - time.monotonic(), 0.0), return_when=asyncio.FIRST_COMPLETED
            )
            over = any(each.done() for each in unless)
            if over and waiter.news is not None:
                self.wake(*waiter.news)  # the next in line
            return waiter.event.is_set() and not over
        finally:
            woken.cancel()
            self._remove(waiter)

    def waiters(self, queue: str) -> int:
        return sum(map(len, self._waiting.get(queue, {}).values()))

    def wake(self, queue: str, news: News) -> bool:
        """Wake the claim that has waited longest for such a job in this queue; gives whether there is one."""
        longest: Waiter | None = None
        for waiter in self._suiting(queue, news):
            if longest is None or waiter.number < longest.number:
                longest = waiter
        if longest is None:
            return False
        del self._waiting[queue][longest.tenant_id][longest]
        longest.news = queue, news
        longest.event.set()
        return True

    def wake_next(self, queues: Sequence[str], tenant_id: str | None) -> None:
        """There may be more jobs of this tenant (None: of any) in these queues."""
        for queue in queues:
            self.wake(queue, (tenant_id, None))
            if tenant_id is None and len(self._waiting.get(queue, ())) > 1:
                self.wake_all()

    def wake_all(self) -> None:
        """Any queue may have work."""
        self._loop.poke()

    def _suiting(self, queue: str, news: News) -> Iterator[Waiter]:
        """The first that may take such a job, of its tenant and of those for all tenants."""
        groups = self._waiting.get(queue, {})
        for tenant_id in {news[0], None}:
            for waiter in groups.get(tenant_id, ()):
                if waiter.suits(news):
                    yield waiter
                    break

    def _add(self, waiter: Waiter) -> None:
        named = self._named.get(waiter.tenant_id, 0) + len(waiter.queues)
        if named > _MOST_OF_OWNER:
            whose = "workers of all tenants" if waiter.tenant_id is None else "this tenant"
            raise Refused(
                429,
                f"the claims of {whose} wait for {_MOST_OF_OWNER:,} queues at this server already",
                fix="name fewer queues, or run fewer workers",
                headers={"Retry-After": "10"},
            )
        self._named[waiter.tenant_id] = named
        for queue in waiter.queues:
            groups = self._waiting.setdefault(queue, {})
            groups.setdefault(waiter.tenant_id, {})[waiter] = None
            if len(groups) == len(groups[waiter.tenant_id]) == 1:
                self._loop.poke()  # nobody has looked into this queue

    def _remove(self, waiter: Waiter) -> None:
        self._named[waiter.tenant_id] -= len(waiter.queues)
        if not self._named[waiter.tenant_id]:
            del self._named[waiter.tenant_id]
        for queue in waiter.queues:
            groups = self._waiting.get(queue, {})
            groups.get(waiter.tenant_id, {}).pop(waiter, None)
            if not groups.get(waiter.tenant_id):
                groups.pop(waiter.tenant_id, None)
            if not groups:
                self._waiting.pop(queue, None)

    def _know(self, queues: Sequence[str]) -> None:
        if self._queues.issuperset(queues):
            return
        if len(self._queues) > _MOST_QUEUES:
            self._queues = set(self._waiting)
        self._queues.update(queues)
        if self._telling is None:
            self._tell()
            self._telling = self._event_loop.call_later(_TOLD_EVERY_S, self._tell_again)
        else:
            self._untold = True

    def _tell(self) -> None:
        self._untold = False
        self._on_queues(sorted(self._queues))
        if self._hints is not None:
            self._hints.serve(self._queues)

    def _tell_again(self) -> None:
        self._telling = None
        if self._untold:
            self._tell()
            self._telling = self._event_loop.call_later(_TOLD_EVERY_S, self._tell_again)

    def _on_enqueue(self, queue: str | None, news: frozenset[News]) -> bool:
        """An enqueue in this process, from any thread."""
        with suppress(RuntimeError):  # the event loop is about to end
            if queue is None or not news:
                self._event_loop.call_soon_threadsafe(self.wake_all)
                return False
            if self._waiting.get(queue):
                self._event_loop.call_soon_threadsafe(self._wake_for, queue, news)
                return any(tenant_id in self._waiting.get(queue, ()) for each in news for tenant_id in (each[0], None))
        return False

    def _wake_for(self, queue: str, news: frozenset[News]) -> None:
        for each in news:
            self.wake(queue, each)

    def _on_hint(self, queue: str) -> bool:
        """Another process of this machine says that there is work, and not whose."""
        if queue in self._waiting:
            self.wake_all()
        return None in self._waiting.get(queue, ())

    async def _look(self) -> float:
        queues = list(self._waiting)
        if not queues:
            return _NOBODY_WAITS_S
        pairs = [(queue, tenant) for queue in queues for tenant in self._waiting[queue] if tenant is not None]
        found: list[tuple[str, str, str]] = await self._store.arun(self._store.ops.first_in_line(queues, pairs))
        now = time.monotonic()
        for queue, tenant_id, kind in found:
            self._worked_at[queue] = now
            self.wake(queue, (tenant_id, kind))
        for queue, tenant_id in dict.fromkeys((queue, tenant_id) for queue, tenant_id, _ in found):
            self._wake_one_for_kinds(queue, tenant_id, now)
        jitter = random.random()
        return min(self._interval(queue, now, jitter) for queue in queues)

    def _wake_one_for_kinds(self, queue: str, tenant_id: str, now: float) -> None:
        """There is work, but a look sees the first jobs only, and none of them is of the kinds that some wait for."""
        for each in (tenant_id, None):
            for waiter in self._waiting.get(queue, {}).get(each, ()):
                if waiter.kinds and now > waiter.since + _TRIED_AGAIN_S:
                    self.wake(queue, (tenant_id, next(iter(waiter.kinds))))
                    return

    def _interval(self, queue: str, now: float, jitter: float) -> float:
        return poll_interval(
            pace_ms=self._settings.pace_ms,
            idle_pace_ms=self._settings.idle_pace_ms,
            heartbeat_ms=self._settings.heartbeat_ms,
            fleet=self._fleet(queue),
            since_work_s=now - self._worked_at.get(queue, 0.0),
            jitter=jitter,
        )
