"""Errors: what went wrong, the same errors together."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from headway.api.access.narrowed import is_narrowed, may_see, seen_names
from headway.api.call import Call
from headway.api.routes import VIEWERS, Routes
from headway.api.wire.cursors import make_cursor, not_a_cursor, read_cursor
from headway.api.wire.views import Listed
from headway.model.error_groups import MOST_READ, ErrorGroup, ErrorOrder, ErrorStatus

routes = Routes("errors")


class ErrorQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`status` is how the executions ended; `job` gives the error that this job had last."""

    since: datetime | None = None
    kind: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    status: tuple[ErrorStatus, ...] = ()
    job: str | None = None
    order: ErrorOrder = "last_seen"
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    cursor: str | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0


class ErrorList(msgspec.Struct):
    items: list[ErrorGroup]
    next_cursor: str | None


@routes.get("/errors", roles=VIEWERS, query=ErrorQuery, answers={200: ErrorList}, problems=(422,))
async def list_errors(call: Call[None, ErrorQuery]) -> Listed:
    """List errors, those of the same kind, type and place together: how often, since when, in which job last."""
    query = call.query
    name = f"errors, {query.order}"
    after = read_cursor(name, query.cursor) or "0"
    if not after.isdecimal() or int(after) > MOST_READ:
        raise not_a_cursor()
    if query.job is not None and is_narrowed(call) and not may_see(call, await call.verbs.aget(query.job, raw=True)):
        return Listed([])
    found = await call.verbs.aerrors(
        since=query.since,
        kind=seen_names(query.kind, call.key.kinds),
        queue=seen_names(query.queue, call.key.queues),
        status=query.status or None,
        job=query.job,
        order=query.order,
        limit=query.limit,
        offset=int(after) + query.offset,
    )
    more = len(found) == query.limit
    return Listed(found, make_cursor(name, str(int(after) + query.offset + query.limit)) if more else None)


@routes.get("/errors/{fingerprint}", roles=VIEWERS, answers={200: ErrorGroup}, problems=(404, 422))
async def get_error(call: Call[None, None]) -> ErrorGroup:
    """Show one error, with the whole text of the last one. Its jobs: `GET /jobs?error=…`."""
    return await call.verbs.aerror(
        call.params["fingerprint"], kind=seen_names((), call.key.kinds), queue=seen_names((), call.key.queues)
    )
