"""Reads lists of jobs in pieces, so that many large jobs are never in memory at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headway.model.job import Job
from headway.model.listing import Cursor, Filter, Order
from headway.store.ops import Row, Rows, Steps

T = TypeVar("T")

LIST_BYTES = 64 * 2**20
"""A list of jobs ends early when it holds more than this."""
_FIRST = 100
"""How many are read first, to learn how large they are."""
_ID, _PRIORITY, _POSITION = (Job.__struct_fields__.index(name) for name in ("id", "priority", "position"))


class Page(list[T]):
    """A list that may have ended early: then there is more after its last item, or after the id that was `reached` if
    the search looked at as many jobs as it may."""

    early = False
    reached: str | None = None


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


def search_start(where: Filter, order: Order, after: Cursor | None, default: str) -> str:
    """The id after which a search begins."""
    start = default if after is None else after.id
    if order == "newest":
        return start if where.id_to is None else min(start, where.id_to)
    return start if where.id_from is None else max(start, where.id_from)


def first_edge(ids: Sequence[str], where: Filter, order: Order) -> str | None:
    """Of the ids that the searches of several indexes may walk to, the one that all of them reach; None if that is
    beyond the ids that are wanted."""
    if not ids:
        return None
    if order == "newest":
        edge = max(ids)
        return None if where.id_from is not None and edge <= where.id_from else edge
    edge = min(ids)
    return None if where.id_to is not None and edge >= where.id_to else edge


def reached(found: Page[T], limit: int, edge: str | None) -> Page[T]:
    """The page of a search that looked at no job beyond the edge."""
    if edge is not None and len(found) < limit and not found.early:
        found.early, found.reached = True, edge
    return found
