"""Reads lists of jobs in pieces, so that many large jobs are never in memory at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headway.model.job import Job
from headway.model.listing import Cursor
from headway.store.ops import Row, Rows, Steps

T = TypeVar("T")

LIST_BYTES = 64 * 2**20
"""A list of jobs ends early when it holds more than this."""
_FIRST = 100
"""How many are read first, to learn how large they are."""
_ID, _PRIORITY, _POSITION = (Job.__struct_fields__.index(name) for name in ("id", "priority", "position"))


class Page(list[T]):
    """A list that may have ended early: then there is more after its last item."""

    early = False


def in_pieces(
    limit: int, after: Cursor | None, page: Callable[[int, Cursor | None], Steps[Rows]], shape: Callable[[Row], T]
) -> Steps[Page[T]]:
    """Up to `limit` jobs, whose columns are the fields of `Job`, page by page; fewer if they are large."""
    found: Page[T] = Page()
    size = 0
    last = after
    count = min(limit, _FIRST)
    while count > 0:
        rows = yield from page(count, last)
        found += map(shape, rows)
        if len(rows) < count or len(found) == limit:
            return found
        last = Cursor(str(rows[-1][_ID]), rows[-1][_PRIORITY], rows[-1][_POSITION])
        size += sum(len(value) for row in rows for value in row if isinstance(value, str))
        count = min(limit - len(found), (LIST_BYTES - size) * len(found) // size)
    found.early = bool(found)
    return found
