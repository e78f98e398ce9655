"""Which queues a worker serves: names and patterns in order, the slots of each, and which comes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from headway.errors import ConfigError, InvalidJob

Order = Literal["turns", "strict", "weights"]
_PATTERN = re.compile(r"[A-Za-z0-9_*][A-Za-z0-9_.:/*-]{0,127}\Z")


class Entry(msgspec.Struct, frozen=True):
    """A queue, or all queues that a pattern matches and no entry before it: together they have these slots."""

    pattern: str
    slots: int | None = None  # None: all of the worker's
    weight: int = 1

    @property
    def is_pattern(self) -> bool:
        return "*" in self.pattern

    def matches(self, queue: str) -> bool:
        """
        >>> Entry("report-*").matches("report-eu"), Entry("report-*").matches("mail")
        (True, False)
        """
        return _expression(self.pattern).fullmatch(queue) is not None if self.is_pattern else queue == self.pattern


@lru_cache(maxsize=1_000)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker serves, with `total` slots in all."""

    entries: tuple[Entry, ...]
    total: int
    order: Order = "turns"

    @property
    def has_patterns(self) -> bool:
        return any(entry.is_pattern for entry in self.entries)

    def serves(self, queue: str) -> bool:
        return any(entry.matches(queue) for entry in self.entries)

    def resolved(self, existing: Iterable[str]) -> dict[str, Entry]:
        """The queues that it serves, by the entry that serves each: those it names, and those of these that it matches.

        >>> found = served(["report-*", "mail", "*"], total=5).resolved(["report-eu", "x", "mail"])
        >>> {queue: entry.pattern for queue, entry in found.items()}
        {'mail': 'mail', 'report-eu': 'report-*', 'x': '*'}
        """
        # a worker may name a thousand queues: each is looked up, and only patterns are tried one by one
        order = {entry: index for index, entry in enumerate(self.entries)}
        named = {entry.pattern: entry for entry in reversed(self.entries) if not entry.is_pattern}
        patterns = [entry for entry in self.entries if entry.is_pattern]
        found: dict[str, Entry] = {}
        for queue in dict.fromkeys([*(entry.pattern for entry in self.entries), *sorted(existing)]):
            if "*" in queue:
                continue
            fits = [entry for entry in (*patterns, named.get(queue)) if entry is not None and entry.matches(queue)]
            if fits:
                found[queue] = min(fits, key=lambda entry: order[entry])  # the first that matches serves it
        return found

    def cap(self, entry: Entry) -> int:
        return self.total if entry.slots is None else min(entry.slots, self.total)

    def changed(self, change: ServedChange) -> Served:
        """What it serves after an operator's change."""
        entries = self.entries if change.entries is None else change.entries
        slots = [entry.slots for entry in entries if entry.slots is not None]
        total = self.total
        if change.total is not None:
            total = change.total
        elif change.entries is not None and len(slots) == len(entries):
            total = sum(slots)  # as at a start
        return Served(entries=entries, total=total, order=self.order if change.order is None else change.order)

    def __str__(self) -> str:
        words = [entry.pattern if entry.slots is None else f"{entry.pattern}={entry.slots}" for entry in self.entries]
        return ", ".join(words)


class ServedChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operator wants of a live worker; None leaves it as it is."""

    entries: tuple[Entry, ...] | None = None
    total: int | None = None
    order: Order | None = None


Queues = str | Sequence[str] | Mapping[str, int]
"""One queue, several, or several with slots for each; patterns such as `report-*` among them."""
Ordering = Literal["turns", "strict"] | Mapping[str, int]
"""Each in turn, in the order written, or by weights."""


def served(queues: Queues, *, total: int | None, order: Ordering = "turns") -> Served:
    """Checked; raises `ConfigError`, `InvalidJob`. Without `total` it is the sum of the slots."""
    entries = _entries(queues)
    if total is None:
        total = sum(entry.slots or 0 for entry in entries)
    _check_total(total)
    change = _ordered(entries, order)
    return Served(entries=change.entries or entries, total=total, order=change.order or "turns")


def served_change(
    *, queues: Queues | None = None, total: int | None = None, order: Ordering | None = None
) -> ServedChange:
    """Checked; raises `ConfigError`, `InvalidJob`."""
    if total is not None:
        _check_total(total)
    entries = None if queues is None else _entries(queues)
    if order is None:
        return ServedChange(entries=entries, total=total)
    if not isinstance(order, str) and entries is None:
        raise ConfigError("weights belong to queues: give queues, too")
    change = _ordered(entries or (), order)
    return ServedChange(entries=change.entries or entries, total=total, order=change.order)


def _entries(queues: Queues) -> tuple[Entry, ...]:
    given: Mapping[str, Any] = (
        {queues: None} if isinstance(queues, str) else queues if isinstance(queues, Mapping) else dict.fromkeys(queues)
    )
    if not given:
        raise ConfigError("a worker needs at least one queue")
    for pattern, slots in given.items():
        if not isinstance(pattern, str) or not _PATTERN.match(pattern):
            raise InvalidJob(
                f"queue={pattern!r} is not a valid name: use 1 to 128 letters, digits, '.', '_', '-', ':' and '/', "
                "starting with a letter, a digit or '_', and '*' for any of them"
            )
        if slots is not None:
            _check_count(slots, f"queue {pattern} has {slots!r} slots")
    return tuple(Entry(pattern, slots) for pattern, slots in given.items())


def _ordered(entries: tuple[Entry, ...], order: Ordering) -> ServedChange:
    if isinstance(order, str):
        if order not in ("turns", "strict"):
            raise ConfigError(f"order={order!r} is not known: use turns, strict, or weights such as mail=3,report-*=1")
        return ServedChange(order=order)
    unknown = sorted(set(order) - {entry.pattern for entry in entries})
    if unknown:
        raise ConfigError(f"order gives a weight to {unknown[0]}, which is none of the queues: name it as they do")
    for pattern, weight in order.items():
        _check_count(weight, f"order gives {pattern} the weight {weight!r}")
    weighed = tuple(Entry(entry.pattern, entry.slots, order.get(entry.pattern, 1)) for entry in entries)
    return ServedChange(entries=weighed, order="weights")


def _check_total(total: Any) -> None:
    if isinstance(total, bool) or not isinstance(total, int) or total < 1:
        raise ConfigError(f"concurrency={total!r} must be a whole number from 1")


def _check_count(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{what}: give a whole number from 1")
