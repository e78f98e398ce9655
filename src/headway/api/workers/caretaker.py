"""What a server does for the fleet once workers claim through it: promote, reap, prune, sweep, fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.app import Headway
from headway.model.fleet import NewWorker
from headway.model.lease import call_timeout_ms
from headway.model.served import Entry, Served
from headway.model.trigger import Declaration
from headway.store.patience import lock_patience_s
from headway.worker import host
from headway.worker.database import Database
from headway.worker.lease import Lease
from headway.worker.loop import Loop
from headway.worker.maintenance import Maintenance
from headway.worker.served_queues import ServedQueues
from headway.worker.trigger_runner import TriggerRunner

_NO_TENANT = ""  # its queues are those that claims of all tenants name: no tenant sees what others name
_REST = 4.0  # of firing, so that it has a fifth of the time at most: the rest is for requests


class Caretaker:
    """A registered worker that runs no jobs; where all workers use HTTP, nobody else does this work. It counts as one
    worker of the queues that claims wait for."""

    def __init__(self, app: Headway, version: str, on_work: Callable[[], None]) -> None:
        self._store = app.store.with_own_connections()
        self._settings = settings = app.settings
        self._version = version
        timeout_ms = call_timeout_ms(lease_ms=settings.lease_ms, database_timeout_ms=settings.database_timeout_ms)
        self._database = database = Database(self._store, timeout_s=timeout_ms / 1_000)
        self._served = ServedQueues(Served(entries=(), total=1), lambda: None)
        self._lease = Lease(
            database, self._served, settings, self._describe, on_cancel=lambda _: None, on_lost=lambda: 0
        )
        self._maintenance = Maintenance(
            database, self._lease, app._hooks, settings, places=app._places, on_promoted=on_work
        )
        self._triggers = TriggerRunner(
            database,
            self._lease,
            settings,
            app._definitions,
            kinds=list,
            declare=lambda _: Declaration(),
            on_fired=on_work,
            rest=_REST,
        )
        self._running: tuple[Loop, ...] = ()

    async def start(self) -> None:
        """Raises what the store raises if it cannot be reached."""
        try:
            await self._lease.begin()
            await self._triggers.begin()
        except BaseException:
            await self._store.leave_loop()  # each claim tries again, with another caretaker
            raise
        self._running = (self._lease.loop, *self._maintenance.loops, self._triggers.loop)
        # they outlive the request that starts them, and wait for a lock as workers do
        token = lock_patience_s.set(float("inf"))
        for loop in self._running:
            loop.start()
        lock_patience_s.reset(token)

    async def stop(self) -> None:
        for loop in self._running:
            await loop.stop(1.0)
        if self._running:
            self._running = ()
            await self._lease.end()
        await self._store.leave_loop()

    def fleet(self, queue: str) -> int:
        """How many workers share the polls of this queue."""
        return self._lease.fleet.get(queue, 1)

    def serve(self, queues: Sequence[str]) -> None:
        """Count as a worker of these queues from the next heartbeat on."""
        self._served.serve(Served(entries=tuple(Entry(queue, 1) for queue in queues), total=1))

    def _describe(self, worker_id: str) -> NewWorker:
        return host.new_worker(
            worker_id,
            self._settings,
            version=self._version,
            queues=self._served.caps,
            metadata={"serves": "http", "tenant": _NO_TENANT},
        )
