"""Generated from app/group_handle.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

import asyncio
from typing import Any

from headway.app.group_handle import BlockingGroupHandle, pauses
from headway.model.duration import Duration
from headway.model.group import Group
from headway.model.status import Status


class GroupHandle(BlockingGroupHandle):
    """What `app.group` returns: the group's id, its jobs as they were enqueued, and its verbs."""

    async def aget(self) -> Group:
        """The group as it is now, with its members' progress; raises `NotFound`."""
        return await self._verbs.aget_group(self.id)

    async def aprogress(self) -> float:
        """The share of its members that have ended, from 0 to 1; asks the database each time."""
        return (await self.aget()).progress

    async def acancel(
        self, *, reason: str | None = None, actor: str | None = None, conn: Any = None
    ) -> dict[str, Status]:
        """As `app.cancel_group`."""
        return await self._verbs.acancel_group(self.id, reason=reason, actor=actor, conn=conn)

    async def aretry(self, *, actor: str | None = None, conn: Any = None) -> list[str]:
        """As `app.retry_group`."""
        return await self._verbs.aretry_group(self.id, actor=actor, conn=conn)

    async def await_(self, timeout: Duration | None = None) -> Group:
        """Wait until all members and the callback have ended, or the time is up; returns the group as it is then."""
        for pause_s in pauses(timeout):
            group, over = await self._verbs._arun(self._verbs._looked_at(self.id))
            if over or pause_s is None:
                break
            await asyncio.sleep(pause_s)
        return group
