"""Generated from app/error_groups.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.error_groups import ErrorVerbs
from headway.model.duration import Duration
from headway.model.error_groups import (
    ErrorGroup,
    ErrorOrder,
    ErrorStatus,
)


class AsyncErrorVerbs(ErrorVerbs, AsyncVerbBase):
    """The async twins of the verbs of `ErrorVerbs`."""

    async def aerrors(
        self,
        *,
        since: datetime | Duration | None = None,
        kind: str | Collection[str] | None = None,
        queue: str | Collection[str] | None = None,
        status: ErrorStatus | Collection[ErrorStatus] | None = None,
        tenant: str | UUID | None = None,
        job: str | UUID | None = None,
        order: ErrorOrder = "last_seen",
        limit: int = 50,
        offset: int = 0,
    ) -> list[ErrorGroup]:
        """The groups of errors, the one seen last first, or by `order="count"` the most frequent first.

        `since` is a time or an age ("6h"): groups that were seen since then, with all their count. `status` is how the
        executions ended: failed, timeout or lost. `job`: the group of this job's last bad end. Over several tenants, a
        group is the sum of theirs. The jobs of a group: `app.jobs(error=group.fingerprint)`. Reads no jobs, however
        many failed. Raises `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._errors(since, kind, queue, status, tenant, job, order, limit, offset))

    async def aerror(
        self,
        fingerprint: str,
        *,
        kind: str | Collection[str] | None = None,
        queue: str | Collection[str] | None = None,
        tenant: str | UUID | None = None,
    ) -> ErrorGroup:
        """One group of errors, with the last one's whole text as `sample`; raises `NotFound`, `InvalidJob`."""
        await self._aensure_known(self._own_tenant, tenant)
        return await self._arun(self._error(fingerprint, kind, queue, tenant))
