"""Generated from app/triggers.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, Unpack
from uuid import UUID

from headway.app.aio.trigger_rows import AsyncTriggerRows
from headway.app.triggers import Rehearsal, TriggerVerbs, _only_type
from headway.define.option_types import TriggerChanges, TriggerOptions
from headway.model.trigger import Trigger, TriggerType


class AsyncTriggerVerbs(TriggerVerbs, AsyncTriggerRows):
    """The async twins of the verbs of `TriggerVerbs`."""

    async def acreate_trigger(self, name: str, event: str, **options: Unpack[TriggerOptions]) -> Trigger:
        """Store a trigger: which event it waits for, and what it enqueues, a kind or a template.

        Or which signal it sends, and to which machine: `signal="payment", to="checkout:{{event.order}}"`, a kind and a
        unique key; without a kind, the id of a job. The signal's data are the event's, or the `payload`.

        `payload` may have placeholders: `{"folder": "{{event.folder.id}}"}`. `when` selects events:
        `{"event.kind": ["checkout"]}`. Within `dedupe_window`, events with the same `dedupe_key` enqueue one job;
        without a key, events with the same rendered payload do, unless the payload uses nothing of the event. Raises
        `Duplicate`, `InvalidJob`, `NotFound` (the template).
        """
        await self._aensure_known(self._own_tenant, options.get("tenant"), create=True)
        conn = options.pop("conn", None)
        return await self._aread(self._create_trigger(name, event, options), conn)

    async def aget_trigger(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Trigger:
        """One trigger as it is now; by its id, a schedule too. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._trigger_row(None if isinstance(name, UUID) else "event", name, tenant))

    async def atriggers(
        self,
        *,
        event: str | Collection[str] | None = None,
        type: TriggerType | Literal["any"] | Collection[TriggerType] = "event",
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Trigger]:
        """The event triggers, oldest first, on this event or one of these; `type="any"`, or both types, gives the
        schedules too. Raises `InvalidJob`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._trigger_rows(_only_type(type), tenant, event, limit, after))

    async def achange_trigger(self, name: str | UUID, **changes: Unpack[TriggerChanges]) -> Trigger:
        """Change what `create_trigger` takes (`new_name=` for the name)."""
        await self._aensure_known(self._own_tenant, changes.get("tenant"))
        conn = changes.pop("conn", None)
        return await self._aread(self._change_trigger_row("event", name, changes), conn)

    async def aenable_trigger(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Let it fire again, including for events that are still pending."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self.achange_trigger(name, tenant=tenant, actor=actor, conn=conn, enabled=True)

    async def adisable_trigger(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Stop firing it, including for pending events. Events handled meanwhile are not made up for."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self.achange_trigger(name, tenant=tenant, actor=actor, conn=conn, enabled=False)

    async def adelete_trigger(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a trigger; its jobs stay."""
        await self._aensure_known(self._own_tenant, tenant)
        await self._arun(self._delete_trigger_row("event", name, tenant, actor, if_match), conn)

    async def atest_trigger(
        self, name: str | UUID, payload: Any = None, *, event: str | None = None, tenant: str | UUID | None = None
    ) -> Rehearsal:
        """A dry run: what the trigger would enqueue for an event with this payload, or the error."""
        await self._aensure_known(self._own_tenant, tenant)
        await self.alearn(None)
        return await self._arun(self._rehearse(name, payload, event, tenant))

    async def apreview_trigger(
        self, name: str, event: str, sample: Any = None, **options: Unpack[TriggerOptions]
    ) -> Rehearsal:
        """A dry run before it is stored: what a trigger with these options would do with an event whose payload is
        `sample`, or the error. Raises `InvalidJob`, `NotFound` (the template)."""
        await self._aensure_known(self._own_tenant, options.get("tenant"))
        conn = options.pop("conn", None)
        await self.alearn(conn)
        return await self._arun(self._preview_trigger(name, event, sample, options), conn)

    async def atest_schedule(
        self, name: str | UUID, payload: Mapping[str, Any] | None = None, *, tenant: str | UUID | None = None
    ) -> Rehearsal:
        """A dry run: what the schedule would enqueue now, with these fields over its payload, or the error."""
        await self._aensure_known(self._own_tenant, tenant)
        await self.alearn(None)
        return await self._arun(self._rehearse_schedule(name, payload, tenant))
