"""Pages that stay true while somebody looks at them: one stream for a tab, one look at the database a second for a
tenant, however many tabs are open."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from headway.api.streams import EventStream
from headway.api.wire.problems import Refused
from headway.dashboard.shown.times import without_ages
from headway.errors import HeadwayError
from headway.logs import get_logger

_log = get_logger("headway.dashboard")

EVERY_S = 1.0
"""How often a tenant's next page is rendered. Pages take turns: of five different ones, each comes every 5 seconds."""
_MOST_TABS = 1_000
_MOST_OF_VISITOR = 100
_MOST_WAITING = 20  # parts that a slow browser has not taken; it is dropped, and comes back by itself
_encode = msgspec.json.Encoder().encode

Parts = Callable[[], Awaitable[dict[str, str]]]


Part = tuple[str, str, bytes]
"""Its id, what it says without ages, and the event that shows it: made once for all tabs of a view."""


def part_of(name: str, html: str) -> Part:
    return name, without_ages(html), b"event: part\ndata: %b\n\n" % _encode({"id": name, "html": html})


class Tab:
    """One open stream: what its page shows, and what is still to be sent."""

    def __init__(self) -> None:
        self.dropped = False
        self.over = False  # a stream of a page never ends by itself
        self._shown: dict[str, str] = {}
        self._to_send: deque[bytes] = deque()
        self._waiting = asyncio.Event()

    async def next(self) -> bytes:
        while not self._to_send:
            self._waiting.clear()
            await self._waiting.wait()
        sent = b"".join(self._to_send)
        self._to_send.clear()
        return sent

    def show(self, parts: Sequence[Part]) -> None:
        """Send those parts that differ from what the tab shows, ages aside."""
        for name, said, event in parts:
            if self._shown.get(name) != said:
                self._shown[name] = said
                self._to_send.append(event)
        self._to_send.append(b": still here\n\n")
        if len(self._to_send) > _MOST_WAITING:
            self.dropped = True
            self._to_send.clear()
        self._waiting.set()


class _View:
    """A page as one visitor sees it, and the tabs that show it."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.tabs: set[Tab] = set()


class Live:
    """The open tabs of a process."""

    def __init__(self) -> None:
        self._turns: dict[str | None, _Turns] = {}
        self._visitors: Counter[str] = Counter()  # how many tabs each has open

    def stream(
        self,
        *,
        tenant: str | None,
        visitor: str,
        view: str,
        parts: Parts,
        allowed: Callable[[], Awaitable[Any]],
        stopping: asyncio.Event,
    ) -> Response:
        turns = self._turns.get(tenant)
        if turns is None:
            turns = self._turns[tenant] = _Turns()
        if turns.count >= _MOST_TABS:
            raise Refused(429, f"{_MOST_TABS:,} tabs are open already", headers={"Retry-After": "30"})
        if self._visitors[visitor] >= _MOST_OF_VISITOR:
            said = f"{_MOST_OF_VISITOR:,} tabs are open with this key already"
            raise Refused(429, said, headers={"Retry-After": "30"})
        tab = Tab()
        self._visitors[visitor] += 1
        turns.add(view, parts, tab)

        def leave() -> None:
            turns.remove(view, tab)
            self._visitors[visitor] -= 1
            if not self._visitors[visitor]:
                del self._visitors[visitor]
            if not turns.count and self._turns.get(tenant) is turns:
                del self._turns[tenant]
                turns.end()

        return EventStream(tab, leave=leave, allowed=allowed, stopping=stopping)

    @property
    def tabs(self) -> int:
        return sum(turns.count for turns in tuple(self._turns.values()))

    async def aclose(self) -> None:
        for each in self._turns.values():
            each.end()
        self._turns.clear()


class _Turns:
    """The pages of one tenant that are open somewhere; each is rendered again in turn, for all tabs that show it."""

    def __init__(self) -> None:
        self._views: OrderedDict[str, _View] = OrderedDict()
        self._task = asyncio.create_task(self._run())

    @property
    def count(self) -> int:
        return sum(len(each.tabs) for each in self._views.values())

    def add(self, name: str, parts: Parts, tab: Tab) -> None:
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = _View(parts)
        view.tabs.add(tab)

    def remove(self, name: str, tab: Tab) -> None:
        view = self._views.get(name)
        if view is not None:
            view.tabs.discard(tab)
            if not view.tabs:
                del self._views[name]

    def end(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if not self._views:
                continue
            name, view = next(iter(self._views.items()))
            self._views.move_to_end(name)
            # one that opens meanwhile shows a page that may be newer than what is read now
            tabs = tuple(view.tabs)
            try:
                parts = [part_of(name, html) for name, html in (await view.parts()).items()]
            except (HeadwayError, Refused):
                continue  # the tab shows that it is out of date; a reload shows the error
            except Exception as error:
                _log.error("a page could not be rendered again", exc_info=error)
                continue
            for tab in tabs:
                tab.show(parts)
