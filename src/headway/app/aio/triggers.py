"""Generated from app/triggers.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.trigger_rows import AsyncTriggerRows
from headway.app.triggers import Rehearsal, TriggerVerbs
from headway.define.option_types import TriggerChanges, TriggerOptions
from headway.model.trigger import Trigger


class AsyncTriggerVerbs(TriggerVerbs, AsyncTriggerRows):
    """The async twins of the verbs of `TriggerVerbs`."""

    async def acreate_trigger(self, name: str, event: str, **options: Unpack[TriggerOptions]) -> Trigger:
        """Store a trigger: which event it waits for, and what it enqueues, a kind or a template.

        `payload` is a template: `{"folder": "{{event.folder.id}}"}`. `when` says which events it means:
        `{"event.kind": ["checkout"]}`. The same payload is enqueued once in `dedupe_window`: the same `dedupe_key`
        where there is one, and the same event where nothing of it is in the payload. Raises `Duplicate`, `InvalidJob`,
        `NotFound` (the template).
        """
        await self._aknow(self._own, options.get("tenant"), create=True)
        return await self._aread(self._create_trigger(name, event, options))

    async def aget_trigger(self, name: str, *, tenant: str | UUID | None = None) -> Trigger:
        """One trigger as it is now; raises `NotFound`."""
        await self._aknow(self._own, tenant)
        return await self._aread(self._trigger_row("event", name, tenant))

    async def atriggers(
        self,
        *,
        event: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 100,
        after: str | UUID | None = None,
    ) -> list[Trigger]:
        """The event triggers, oldest first."""
        await self._aknow(self._own, tenant)
        return await self._aread(self._trigger_rows("event", tenant, event, limit, after))

    async def achange_trigger(self, name: str, **changes: Unpack[TriggerChanges]) -> Trigger:
        """Change what `create_trigger` takes (`new_name=` for the name)."""
        await self._aknow(self._own, changes.get("tenant"))
        return await self._aread(self._change_trigger_row("event", name, changes))

    async def aenable_trigger(
        self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None
    ) -> Trigger:
        """Let it fire, also for events that were emitted before and are pending still."""
        await self._aknow(self._own, tenant)
        return await self.achange_trigger(name, tenant=tenant, actor=actor, enabled=True)

    async def adisable_trigger(
        self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None
    ) -> Trigger:
        """Let it fire no more, also for events that are pending; what is handled meanwhile is not made up for."""
        await self._aknow(self._own, tenant)
        return await self.achange_trigger(name, tenant=tenant, actor=actor, enabled=False)

    async def adelete_trigger(self, name: str, *, tenant: str | UUID | None = None, actor: str | None = None) -> None:
        """Delete a trigger; its jobs stay."""
        await self._aknow(self._own, tenant)
        await self._arun(self._delete_trigger_row("event", name, tenant, actor))

    async def atest_trigger(
        self, name: str, payload: Any = None, *, event: str | None = None, tenant: str | UUID | None = None
    ) -> Rehearsal:
        """What the trigger would make of an event with this payload: the rendered payload, or the error. A dry run."""
        await self._aknow(self._own, tenant)
        await self.alearn(None)
        return await self._arun(self._rehearse(name, payload, event, tenant))
