"""The worker's lease: registers, sends heartbeats, and starts over under a new id after the lease was lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable

from headway.config import Settings
from headway.logs import get_logger
from headway.model.fleet import HeartbeatReply, NewWorker
from headway.model.ids import new_id
from headway.model.lease import beat_timeout_ms
from headway.worker.database import Database
from headway.worker.loop import Loop
from headway.worker.served_queues import ServedQueues

log = get_logger("headway.worker")


class Lease:
    """Holds the worker's id, under which it claims, and how many workers share its queues.

    Only the store decides that a lease was lost. While the database is away the jobs go on, even past the lease: a
    worker whose own heartbeats were late reaps nobody for one full lease, so the first heartbeat after an outage is in
    time.
    """

    def __init__(
        self,
        database: Database,
        served: ServedQueues,
        settings: Settings,
        describe: Callable[[str], NewWorker],
        *,
        on_cancel: Callable[[Iterable[tuple[str, int]]], None],
        on_lost: Callable[[], int],
    ) -> None:
        self._database = database
        self._ops = database.ops
        self._served = served
        self._describe = describe
        self._on_cancel = on_cancel
        self._on_lost = on_lost
        self._renewing = asyncio.Lock()
        self.worker_id = ""
        self.fleet: dict[str, int] = {}
        self.renewed_at = time.monotonic()
        self._timeout_s = (
            beat_timeout_ms(lease_ms=settings.lease_ms, database_timeout_ms=settings.database_timeout_ms) / 1_000
        )
        every_s = settings.heartbeat_ms / 1_000
        self.loop = Loop(
            "the heartbeat",
            self.heartbeat,
            lambda: every_s,
            # workers that started together learn of each other by the first heartbeat
            first_s=min(every_s, 2.0) * (0.75 + random.random() / 2),
            # after an outage the heartbeat must come well within a lease
            longest_pause_s=min(5.0, every_s / 4),
        )

    @property
    def workers(self) -> int:
        """How many workers share the maintenance, as far as this one knows."""
        return max(1, *self.fleet.values()) if self.fleet else 1

    def is_held(self, worker_id: str) -> bool:
        """Whether claims under this id are this worker's, as far as it knows."""
        return worker_id == self.worker_id and not self._renewing.locked()

    async def begin(self) -> None:
        """Register under a new id."""
        worker_id = new_id()
        self._served.take_unwritten()
        try:
            reply = await self._database.run(self._ops.register(self._describe(worker_id)))
        except asyncio.CancelledError:
            self.worker_id = worker_id  # the row may be there anyway: signing off deletes it
            raise
        self.worker_id = worker_id
        self._take(reply)
        await self._served.refresh(self._database)

    async def heartbeat(self) -> None:
        worker_id = self.worker_id
        slots, serves = self._served.slots, self._served.take_unwritten()
        op = self._ops.heartbeat(worker_id, running=slots.taken, busy=slots.busy(), serves=serves)
        try:
            reply = await self._database.run(op, timeout_s=self._timeout_s)
        except BaseException:
            self._served.mark_unwritten()
            raise
        if reply.alive:
            self._take(reply)
            await self._served.refresh(self._database)
            if self._served.is_unwritten:
                self.loop.poke()  # write it at once
        else:
            await self.renew(
                worker_id, "it expired or somebody declared this worker dead, and its jobs went to other workers"
            )

    async def renew(self, worker_id: str, reason: str) -> None:
        """All that ran under that id is lost; start over under a new one."""
        async with self._renewing:
            if worker_id != self.worker_id:
                return  # another loop noticed first
            lost = self._on_lost()
            await self.begin()
            log.warning(
                f"the lease was lost: {reason}; starting over under a new id",
                worker_id=self.worker_id,
                before=worker_id,
                jobs=lost,
            )

    async def retire(self) -> None:
        """Mark this worker as stopped; what it still runs stays running."""
        await self._database.run(self._ops.retire(self.worker_id))

    async def end(self) -> None:
        await self._database.run(self._ops.unregister(self.worker_id))

    def _take(self, reply: HeartbeatReply) -> None:
        self.fleet = reply.fleet
        self.renewed_at = time.monotonic()
        self._served.change(reply.wanted)
        self._on_cancel(reply.canceling)
