"""Generated from app/enqueue.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from headway.app.aio.payloads import AsyncPayloadVerbs
from headway.app.enqueue import EnqueueVerbs, with_tenant_ids
from headway.app.payloads import Spilled
from headway.define.option_types import UsingOptions
from headway.errors import HeadwayError
from headway.model.group import NewGroup
from headway.model.job import Brief, Enqueued, Job, NewJob
from headway.model.request import Requests


class AsyncEnqueueVerbs(EnqueueVerbs, AsyncPayloadVerbs):
    """The async twins of the verbs of `EnqueueVerbs`."""

    async def aenqueue(
        self, kind: str | NewJob, payload: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Enqueued:
        """Enqueue one job, by its kind's name or as `kind.build(…)` made it; returns its id, status and `created`.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits.
        Raises `UnknownKind`, `InvalidJob`, `InvalidPayload`, `Duplicate` (on_conflict="raise"), `QueueFull`,
        `StoreUnavailable`.
        """
        await self.alearn(options.get("conn"))
        if self._is_unknown(kind):
            await self.alearn_again(options.get("conn"))
        return await self.aenqueue_new(self._built(kind, payload, options), options.get("conn"))

    async def aenqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        conn: Any = None,
        request: Requests = None,
        existing: Callable[[Job], None] | None = None,
        rows: list[Brief] | None = None,
    ) -> list[Enqueued]:
        """Enqueue jobs that `kind.build(…)` made: one batch, one transaction, all or none, in this order.

        They may wait for each other (`using(after=…)`), but not in a circle (`InvalidJob`). A `request` that was done
        before raises `Replayed`; with several, each is about the job at its place. `existing` is called for each job
        that is returned in place of a new one, before the transaction commits: what it raises undoes all. `rows` is
        filled with what that transaction stored, in no order.
        """
        await self.alearn(conn)
        return await self._astore_jobs([self._for_own_tenant(job) for job in jobs], None, conn, request, existing, rows)

    async def aenqueue_new(self, job: NewJob, conn: Any) -> Enqueued:
        return (await self._astore_jobs([self._for_own_tenant(job)], None, conn))[0]

    async def _astore_jobs(
        self,
        batch: list[NewJob],
        group: NewGroup | None,
        conn: Any,
        request: Requests = None,
        existing: Callable[[Job], None] | None = None,
        rows: list[Brief] | None = None,
    ) -> list[Enqueued]:
        """Every enqueue goes through here, or through its async twin."""
        batch, group = await self._aidentified(batch, group, conn)
        if self._tracing is None:
            return await self._astore_identified(batch, group, conn, request, existing, rows)
        queues = {job.queue for job in batch}
        with self._tracing.sending("enqueue", queues.pop() if len(queues) == 1 else None, batch) as traced:
            return await self._astore_identified(traced, group, conn, request, existing, rows)

    async def _astore_identified(
        self,
        batch: list[NewJob],
        group: NewGroup | None,
        conn: Any,
        request: Requests,
        existing: Callable[[Job], None] | None,
        rows: list[Brief] | None,
    ) -> list[Enqueued]:
        written: Spilled = ()
        most = self.payload_limit >> 2
        for job in batch:
            if len(job.payload) > most:
                batch, written = await self._aspilled(batch, conn)
                break
        op = self._once(request, self._checking(existing, self._enqueue(batch, group, written)))
        if rows is not None:
            op = self._reading(rows, batch, op)
        try:
            done = await self._store.arun(op) if conn is None else await self._store.arun_in(conn, op)
        except HeadwayError as error:
            await self._adrop(batch, written, error)
            raise
        self._poke(batch, conn)
        return done

    async def _aidentified(
        self, batch: list[NewJob], group: NewGroup | None, conn: Any
    ) -> tuple[list[NewJob], NewGroup | None]:
        """The jobs with the ids of the tenants that they name; a new name becomes a tenant."""
        refs = {job.tenant for job in batch if not job.tenant_id and job.tenant is not None}
        if not refs:
            return (batch, group)
        ids = await self._alook_up(refs, create=True, conn=conn)
        return with_tenant_ids(batch, group, ids)
