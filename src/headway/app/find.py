"""The verb that lists jobs: `app.jobs(…)`, by filter and order, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack
from uuid import UUID

from headway.app.base import VerbBase, page_size
from headway.app.job_filters import JobFilters, filter_of, one_value_each
from headway.errors import InvalidJob
from headway.model.ids import given_id
from headway.model.job import Job
from headway.model.listing import Cursor, Order, check_order, sort_key
from headway.store.ops import Op, Steps
from headway.store.paging import Page

PAGE = 1_000


class FindVerbs(VerbBase):
    """Name many jobs by filters."""

    def jobs(
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
        last = _last(before, after, order)
        find = self._find(limit, last, order, filters, offset=offset, raw=raw, search_limit=search_limit)
        return self._read(find, raw=raw)

    def _pages(self, filters: Mapping[str, Any], limit: int | None = None, conn: Any = None) -> Iterator[list[Job]]:
        """All jobs that match; where only the first ones matter, the oldest first. An empty page is the end: one of
        large jobs ends early."""
        order: Order = "newest" if limit is None else "oldest"
        last: Cursor | None = None
        while page := self._run(self._find(PAGE, last, order, filters), conn):
            last = Cursor.of(page[-1], "after")
            yield page

    def _find(
        self,
        limit: int,
        last: Cursor | None,
        order: Order,
        filters: Mapping[str, Any],
        *,
        offset: int = 0,
        raw: bool = False,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        if not offset:
            return self._page(limit, last, order, filters, raw, search_limit)

        def steps() -> Steps[list[Job]]:
            left, at = offset, last
            while left:
                skipped = yield from self._page(min(left, PAGE), at, order, filters, True).steps()
                if not skipped:
                    return skipped
                left -= len(skipped)
                at = Cursor.of(skipped[-1], "after")
            return (yield from self._page(limit, at, order, filters, raw).steps())

        return Op(steps, writes=False)

    def _page(
        self,
        limit: int,
        last: Cursor | None,
        order: Order,
        filters: Mapping[str, Any],
        raw: bool,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        size = page_size(limit)
        single = one_value_each(filters)
        order = check_order(order, single[0] if len(single) == 1 else filters, last)
        tenant_id = self._tenant_to_read(filters.get("tenant"))
        wanted = [filter_of(one, tenant_id=tenant_id) for one in single]
        each = None if search_limit is None else max(1, search_limit // len(wanted))
        find = self._store.ops.find
        ops = [find(one, limit=size, order=order, after=last, raw=raw, search_limit=each) for one in wanted]
        if len(ops) == 1:
            return ops[0]

        def steps() -> Steps[list[Job]]:
            found: Page[Job] = Page()
            key = sort_key(order)
            ends = []  # beyond these, some may be missing
            searched = False
            for op in ops:
                part = yield from op.steps()
                found += part
                if isinstance(part, Page) and part.early:
                    ends.append(part.reached or key(part[-1]))
                    searched = searched or part.reached is not None
            backwards = order == "newest"
            found.sort(key=key, reverse=backwards)
            if not ends:
                return Page(found[:size])
            end = (max if backwards else min)(ends)
            page = Page([job for job in found if (key(job) >= end if backwards else key(job) <= end)][:size])
            page.early = True
            if searched and len(page) < size:
                page.reached = end
            return page

        return Op(steps, writes=False)


def _last(before: str | UUID | None, after: Job | str | None, order: str) -> Cursor | None:
    """Where the previous page ended; raises `InvalidJob`."""
    if before is None:
        return None if after is None else Cursor.of(after, "after")
    if after is not None or order != "newest":
        raise InvalidJob("before= is for the newest first, and alone: give the last job of the page as after=")
    return Cursor(given_id(before, "before"))
