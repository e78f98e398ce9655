"""Generated from app/bulk.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from typing import Any, Unpack

from headway.app.aio.find import AsyncFindVerbs
from headway.app.bulk import BulkVerbs, at_least_one, at_most, in_words
from headway.app.find import PAGE
from headway.app.job_filters import JobFilters
from headway.errors import Duplicate
from headway.model.job import Job
from headway.model.status import FINISHED


class AsyncBulkVerbs(BulkVerbs, AsyncFindVerbs):
    """The async twins of the verbs of `BulkVerbs`."""

    async def acount_jobs(self, **filters: Unpack[JobFilters]) -> int:
        """How many jobs match: those that `cancel_jobs` or `retry_jobs` with the same filters would look at."""
        await self._aensure_known(self._own_tenant, filters.get("tenant"))
        count = 0
        async for page in self._apages(filters):
            count += len(page)
        return count

    async def acancel_jobs(
        self,
        *,
        limit: int | None = None,
        reason: str | None = None,
        actor: str | None = None,
        conn: Any = None,
        **filters: Unpack[JobFilters],
    ) -> int:
        """Cancel every job that matches, or the oldest `limit` of them; returns how many were canceled or asked to
        stop. Needs a filter."""
        await self._aensure_known(self._own_tenant, filters.get("tenant"))
        left = at_most(limit)
        done = 0
        async for page in self._apages(at_least_one(filters, "cancel"), limit, conn):
            live = [job.id for job in page if job.status not in FINISHED][:left]
            op = self._store.ops.cancel(
                live, tenant_id=self._visible_tenant, reason=reason, actor=actor, matching=in_words(filters)
            )
            statuses = await self._arun(op, conn)
            done += sum(status in ("canceled", "running") for status in statuses.values())
            left -= len(live)
            if not left:
                break
        self._wake_up(None, conn)
        return done

    async def aretry_jobs(
        self,
        *,
        limit: int | None = None,
        keep_place: bool = False,
        actor: str | None = None,
        conn: Any = None,
        **filters: Unpack[JobFilters],
    ) -> int:
        """Retry every finished job that matches, or the oldest `limit` of them; returns how many. Needs a filter.

        They go to the end of the line, in their old order, so that they do not delay the work that waits now; with
        `keep_place`, each gets its old place back. A job whose unique key is taken, or that was retried already, stays
        as it is.
        """
        await self._aensure_known(self._own_tenant, filters.get("tenant"))
        most = at_most(limit)
        found: list[Job] = []
        async for page in self._apages(at_least_one(filters, "retry"), limit, conn):
            found += [job for job in page if job.status in FINISHED][: most - len(found)]
            if len(found) == most:
                break
        ids = sorted(job.id for job in found)
        done = 0
        for at in range(0, len(ids), PAGE):
            done += await self._aretry_all(ids[at : at + PAGE], actor, keep_place, conn, in_words(filters))
        for queue in {job.queue for job in found}:
            self._wake_up(queue, conn)
        return done

    async def _aretry_all(self, ids: list[str], actor: str | None, keep_place: bool, conn: Any, matching: str) -> int:
        """Retry them; where one is refused, halve the batch until it is alone."""
        op = self._store.ops.retry(
            ids, tenant_id=self._visible_tenant, actor=actor, keep_place=keep_place, matching=matching
        )
        try:
            done = await self._arun(op, conn)
        except Duplicate:
            if len(ids) == 1:
                return 0
            half = len(ids) // 2
            first = await self._aretry_all(ids[:half], actor, keep_place, conn, matching)
            return first + await self._aretry_all(ids[half:], actor, keep_place, conn, matching)
        return len(done)
