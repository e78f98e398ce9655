"""Generated from app/queues.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.queues import QueueVerbs
from headway.define.checks import name as checked_name
from headway.model.duration import Duration
from headway.model.fleet import Queue, Reaped, Worker
from headway.model.ids import given_id
from headway.model.reservation import Reservation
from headway.model.retention import Retention
from headway.model.served import Ordering, Queues


class AsyncQueueVerbs(QueueVerbs, AsyncVerbBase):
    """The async twins of the verbs of `QueueVerbs`."""

    async def aqueues(self, *, name: str | Collection[str] | None = None, most: int | None = None) -> list[Queue]:
        """The queues, or those of this name or these, with the number of their unfinished jobs per status. With `most`,
        queued jobs are counted up to that many in each queue, and others up to that many in all of them: quick, however
        many there are."""
        await self._aensure_known(self._own_tenant)
        names = [name] if isinstance(name, str) else None if name is None else list(name)
        return await self._arun(self._store.ops.queues(tenant_id=self._visible_tenant, most=most, names=names))

    async def _aall_queues(self, conn: Any) -> list[Queue]:
        return await self._arun(self._store.ops.queues(tenant_id=self._visible_tenant), conn)

    async def aworkers(self) -> list[Worker]:
        """The registered workers."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.workers())

    async def adeclare_dead(
        self,
        worker_id: str | UUID,
        *,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> list[Reaped]:
        """Reap a worker's jobs at once, instead of when its lease is over; returns them, and where each went.

        Each is charged a loss. If the worker lives after all, nothing that it writes about them counts; it starts over
        under a new id. With `if_match` only if its `etag` is one of these. Raises `NotFound`, `ChangedMeanwhile`.
        """
        await self._aensure_known(self._own_tenant)
        op = self._if_worker_matches(worker_id, if_match, self._declare_dead(worker_id, actor))
        reaped = await self._arun(op, conn)
        self._wake_up(None, conn)
        return reaped

    async def aset_worker(
        self,
        worker_id: str | UUID,
        *,
        queues: Queues | None = None,
        concurrency: int | None = None,
        order: Ordering | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Change what a live worker serves, from its next heartbeat until it ends; what is not given stays.

        It takes the same as `run`. Jobs of queues that it serves no longer run on to their end. With `if_match` only if
        its `etag` is one of these. Raises `NotFound`, `ConfigError`, `ChangedMeanwhile`.
        """
        await self._aensure_known(self._own_tenant)
        op = self._set_worker(worker_id, queues, concurrency, order, actor)
        await self._arun(self._if_worker_matches(worker_id, if_match, op), conn)

    async def apause(
        self, queue: str, *, actor: str | None = None, if_match: Collection[str] | None = None, conn: Any = None
    ) -> None:
        """Stop claims from a queue, on all hosts; none happens once this has returned. Running jobs go on."""
        await self._aensure_known(self._own_tenant)
        await self._arun(self._if_queue_matches(queue, if_match, self._pause(queue, actor)), conn)

    async def aresume(
        self, queue: str, *, actor: str | None = None, if_match: Collection[str] | None = None, conn: Any = None
    ) -> None:
        """Allow claims from a paused queue again."""
        await self._aensure_known(self._own_tenant)
        await self._arun(self._if_queue_matches(queue, if_match, self._resume(queue, actor)), conn)
        self._wake_up(queue, conn)

    async def apause_all(self, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Pause every queue that has unfinished jobs, a worker or a setting; returns those that were not paused yet.

        A queue that is first used later is not paused.
        """
        await self._aensure_known(self._own_tenant)
        names = [queue.name for queue in await self._aall_queues(conn) if not queue.paused]
        for name in names:
            await self.apause(name, actor=actor, conn=conn)
        return names

    async def aresume_all(self, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Resume every paused queue; returns them."""
        await self._aensure_known(self._own_tenant)
        names = [queue.name for queue in await self._aall_queues(conn) if queue.paused]
        for name in names:
            await self.aresume(name, actor=actor, conn=conn)
        return names

    async def areservations(self) -> list[Reservation]:
        """The reservations in force, by queue."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._for_all_tenants("look at reservations", self._store.ops.reservations()))

    async def areserve_queue(
        self,
        queue: str,
        *,
        expires: Duration = "10m",
        reservation_id: str | UUID | None = None,
        holder: str | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> Reservation:
        """Reserve a queue for longer than a block of code: `unreserve_queue` gives it back, or it expires.

        With the id of a reservation it renews that one. Where code runs in between, `with app.reserve(queue)` is safer.
        Raises `ReservationBusy`.
        """
        await self._aensure_known(self._own_tenant)
        op = self._reserve_queue(queue, expires, reservation_id, holder, actor)
        return await self._arun(op, conn)

    async def aunreserve_queue(
        self, queue: str, reservation_id: str | UUID, *, actor: str | None = None, conn: Any = None
    ) -> bool:
        """Give a reservation back, or end somebody else's; False if it is not in force any more."""
        await self._aensure_known(self._own_tenant)
        op = self._store.ops.unreserve(checked_name(queue, "queue"), given_id(reservation_id, "id"), actor=actor)
        given_back = await self._arun(self._for_all_tenants("end the reservation of a queue", op), conn)
        self._wake_up(queue, conn)
        return given_back

    async def aset_retention(
        self, queue: str, retention: Retention | None, *, actor: str | None = None, conn: Any = None
    ) -> None:
        """How long finished jobs of a queue are kept, unless their kind says otherwise: `"30d"`, `"forever"`, or
        `{"succeeded": "1d", "dead": "forever"}`. None: as long as the app's retention says. Raises `InvalidJob`."""
        await self._aensure_known(self._own_tenant)
        await self._arun(self._set_retention(queue, retention, actor), conn)
