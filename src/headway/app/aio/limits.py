"""Generated from app/limits.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.limits import LimitVerbs
from headway.define.option_types import LimitOptions
from headway.model.limit import (
    Limit,
    LimitInUse,
)


class AsyncLimitVerbs(LimitVerbs, AsyncVerbBase):
    """The async twins of the verbs of `LimitVerbs`."""

    async def alimit(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        tenant: str | UUID | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **limits: Unpack[LimitOptions],
    ) -> Limit:
        """Set limits of one queue, kind or tenant ("*": every tenant without its own); returns those now in force.

        `max_running` at once; `rate="100/min"` starts of a kind, with a `burst` at once. Quotas of a tenant:
        `max_pending` jobs that wait, with `max_bytes` of payload, `max_events` to be handled, `max_schedules` and
        triggers, `max_group` members of a group, `max_fan_out` children and followers of a job. None removes one; what
        is not given stays. Raises `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant, tenant, create=True)
        limit = await self._arun(self._limit(queue, kind, tenant, limits, actor, if_match), conn)
        self._wake_up(queue, conn)
        return limit

    async def alimits(self) -> list[Limit]:
        """The limits that were set, by scope and name."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._for_all_tenants("look at limits", self._store.ops.limits()))

    async def alimits_in_use(self) -> list[LimitInUse]:
        """The same, each with how many jobs run under it and how many it holds back."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._for_all_tenants("look at limits", self._limits_in_use()))

    async def afair(self, queue: str, fair: bool = True, *, actor: str | None = None, conn: Any = None) -> None:
        """Serve a queue's tenants in turn, whatever their backlogs, as by default; False: first come, first served."""
        await self._aensure_known(self._own_tenant)
        await self._arun(self._fair(queue, fair, actor), conn)
