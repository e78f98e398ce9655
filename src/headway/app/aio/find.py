"""Generated from app/find.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.find import PAGE, FindVerbs, _last
from headway.app.job_filters import JobFilters
from headway.model.job import Job
from headway.model.listing import Cursor, Order


class AsyncFindVerbs(FindVerbs, AsyncVerbBase):
    """The async twins of the verbs of `FindVerbs`."""

    async def ajobs(
        self,
        *,
        limit: int = 50,
        before: str | UUID | None = None,
        after: Job | str | None = None,
        order: Order = "newest",
        offset: int = 0,
        raw: bool = False,
        search_limit: int | None = None,
        **filters: Unpack[JobFilters],
    ) -> list[Job]:
        """The first jobs that match, newest first; for the next page give the last one, or its `cursor`, as `after`.

        Filters: status kind queue source train group_id tenant parent_id correlation_id unique_key retry_of
        created_after created_before tags any_tags meta id_prefix ids error. The first six also take several values:
        `status=("dead", "canceled")`. A job has all of `tags`, one of `any_tags`, and in `meta={"customer.id": 7}`
        exactly that at that path; its last execution ended with `error`, a fingerprint of `app.errors`. Orders: newest,
        oldest, priority (then oldest first), and run, in which one queue runs its queued jobs. `before` is the same as
        `after` for the newest first, by the last one's id. `offset` skips that many, by reading them.

        No index finds a rare kind, queue, source, train, key or text of meta: those jobs are searched for among all.
        With `search_limit` and no offset, the newest or oldest first, that many are looked at; if they are not all, the
        list has `early` set, and `reached`, which the next page gets as `after`, although it may be short or empty.
        """
        await self._aensure_known(self._own_tenant, filters.get("tenant"))
        last = _last(before, after, order)
        find = self._find(limit, last, order, filters, offset=offset, raw=raw, search_limit=search_limit)
        return await self._aread(find, raw=raw)

    async def _apages(
        self, filters: Mapping[str, Any], limit: int | None = None, conn: Any = None
    ) -> AsyncIterator[list[Job]]:
        """All jobs that match; where only the first ones matter, the oldest first. An empty page is the end: one of
        large jobs ends early."""
        order: Order = "newest" if limit is None else "oldest"
        last: Cursor | None = None
        while page := (await self._arun(self._find(PAGE, last, order, filters), conn)):
            last = Cursor.of(page[-1], "after")
            yield page
