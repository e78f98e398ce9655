"""The queues that a worker serves: what its patterns match is read with the heartbeat; operators may change them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from headway.logs import get_logger
from headway.model.served import Entry, Served, ServedChange
from headway.worker.database import Database
from headway.worker.slots import Slots

log = get_logger("headway.worker")

FORGET_S = 3_600.0
"""How long a queue that a pattern matched is served after nobody used it any more."""


class ServedQueues:
    """Turns names and patterns into queues with slots. `on_change` is called after each change."""

    def __init__(self, served: Served, on_change: Callable[[], None]) -> None:
        self.served = served
        self._wanted: str | None = None
        self._seen: dict[str, float] = {}  # when each existing queue was last listed
        self._on_change = on_change
        self.queues: dict[str, Entry] = served.resolved(())
        self.slots = Slots(served, self.queues)
        self._applied = served
        self._written: tuple[dict[str, int], int] | None = None

    @property
    def caps(self) -> dict[str, int]:
        """The queues that it serves, with their slots."""
        return self.slots.caps

    @property
    def is_unwritten(self) -> bool:
        """Whether the worker's row does not yet show what is served."""
        return (self.caps, self.slots.total) != self._written

    def mark_unwritten(self) -> None:
        """The call that wrote it failed: write it again."""
        self._written = None

    def take_unwritten(self) -> tuple[dict[str, int], int] | None:
        """Queues and concurrency, if they are not in the worker's row yet; counts as written from now on."""
        if not self.is_unwritten:
            return None
        self._written = (dict(self.caps), self.slots.total)
        return self._written

    def add(self, queue: str) -> bool:
        """Serve a queue that somebody in this process enqueued to, if a pattern matches it; gives whether it did."""
        if queue in self.queues or not self.served.serves(queue):
            return False
        self._seen[queue] = time.monotonic()
        self._apply()
        return True

    def serve(self, served: Served) -> None:
        """Serve this instead."""
        self.served = served
        self._apply()

    def change(self, wanted: str | None) -> None:
        """Apply what an operator set for this worker, once: every heartbeat brings it again."""
        if wanted is None or wanted == self._wanted:
            return
        self._wanted = wanted
        try:
            change = msgspec.json.decode(wanted, type=ServedChange)
        except msgspec.MsgspecError as error:
            log.error("what was set for this worker cannot be read, and is ignored", error=str(error))
            return
        self.served = self.served.changed(change)
        self._apply()
        log.info("an operator changed what this worker serves", queues=str(self.served), concurrency=self.served.total)

    async def refresh(self, database: Database) -> None:
        """Read which queues exist, if there are patterns to match them."""
        if not self.served.has_patterns:
            return
        names: list[str] = await database.run(database.ops.queue_names())
        self._see(names)

    def _see(self, names: Iterable[str]) -> None:
        now = time.monotonic()
        self._seen |= dict.fromkeys(names, now)
        self._seen = {name: at for name, at in self._seen.items() if now - at < FORGET_S}
        self._apply()

    def _apply(self) -> None:
        queues = self.served.resolved(self._seen)
        if queues == self.queues and self.served == self._applied:
            return
        self.queues, self._applied = queues, self.served
        self.slots.serve(self.served, queues)
        self._on_change()
