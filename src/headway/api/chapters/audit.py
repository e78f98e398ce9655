"""The audit: who did what."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.api.access.narrowed import is_narrowed, seen_ids, visible_job
from headway.api.call import Call
from headway.api.routes import VIEWERS, Routes
from headway.api.wire.cursors import not_a_cursor
from headway.api.wire.pages import PageQuery, PartQuery, page, part
from headway.api.wire.views import Listed
from headway.model.job import AuditEntry

routes = Routes("audit")


class AuditQuery(PageQuery, forbid_unknown_fields=True, kw_only=True):
    actor: str | None = None
    action: str | None = None


class AuditList(msgspec.Struct):
    items: list[AuditEntry]
    next_cursor: str | None


@routes.get("/audit", roles=VIEWERS, query=AuditQuery, answers={200: AuditList}, problems=(422,))
async def list_audit(call: Call[None, AuditQuery]) -> Listed:
    """List what people and programs did, newest first; with a key of some queues or kinds, to such jobs."""
    query = call.query

    async def fetch(count: int, before: str | None) -> list[AuditEntry]:
        if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
            raise not_a_cursor()
        return await call.verbs.aaudit_log(
            actor=query.actor,
            action=query.action,
            limit=count,
            before=None if before is None else int(before),
        )

    listed = await page("audit", query, fetch, key=lambda each: str(each.id))
    if is_narrowed(call):
        listed.items = await _of_seen_jobs(call, listed.items)
    return listed


@routes.get("/jobs/{id}/audit", roles=VIEWERS, query=PartQuery, answers={200: AuditList}, problems=(404, 422))
async def list_job_audit(call: Call[None, PartQuery]) -> Listed:
    """List what was done to a job, oldest first."""
    job = await visible_job(call)
    return part(f"audit of {job.id}", call.query, await call.verbs.aaudit(job.id), key=lambda each: str(each.id))


async def _of_seen_jobs(call: Call[Any, Any], entries: list[AuditEntry]) -> list[AuditEntry]:
    seen = await seen_ids(call, (each.job_id for each in entries if each.job_id is not None))
    return [each for each in entries if each.job_id in seen]
