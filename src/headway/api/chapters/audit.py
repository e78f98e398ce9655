"""The audit: who did what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from starlette.responses import StreamingResponse

from headway.api.access.narrowed import is_narrowed, seen_ids, visible_job
from headway.api.call import Call
from headway.api.routes import VIEWERS, Routes
from headway.api.wire.cursors import not_a_cursor
from headway.api.wire.pages import PageQuery, PartQuery, page, part
from headway.api.wire.views import Listed
from headway.model.job import AuditEntry

routes = Routes("audit")

_PAGE = 200


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


class ExportQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    actor: str | None = None
    action: str | None = None
    after: Annotated[int, msgspec.Meta(ge=0)] = 0


@routes.get("/audit/export", roles=VIEWERS, query=ExportQuery, answers={200: None}, problems=(422,), file=True)
async def export_audit(call: Call[None, ExportQuery]) -> StreamingResponse:
    """Download the audit as JSON lines, oldest first; `after` leaves out the entries up to that number."""
    query = call.query
    first = await _after(call, query, query.after)  # a refusal is answered before anything is sent
    call.server.noted.exported(call.http, call.key, "audit.jsonl", call.verbs.tenant_id)

    async def lines() -> AsyncIterator[bytes]:
        found = first
        while found:
            shown = await _of_seen_jobs(call, found) if is_narrowed(call) else found
            yield b"".join(msgspec.json.encode(each) + b"\n" for each in shown)
            await call.allowed()
            found = await _after(call, query, found[-1].id)

    headers = {"Content-Disposition": "attachment; filename=audit.jsonl"}
    return StreamingResponse(lines(), 200, headers, "application/jsonl")


async def _after(call: Call[None, ExportQuery], query: ExportQuery, after: int) -> list[AuditEntry]:
    return await call.verbs.aaudit_log(actor=query.actor, action=query.action, limit=_PAGE, after=after)


@routes.get("/jobs/{id}/audit", roles=VIEWERS, query=PartQuery, answers={200: AuditList}, problems=(404, 422))
async def list_job_audit(call: Call[None, PartQuery]) -> Listed:
    """List what was done to a job, oldest first."""
    job = await visible_job(call)
    return part(f"audit of {job.id}", call.query, await call.verbs.aaudit(job.id), key=lambda each: str(each.id))


async def _of_seen_jobs(call: Call[Any, Any], entries: list[AuditEntry]) -> list[AuditEntry]:
    seen = await seen_ids(call, (each.job_id for each in entries if each.job_id is not None))
    return [each for each in entries if each.job_id in seen]
