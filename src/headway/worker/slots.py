"""Slots: how many jobs this worker may run at once, in all and per queue."""

from __future__ import annotations

from collections.abc import Mapping


class Slots:
    """Counts the taken slots: a queue's free ones are bounded by its own cap and by the total.

    A claim `ask`s for free slots; until it is `answered`, no other claim may ask.
    """

    def __init__(self, total: int, caps: Mapping[str, int]) -> None:
        self.total = total
        self.caps = {queue: min(cap, total) for queue, cap in caps.items()}
        self.asked = False
        self._free = total
        self._free_of = dict(self.caps)

    def free(self, queue: str) -> int:
        return min(self._free, self._free_of[queue])

    def ask(self, queue: str, most: int) -> int:
        """How many jobs a claim may bring, at most `most`. Each job that starts then takes a slot."""
        self.asked = True
        return min(self.free(queue), most)

    def answered(self) -> None:
        self.asked = False

    def take(self, queue: str) -> None:
        self._free -= 1
        self._free_of[queue] -= 1

    def give(self, queue: str) -> None:
        self._free += 1
        self._free_of[queue] += 1

    @property
    def taken(self) -> int:
        return self.total - self._free

    def busy(self) -> list[str]:
        """The queues without a free slot."""
        return [queue for queue in self.caps if self.free(queue) <= 0]
