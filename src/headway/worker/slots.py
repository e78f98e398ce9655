"""Slots: how many jobs this worker may run at once, in all and per entry of its queues."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model.served import Entry, Served


class Slots:
    """Counts the taken slots: a queue's free ones are bounded by those of its entry and by the total.

    A claim `ask`s for free slots; until it is `answered`, no other claim may ask.
    """

    def __init__(self, served: Served, queues: Mapping[str, Entry]) -> None:
        self.asked = False
        self._taken: dict[str, int] = {}  # by queue, including queues that are no longer served
        self.serve(served, queues)

    def serve(self, served: Served, queues: Mapping[str, Entry]) -> None:
        """Serve these queues from now on. Jobs of other queues that still run keep their slots."""
        self.total = served.total
        self.caps = {queue: served.cap(entry) for queue, entry in queues.items()}
        self._free = served.total - sum(self._taken.values())
        self._entry_of = {queue: entry.pattern for queue, entry in queues.items()}
        self._free_of = {entry.pattern: served.cap(entry) for entry in served.entries}
        for queue, taken in self._taken.items():
            if queue in self._entry_of:
                self._free_of[self._entry_of[queue]] -= taken

    def free(self, queue: str) -> int:
        entry = self._entry_of.get(queue)
        return 0 if entry is None else min(self._free, self._free_of[entry])

    def ask(self, queue: str, most: int) -> int:
        """How many jobs a claim may bring, at most `most`. Each job that starts then takes a slot."""
        self.asked = True
        return min(self.free(queue), most)

    def answered(self) -> None:
        self.asked = False

    def take(self, queue: str) -> None:
        self._count(queue, 1)

    def give(self, queue: str) -> None:
        self._count(queue, -1)

    def _count(self, queue: str, by: int) -> None:
        self._free -= by
        self._taken[queue] = self._taken.get(queue, 0) + by
        entry = self._entry_of.get(queue)
        if entry is not None:
            self._free_of[entry] -= by
        elif not self._taken[queue]:
            del self._taken[queue]

    @property
    def taken(self) -> int:
        return self.total - self._free

    def busy(self) -> list[str]:
        """The queues without a free slot."""
        return [queue for queue in self.caps if self.free(queue) <= 0]
