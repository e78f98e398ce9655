"""Generated from app/delete.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.bulk import AsyncBulkVerbs
from headway.app.bulk import at_most
from headway.app.delete import BATCH, DeleteVerbs, _deletable, _reason
from headway.app.job_filters import JobFilters
from headway.model.listing import Cursor, Order


class AsyncDeleteVerbs(DeleteVerbs, AsyncBulkVerbs):
    """The async twins of the verbs of `DeleteVerbs`."""

    async def adelete(
        self,
        job_id: str | UUID,
        *,
        reason: str | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> None:
        """Delete a finished job with its attempts and signals, for good.

        Raises `NotFound`, and `NotAllowed` for a job that is not finished, or that a machine still waits for.
        """
        await self._aensure_known(self._own_tenant)
        await self._arun(self._if_matching(job_id, if_match, self._delete(job_id, reason, actor)), conn)

    async def adelete_jobs(
        self,
        *,
        limit: int | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        actor: str | None = None,
        conn: Any = None,
        **filters: Unpack[JobFilters],
    ) -> int:
        """Delete every finished job that matches, or the oldest `limit` of them, in batches; returns how many, or with
        `dry_run` how many match.

        Needs a filter. A job that a machine still waits for stays.
        """
        await self._aensure_known(self._own_tenant, filters.get("tenant"))
        wanted, why = (_deletable(filters), _reason(filters, reason))
        left = at_most(limit)
        done = 0
        last: Cursor | None = None
        order: Order = "newest" if limit is None else "oldest"
        while left and (page := (await self._arun(self._find(min(BATCH, left), last, order, wanted), conn))):
            last = Cursor.of(page[-1], "after")
            left -= len(page)
            if dry_run:
                done += len(page)
                continue
            ids = [job.id for job in page]
            op = self._store.ops.delete(ids, tenant_id=self._visible_tenant, reason=why, actor=actor)
            done += list((await self._arun(op, conn)).values()).count("deleted")
        return done
