"""Generated from app/trigger_rows.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.trigger_rows import TriggerRows
from headway.model.trigger import Fire


class AsyncTriggerRows(TriggerRows, AsyncVerbBase):
    """The async twins of the verbs of `TriggerRows`."""

    async def afires(
        self,
        *,
        schedule: str | UUID | None = None,
        trigger: str | UUID | None = None,
        event_id: str | UUID | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: str | UUID | None = None,
    ) -> list[Fire]:
        """What fired, newest first: of a schedule, of a trigger, for an event, or all."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._fires(schedule, trigger, event_id, tenant, limit, before))
