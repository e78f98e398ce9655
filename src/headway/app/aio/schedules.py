"""Generated from app/schedules.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.trigger_rows import AsyncTriggerRows
from headway.app.schedules import _ENSURE_TRIES, ScheduleVerbs, times_of
from headway.clock import from_micros
from headway.define.option_types import ScheduleChanges, ScheduleOptions
from headway.errors import Duplicate, NotAllowed
from headway.model.duration import Duration
from headway.model.request import Request
from headway.model.trigger import Fire, Trigger


class AsyncScheduleVerbs(ScheduleVerbs, AsyncTriggerRows):
    """The async twins of the verbs of `ScheduleVerbs`."""

    async def acreate_schedule(self, name: str, cron: str | None = None, **options: Unpack[ScheduleOptions]) -> Trigger:
        """Store a schedule: cron (`"0 2 * * *"`, `@daily`) or `every`, and what to enqueue, a kind or a template.

        `payload` may have placeholders such as `{{schedule.nominal_at}}`; it overrides the template's. `tz` is
        the tenant's by default, else the app's. Raises `Duplicate`, `InvalidJob`, `NotFound` (the template).
        """
        await self._aensure_known(self._own_tenant, options.get("tenant"), create=True)
        conn = options.pop("conn", None)
        return await self._aread(self._create_schedule(name, cron, options), conn)

    async def aensure_schedule(self, name: str, cron: str | None = None, **options: Unpack[ScheduleOptions]) -> Trigger:
        """Create the schedule, or change the one of this name to be so; options that are not given have their default.

        If nothing differs, nothing is written: call it at every start, in any number of processes. `enabled` stays as
        it is unless given, so that a pause survives. Raises `InvalidJob`, `NotFound` (the template) and `NotAllowed`
        (it is declared in the code).
        """
        await self._aensure_known(self._own_tenant, options.get("tenant"), create=True)
        conn = options.pop("conn", None)
        for _ in range(_ENSURE_TRIES - 1):
            try:
                return await self._aread(self._ensure_schedule(name, cron, options), conn)
            except (Duplicate, NotAllowed):
                continue
        return await self._aread(self._ensure_schedule(name, cron, options), conn)

    async def aget_schedule(self, name: str | UUID, *, tenant: str | UUID | None = None) -> Trigger:
        """One schedule as it is now, with `next_fire_at`, `last_fired_at` and `error`; raises `NotFound`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._trigger_row("schedule", name, tenant))

    async def aschedules(
        self, *, tenant: str | UUID | None = None, limit: int = 100, after: str | UUID | None = None
    ) -> list[Trigger]:
        """The schedules, oldest first; `origin` is "code" for those that the code declares."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._trigger_rows("schedule", tenant, None, limit, after))

    async def achange_schedule(self, name: str | UUID, **changes: Unpack[ScheduleChanges]) -> Trigger:
        """Change what `create_schedule` takes (`new_name=` for the name). Of a schedule declared in the code, only
        `enabled` can be changed (`NotAllowed`): the rest follows the code."""
        await self._aensure_known(self._own_tenant, changes.get("tenant"))
        conn = changes.pop("conn", None)
        return await self._aread(self._change_trigger_row("schedule", name, changes), conn)

    async def apause_schedule(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Stop firing it until it is resumed. Times that are due but have not fired yet are dropped, and so are those
        that come due meanwhile."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self.achange_schedule(name, tenant=tenant, actor=actor, conn=conn, enabled=False)

    async def aresume_schedule(
        self, name: str | UUID, *, tenant: str | UUID | None = None, actor: str | None = None, conn: Any = None
    ) -> Trigger:
        """Fire it again, from its next time on."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self.achange_schedule(name, tenant=tenant, actor=actor, conn=conn, enabled=True)

    async def adelete_schedule(
        self,
        name: str | UUID,
        *,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a schedule; its jobs stay. One declared in the code comes back when a worker of it starts."""
        await self._aensure_known(self._own_tenant, tenant)
        await self._arun(self._delete_trigger_row("schedule", name, tenant, actor, if_match), conn)

    async def arun_schedule(
        self,
        name: str | UUID,
        payload: Mapping[str, Any] | None = None,
        *,
        tenant: str | UUID | None = None,
        trace_id: str | None = None,
        actor: str | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> Fire:
        """Fire it once, now, with these fields over its payload; returns the fire, with its `job_id`.

        Its next time does not change. The job belongs to the trace `trace_id`, if that is given. A
        `request` that was done before raises `Replayed`.
        """
        await self._aensure_known(self._own_tenant, tenant)
        await self.alearn(conn)
        running = self._run_schedule(name, payload, tenant, trace_id, actor)
        fire, queue = await self._arun(self._creating_once(request, running, lambda made: made[0].id), conn)
        self._wake_up(queue, conn)
        return fire

    async def apreview_schedule(
        self,
        name: str | UUID | None = None,
        count: int = 5,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        after: datetime | None = None,
        tenant: str | UUID | None = None,
    ) -> list[datetime]:
        """The next times, in its zone, of a stored schedule, or of a cron expression or interval.

        Each carries its zone: `.astimezone(UTC)` gives it in UTC.
        """
        await self._aensure_known(self._own_tenant, tenant)
        if name is not None:
            return times_of(
                await self.aget_schedule(name, tenant=tenant), count, after or from_micros(self.clock.now())
            )
        return times_of(self._not_stored(cron, every, tz), count, after or from_micros(self.clock.now()))
