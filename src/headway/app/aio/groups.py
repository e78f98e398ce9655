"""Generated from app/groups.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from headway.app.aio.enqueue import AsyncEnqueueVerbs
from headway.app.aio.group_handle import GroupHandle
from headway.app.groups import GroupVerbs, _missing
from headway.define.checks import group_id as as_group_id
from headway.model.group import Group, GroupFailure, Mode
from headway.model.job import NewJob
from headway.model.request import Request
from headway.model.status import Status


class AsyncGroupVerbs(GroupVerbs, AsyncEnqueueVerbs):
    """The async twins of the verbs of `GroupVerbs`."""

    async def agroup(
        self,
        jobs: Iterable[NewJob],
        *,
        mode: Mode = "parallel",
        on_failure: GroupFailure = "stop",
        callback: NewJob | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> GroupHandle:
        """Enqueue jobs that `kind.build(…)` made as one group, all or none.

            group = app.group([resize.build(7), resize.build(8)], callback=publish.build(album=3))

        `sequential` jobs run one after another, in this order. `callback` runs once all have ended. If one ends without
        success, on_failure decides: `stop` cancels the others and the callback; `continue` runs them and the callback
        anyway; `skip` runs them, but cancels the callback. Raises `InvalidJob`; a `request` that was done before raises
        `Replayed`.
        """
        await self._aensure_known(self._own_tenant)
        group, batch = self._grouped(jobs, mode, on_failure, callback)
        return GroupHandle(self, group, await self._astore_jobs(batch, group, conn, request))

    async def aget_group(self, group: str | UUID | Group | GroupHandle) -> Group:
        """A group, with its members' progress; raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._get_group(group))

    async def agroups(
        self, *, tenant: str | UUID | None = None, limit: int = 50, after: str | UUID | Group | None = None
    ) -> list[Group]:
        """Groups with their members' progress, the newest first; for the next page give the last one as `after`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._groups(tenant, limit, after))

    async def acancel_group(
        self,
        group: str | UUID | Group | GroupHandle,
        *,
        reason: str | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> dict[str, Status]:
        """Cancel the callback and all unfinished members (running ones are asked to stop); returns their status now."""
        await self._aensure_known(self._own_tenant)
        statuses = await self._arun(self._cancel_group(group, reason, actor), conn)
        self._wake_up(None, conn)
        return _missing(as_group_id(group)) if statuses is None else statuses

    async def aretry_group(
        self,
        group: str | UUID | Group | GroupHandle,
        *,
        actor: str | None = None,
        conn: Any = None,
        request: Request | None = None,
    ) -> list[str]:
        """Run again the members that ended without success; the callback waits for them again.

        Returns the ids that will run. Raises `NotFound`; a `request` that was done before raises `Replayed`.
        """
        await self._aensure_known(self._own_tenant)
        ids = await self._arun(self._once(request, self._retry_group(group, actor)), conn)
        self._wake_up(None, conn)
        return ids
