"""Generated from app/job_lists.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Sequence

from headway.app.aio.base import AsyncVerbBase
from headway.app.job_lists import JobListVerbs
from headway.errors import NotFound
from headway.model.ids import as_id, is_id, new_id
from headway.model.job_list import JobListPart, NewJobList


class AsyncJobListVerbs(JobListVerbs, AsyncVerbBase):
    """The async twins of the verbs of `JobListVerbs`."""

    async def akeep_list(self, ids: Sequence[str], *, key_id: str, action: str) -> str:
        """Keep a list of jobs with the action for them, JSON text; returns the token that names it."""
        await self._aensure_known(self._own_tenant)
        jobs = NewJobList(token=new_id(), tenant_id=self._visible_tenant, key_id=key_id, action=action, ids=tuple(ids))
        await self._arun(self._store.ops.keep_list(jobs))
        return jobs.token

    async def aread_list(self, token: str, *, key_id: str, limit: int) -> JobListPart:
        """The next `limit` jobs of a list; raises `NotFound`, also ten minutes after it was made."""
        await self._aensure_known(self._own_tenant)
        found = None
        if is_id(token):
            op = self._store.ops.read_list(as_id(token), tenant_id=self._visible_tenant, key_id=key_id, limit=limit)
            found = await self._arun(op)
        if found is None:
            raise NotFound(f"there is no list {token}: lists are kept for ten minutes, for the key that made them")
        return found

    async def aadvance_list(self, token: str, *, key_id: str, position: int) -> None:
        """Note that the jobs before this position have been acted on."""
        await self._aensure_known(self._own_tenant)
        op = self._store.ops.advance_list(
            as_id(token), tenant_id=self._visible_tenant, key_id=key_id, position=position
        )
        await self._arun(op)
