"""The verbs that delete finished jobs, one or many."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

from headway.app.base import missing
from headway.app.bulk import BulkVerbs, at_least_one, at_most, in_words
from headway.app.job_filters import JobFilters
from headway.errors import InvalidJob
from headway.model.codec import check_text
from headway.model.deletion import not_deletable
from headway.model.ids import as_id
from headway.model.listing import Cursor, Order
from headway.model.status import FINISHED, UNFINISHED
from headway.store.ops import Op, Steps

BATCH = 500
"""How many jobs one transaction deletes."""


class DeleteVerbs(BulkVerbs):
    """What belongs to a job goes with it, as when it is pruned. What others still need stays."""

    def delete(
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
        self._run(self._if_matching(job_id, if_match, self._delete(job_id, reason, actor)), conn)

    def delete_jobs(
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
        wanted, why = _deletable(filters), _reason(filters, reason)
        left = at_most(limit)
        done = 0
        last: Cursor | None = None
        order: Order = "newest" if limit is None else "oldest"
        while left and (page := self._run(self._find(min(BATCH, left), last, order, wanted), conn)):
            last = Cursor.of(page[-1], "after")
            left -= len(page)
            if dry_run:
                done += len(page)
                continue
            ids = [job.id for job in page]
            op = self._store.ops.delete(ids, tenant_id=self._visible_tenant, reason=why, actor=actor)
            done += list(self._run(op, conn).values()).count("deleted")
        return done

    def _delete(self, job_id: str | UUID, reason: str | None, actor: str | None) -> Op[None]:
        key = as_id(job_id)
        if reason is not None:
            check_text(reason, "reason")
        op = self._store.ops.delete([key], tenant_id=self._visible_tenant, reason=reason, actor=actor)

        def steps() -> Steps[None]:
            found = (yield from op.steps()).get(key) or missing(key)
            if found != "deleted":
                raise not_deletable(key, found)

        return Op(steps, writes=True, repeatable=False, atomic=True)


def _deletable(filters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The filters, for finished jobs only; raises `InvalidJob`."""
    status = at_least_one(filters, "delete").get("status")
    if status is None:
        return {**filters, "status": FINISHED}
    unfinished = sorted(({status} if isinstance(status, str) else set(status)) & set(UNFINISHED))
    if unfinished:
        raise InvalidJob(
            f"status={unfinished[0]!r} is not finished, and only finished jobs can be deleted: "
            f"use {', '.join(FINISHED)}, or cancel them first"
        )
    return filters


def _reason(filters: Mapping[str, Any], reason: str | None) -> str:
    """What the audit says: the filters, and why."""
    if reason is not None:
        check_text(reason, "reason")
    return in_words(filters) if reason is None else f"{in_words(filters)}: {reason}"
