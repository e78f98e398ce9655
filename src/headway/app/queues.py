"""The verbs of queues and workers."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, TypeVar
from uuid import UUID

from headway.app.base import VerbBase, then
from headway.app.reservation import SHORTEST_MS
from headway.define.checks import name as checked_name
from headway.errors import ChangedMeanwhile, ConfigError, InvalidJob, ReservationBusy
from headway.model.actor import as_actor, check_actor
from headway.model.duration import Duration, to_ms
from headway.model.fleet import Queue, Reaped, Worker
from headway.model.ids import given_id, new_id
from headway.model.refusals import no_such_worker
from headway.model.reservation import Reservation
from headway.model.retention import Retention, ages_of
from headway.model.served import Ordering, Queues, ServedChange, served_change
from headway.store.ops import Op, Steps
from headway.worker.host import hostname

T = TypeVar("T")


class QueueVerbs(VerbBase):
    """Queues and workers serve all tenants."""

    def queues(self, *, name: str | Collection[str] | None = None, most: int | None = None) -> list[Queue]:
        """The queues, or those of this name or these, with the number of their unfinished jobs per status. With `most`,
        queued jobs are counted up to that many in each queue, and others up to that many in all of them: quick, however
        many there are."""
        names = [name] if isinstance(name, str) else None if name is None else list(name)
        return self._run(self._store.ops.queues(tenant_id=self._visible_tenant, most=most, names=names))

    def _all_queues(self, conn: Any) -> list[Queue]:
        return self._run(self._store.ops.queues(tenant_id=self._visible_tenant), conn)

    def workers(self) -> list[Worker]:
        """The registered workers."""
        return self._run(self._store.ops.workers())

    def declare_dead(
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
        op = self._if_worker_matches(worker_id, if_match, self._declare_dead(worker_id, actor))
        reaped = self._run(op, conn)
        self._wake_up(None, conn)
        return reaped

    def set_worker(
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
        op = self._set_worker(worker_id, queues, concurrency, order, actor)
        self._run(self._if_worker_matches(worker_id, if_match, op), conn)

    def pause(
        self, queue: str, *, actor: str | None = None, if_match: Collection[str] | None = None, conn: Any = None
    ) -> None:
        """Stop claims from a queue, on all hosts; none happens once this has returned. Running jobs go on."""
        self._run(self._if_queue_matches(queue, if_match, self._pause(queue, actor)), conn)

    def resume(
        self, queue: str, *, actor: str | None = None, if_match: Collection[str] | None = None, conn: Any = None
    ) -> None:
        """Allow claims from a paused queue again."""
        self._run(self._if_queue_matches(queue, if_match, self._resume(queue, actor)), conn)
        self._wake_up(queue, conn)

    def pause_all(self, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Pause every queue that has unfinished jobs, a worker or a setting; returns those that were not paused yet.

        A queue that is first used later is not paused.
        """
        names = [queue.name for queue in self._all_queues(conn) if not queue.paused]
        for name in names:
            self.pause(name, actor=actor, conn=conn)
        return names

    def resume_all(self, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """Resume every paused queue; returns them."""
        names = [queue.name for queue in self._all_queues(conn) if queue.paused]
        for name in names:
            self.resume(name, actor=actor, conn=conn)
        return names

    def reservations(self) -> list[Reservation]:
        """The reservations in force, by queue."""
        return self._run(self._for_all_tenants("look at reservations", self._store.ops.reservations()))

    def reserve_queue(
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
        op = self._reserve_queue(queue, expires, reservation_id, holder, actor)
        return self._run(op, conn)

    def unreserve_queue(
        self, queue: str, reservation_id: str | UUID, *, actor: str | None = None, conn: Any = None
    ) -> bool:
        """Give a reservation back, or end somebody else's; False if it is not in force any more."""
        op = self._store.ops.unreserve(checked_name(queue, "queue"), given_id(reservation_id, "id"), actor=actor)
        given_back = self._run(self._for_all_tenants("end the reservation of a queue", op), conn)
        self._wake_up(queue, conn)
        return given_back

    def set_retention(
        self, queue: str, retention: Retention | None, *, actor: str | None = None, conn: Any = None
    ) -> None:
        """How long finished jobs of a queue are kept, unless their kind says otherwise: `"30d"`, `"forever"`, or
        `{"succeeded": "1d", "dead": "forever"}`. None: as long as the app's retention says. Raises `InvalidJob`."""
        self._run(self._set_retention(queue, retention, actor), conn)

    # as ops

    def _if_queue_matches(self, queue: str, etags: Collection[str] | None, op: Op[T]) -> Op[T]:
        """The op, unless the queue's settings have changed: none of these is its `etag` any more, while they are
        locked."""
        if etags is None:
            return op
        ops = self._store.ops

        def steps() -> Steps[T]:
            yield from ops.lock_row("setting", f"queue {queue}", tenant_id=None).steps()
            found = yield from ops.queues(tenant_id=None, most=1, names=[queue]).steps()
            if not found or found[0].etag not in etags:
                raise ChangedMeanwhile(f"queue {queue} has changed meanwhile: look at it again")
            return (yield from op.steps())

        return Op(steps, writes=True, repeatable=op.repeatable, refusable=True, atomic=True)

    def _if_worker_matches(self, worker_id: str | UUID, etags: Collection[str] | None, op: Op[T]) -> Op[T]:
        """The op, unless what is set for the worker has changed: none of these is its `etag` any more, while its row is
        locked."""
        if etags is None:
            return op
        ops, key = self._store.ops, given_id(worker_id, "worker_id")

        def steps() -> Steps[T]:
            yield from ops.lock_row("worker", key, tenant_id=None).steps()
            found = yield from ops.worker(key).steps()
            if found is None:
                raise no_such_worker(key)
            if found.etag not in etags:
                raise ChangedMeanwhile(f"what is set for worker {key} has changed meanwhile: look at it again")
            return (yield from op.steps())

        return Op(steps, writes=True, repeatable=op.repeatable, refusable=True, atomic=True)

    def _set_worker(
        self,
        worker_id: str | UUID,
        queues: Queues | None,
        concurrency: int | None,
        order: Ordering | None,
        actor: str | None,
    ) -> Op[None]:
        wanted = served_change(queues=queues, total=concurrency, order=order)
        if wanted == ServedChange():
            raise ConfigError("what to change? Give queues, concurrency or order")
        op = self._store.ops.set_worker(given_id(worker_id, "worker_id"), wanted, actor=actor)
        return self._for_all_tenants("change a worker", op)

    def _declare_dead(self, worker_id: str | UUID, actor: str | None) -> Op[list[Reaped]]:
        op = self._store.ops.declare_dead(given_id(worker_id, "worker_id"), actor=actor)
        return self._for_all_tenants("declare a worker dead", op)

    def _reserve_queue(
        self,
        queue: str,
        expires: Duration,
        reservation_id: str | UUID | None,
        holder: str | None,
        actor: str | None,
    ) -> Op[Reservation]:
        found_id = new_id() if reservation_id is None else given_id(reservation_id, "id")
        by = check_actor(holder, "holder") or (actor and str(actor)) or as_actor(f"{hostname()}:{os.getpid()}")
        expires_ms = to_ms(expires, "expires")
        if expires_ms < SHORTEST_MS:
            raise InvalidJob(f"expires={expires!r} is too short to be renewed in time: give a few seconds at least")
        op = self._store.ops.reserve(
            checked_name(queue, "queue"), found_id, holder=by, expires_ms=expires_ms, actor=actor
        )

        def mine(standing: Reservation) -> Reservation:
            if standing.id != found_id:
                until = standing.expires_at.isoformat(timespec="seconds")
                raise ReservationBusy(f"queue {queue} is reserved by {standing.holder}, until {until} or longer")
            return standing

        return self._for_all_tenants("reserve a queue", then(op, mine))

    def _set_retention(self, queue: str, retention: Retention | None, actor: str | None) -> Op[None]:
        ages = None if retention is None else ages_of(retention)
        op = self._store.ops.set_retention(checked_name(queue, "queue"), ages, actor=actor)
        return self._for_all_tenants("set the retention of a queue", op)

    def _pause(self, queue: str, actor: str | None) -> Op[None]:
        op = self._store.ops.pause(checked_name(queue, "queue"), actor=actor)
        return self._for_all_tenants("pause a queue", op)

    def _resume(self, queue: str, actor: str | None) -> Op[None]:
        op = self._store.ops.resume(checked_name(queue, "queue"), actor=actor)
        return self._for_all_tenants("resume a queue", op)
