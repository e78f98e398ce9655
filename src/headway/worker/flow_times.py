"""When a flow's sleeps, timers, timeouts and next tries are due, in the store's time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container

import msgspec

from headway.define.flow_run import Timed
from headway.model.journal import Row


class Due(msgspec.Struct, frozen=True):
    """The value of a `due` or `tried` row: seconds since 1970."""

    at: float


class FlowTimes:
    """By place. What is noted in the journal survives a crash; a short time need not."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due: dict[str, float] = {}
        self._noted: set[str] = set()
        self._order: list[tuple[float, str]] = []

    def set(self, place: str, timed: Timed, noted: list[Row]) -> None:
        """It is due as its note says, or else counted from now."""
        if noted:
            self.set_at(place, moment(noted[-1]))
        else:
            at = timed.at_s if timed.at_s is not None else self._now() + (timed.delay_s or 0.0)
            self.set_at(place, at, noted=False)

    def set_at(self, place: str, at: float, *, noted: bool = True) -> None:
        self._due[place] = at
        heapq.heappush(self._order, (at, place))
        if noted:
            self._noted.add(place)

    def drop(self, place: str) -> None:
        self._due.pop(place, None)

    def is_due(self, *, by: float | None = None) -> bool:
        """Whether something is due now, and was by then."""
        soonest, now = self.soonest(), self._now()
        return soonest is not None and soonest <= (now if by is None else min(by, now))

    def expired(self, *, by: float | None = None) -> list[str]:
        """The places that are due now, and were by then, in order of their times; they are dropped."""
        found = []
        now = self._now() if by is None else min(by, self._now())
        while self._order:
            at, place = self._order[0]
            if self._due.get(place) == at:
                if at > now:
                    break
                del self._due[place]
                found.append(place)
            heapq.heappop(self._order)
        return found

    def soonest(self) -> float | None:
        """When the next one is due."""
        while self._order and self._due.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)
        return self._order[0][0] if self._order else None

    def unnoted(self, *, beyond_s: float = 0.0, among: Container[str]) -> list[tuple[str, str]]:
        """What is not in the journal yet and due later than that: (place, value); it counts as noted from now on."""
        until = self._now() + beyond_s
        found = [(place, at) for place, at in self._due.items() if place not in self._noted and place in among]
        found = [(place, at) for place, at in found if not beyond_s or at > until]
        self._noted.update(place for place, _ in found)
        return [(place, due_text(at)) for place, at in found]


def due_text(at: float) -> str:
    return msgspec.json.encode(Due(round(at, 6))).decode()


def moment(row: Row) -> float:
    return msgspec.json.decode(row.value or b'{"at":0}', type=Due).at
