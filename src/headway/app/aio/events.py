"""Generated from app/events.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.events import EventVerbs, with_tenant_ids
from headway.model.event import Event, EventStatus, NewEvent
from headway.model.ids import as_id
from headway.model.request import Request


class AsyncEventVerbs(EventVerbs, AsyncVerbBase):
    """The async twins of the verbs of `EventVerbs`."""

    async def aemit(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str | UUID | None = None,
        correlation_id: str | None = None,
        created_by: str | None = None,
        conn: Any = None,
    ) -> str:
        """Publish a fact: it is stored, and every trigger on it enqueues a job. Returns the event's id.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits. Raises
        `InvalidJob`, `InvalidPayload`.
        """
        event = self.build_event(name, payload, tenant=tenant, correlation_id=correlation_id, created_by=created_by)
        return (await self.aemit_many([event], conn=conn))[0]

    async def aemit_many(
        self, events: Iterable[NewEvent], *, conn: Any = None, request: Request | None = None
    ) -> list[str]:
        """Publish what `app.build_event(…)` made: one transaction, all or none. Returns the ids. A `request` that was
        done before raises `Replayed`."""
        batch = [self._my_event(event) for event in events]
        if refs := {event.tenant for event in batch if not event.tenant_id and event.tenant is not None}:
            batch = with_tenant_ids(batch, await self._alook_up(refs, create=True, conn=conn))
        if self._tracing is None:
            return await self._astore_events(batch, conn, request)
        names = {event.name for event in batch}
        with self._tracing.sending("emit", names.pop() if len(names) == 1 else None, batch) as traced:
            return await self._astore_events(traced, conn, request)

    async def _astore_events(self, batch: list[NewEvent], conn: Any, request: Request | None) -> list[str]:
        op = self._once(request, self._emitting(batch))
        ids = await self._store.arun(op) if conn is None else await self._store.arun_in(conn, op)
        self._tell_of_events(conn)
        return ids

    async def aevents(
        self,
        *,
        name: str | Collection[str] | None = None,
        status: EventStatus | Collection[EventStatus] | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: str | UUID | None = None,
        raw: bool = False,
    ) -> list[Event]:
        """The newest events that match, newest first; `status` is pending, handled or failed. `name` and `status` may
        be several: an event has one of them."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._events(name, status, tenant, limit, before, raw), raw=raw)

    async def aget_event(self, event_id: str | UUID, *, raw: bool = False) -> Event:
        """One event, with the error of a trigger that could not fire; raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._event(event_id, raw), raw=raw)

    async def aretry_event(self, event_id: str | UUID, *, actor: str | None = None, conn: Any = None) -> None:
        """Handle a failed event again, by the triggers that failed; raises `NotFound`, `NotAllowed` (not failed)."""
        await self._aensure_known(self._own_tenant)
        await self._arun(self._retry_event(event_id, actor), conn)
        self._tell_of_events(conn)

    async def aretry_events(
        self, ids: Sequence[str | UUID], *, actor: str | None = None, conn: Any = None
    ) -> list[str]:
        """Handle again those of these events that failed; returns their ids."""
        await self._aensure_known(self._own_tenant)
        done = await self._arun(
            self._store.ops.retry_events(
                [as_id(each, "event") for each in ids], tenant_id=self._visible_tenant, actor=actor
            ),
            conn,
        )
        self._tell_of_events(conn)
        return done
