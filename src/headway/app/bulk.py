"""The verbs that count, cancel or retry every job that matches."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Unpack

from headway.app.find import PAGE, FindVerbs
from headway.app.job_filters import JobFilters
from headway.errors import Duplicate, InvalidJob
from headway.model.job import Job
from headway.model.status import FINISHED


class BulkVerbs(FindVerbs):
    """They go page by page; each page is a transaction, unless the caller gives one of its own (`conn=`)."""

    def count_jobs(self, **filters: Unpack[JobFilters]) -> int:
        """How many jobs match: those that `cancel_jobs` or `retry_jobs` with the same filters would look at."""
        count = 0
        for page in self._pages(filters):
            count += len(page)
        return count

    def cancel_jobs(
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
        left = at_most(limit)
        done = 0
        for page in self._pages(at_least_one(filters, "cancel"), limit, conn):
            live = [job.id for job in page if job.status not in FINISHED][:left]
            op = self._store.ops.cancel(
                live, tenant_id=self._visible_tenant, reason=reason, actor=actor, matching=in_words(filters)
            )
            statuses = self._run(op, conn)
            done += sum(status in ("canceled", "running") for status in statuses.values())
            left -= len(live)
            if not left:
                break
        self._wake_up(None, conn)
        return done

    def retry_jobs(
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
        most = at_most(limit)
        found: list[Job] = []
        for page in self._pages(at_least_one(filters, "retry"), limit, conn):
            found += [job for job in page if job.status in FINISHED][: most - len(found)]
            if len(found) == most:
                break
        ids = sorted(job.id for job in found)  # the oldest first: what waits for another comes after it
        done = 0
        for at in range(0, len(ids), PAGE):
            done += self._retry_all(ids[at : at + PAGE], actor, keep_place, conn, in_words(filters))
        for queue in {job.queue for job in found}:
            self._wake_up(queue, conn)
        return done

    def _retry_all(self, ids: list[str], actor: str | None, keep_place: bool, conn: Any, matching: str) -> int:
        """Retry them; where one is refused, halve the batch until it is alone."""
        op = self._store.ops.retry(
            ids, tenant_id=self._visible_tenant, actor=actor, keep_place=keep_place, matching=matching
        )
        try:
            done = self._run(op, conn)
        except Duplicate:
            if len(ids) == 1:
                return 0
            half = len(ids) // 2
            first = self._retry_all(ids[:half], actor, keep_place, conn, matching)
            return first + self._retry_all(ids[half:], actor, keep_place, conn, matching)
        return len(done)


def at_most(limit: int | None) -> int:
    """How many jobs a bulk verb may touch; raises `InvalidJob`."""
    if limit is None:
        return sys.maxsize
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidJob(f"limit={limit!r} must be a whole number from 1, or None for all that match")
    return limit


def at_least_one(filters: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """The filters; raises `InvalidJob` where there are none: nobody means all jobs by leaving them out."""
    if all(value is None for value in filters.values()):
        raise InvalidJob(f"which jobs to {what}? Give a filter, such as status= or kind=")
    return filters


def in_words(filters: Mapping[str, Any]) -> str:
    """Which jobs it was about, for the audit.

    >>> in_words({"status": ["failed", "dead"], "kind": "mail", "tag": None}), in_words({"ids": ["0193", "0194"]})
    ('status=dead,failed kind=mail', 'selected')
    """
    given = {name: _text(value) for name, value in filters.items() if value is not None and name != "ids"}
    return " ".join(f"{name}={value}" for name, value in given.items()) or "selected"


def _text(value: Any) -> str:
    return ",".join(sorted(map(str, value))) if isinstance(value, list | tuple | set | frozenset) else str(value)
