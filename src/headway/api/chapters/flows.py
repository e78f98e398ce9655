"""Flows: what they have recorded. Each flow is a job: see /jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from headway.api.access.narrowed import seen_journal, visible_job
from headway.api.call import Call
from headway.api.routes import OPERATORS, VIEWERS, Routes
from headway.api.wire.cursors import make_cursor, not_a_cursor, read_cursor
from headway.api.wire.views import LargeList
from headway.model.journal_row import JournalRow

routes = Routes("flows")

_LARGEST = 4 * 2**20
"""About how many bytes of values a page has, beside its first row."""


class JournalQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which part of a journal; with `everything` also what a retry or an accept has taken back."""

    everything: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    cursor: str | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0


class JournalList(msgspec.Struct):
    items: list[JournalRow]
    next_cursor: str | None


@routes.get(
    "/jobs/{id}/journal", roles=VIEWERS, query=JournalQuery, answers={200: JournalList}, problems=(404, 409, 422)
)
async def list_journal(call: Call[None, JournalQuery]) -> LargeList:
    """List what a flow has recorded, in order: the answers of its operations, and the notes about them."""
    job = await visible_job(call)
    of = f"journal of {job.id}"
    after = _number(read_cursor(of, call.query.cursor))
    rows = await call.verbs.ajournal(job.id, everything=call.query.everything, raw=True)
    left = [row for row in rows if after is None or row.seq > after][call.query.offset :]
    page = _that_fit(left[: call.query.limit])
    more = len(page) < len(left)
    return LargeList(await seen_journal(call, page), make_cursor(of, str(page[-1].seq)) if more else None)


class Accept(msgspec.Struct, forbid_unknown_fields=True):
    from_seq: Annotated[int, msgspec.Meta(ge=1)] | None = None  # by default the first that the code does not fit


class Accepted(msgspec.Struct):
    id: str
    from_seq: int


@routes.post("/jobs/{id}/accept", roles=OPERATORS, body=Accept, answers={200: Accepted}, problems=(404, 409, 422))
async def accept_flow(call: Call[Accept, None]) -> Accepted:
    """Let a flow go on with changed code: what it has recorded from there on is taken back, and runs again."""
    job = await visible_job(call)
    return Accepted(job.id, await call.verbs.aaccept(job.id, call.body.from_seq, actor=call.actor))


def _number(after: str | None) -> int | None:
    if after is None:
        return None
    if not (after.isascii() and after.removeprefix("-").isdigit() and len(after) < 12):
        raise not_a_cursor()
    return int(after)


def _that_fit(rows: Sequence[JournalRow]) -> list[JournalRow]:
    size = 0
    for place, row in enumerate(rows):
        if place and size > _LARGEST:
            return list(rows[:place])
        size += len(bytes(row.value)) if isinstance(row.value, msgspec.Raw) else 100
        size += len(row.error or "")
    return list(rows)
