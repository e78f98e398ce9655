"""Pieces: where any number of jobs follow from one, a transaction does some, and leaves the rest as an arrival."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements

_SQL = statements("order/postponed")

PIECE = 500
"""So many jobs are ended in one transaction: other writers wait meanwhile."""

What = Literal["ended", "stopping", "orphaned", "revived", "clearing"]


def leave(what: What, ids: Iterable[str]) -> Steps[None]:
    """Leave word that there is more to do for these, by whoever promotes next."""
    rows = [(what, each) for each in ids]
    if rows:
        yield Batch(_SQL["leave"], rows)


def take(after: str) -> Steps[tuple[What, str, str] | None]:
    """The first arrival of the tenant that comes after this one, which is taken away, and that tenant."""
    rows = yield Statement(_SQL["take"], (after,))
    return (rows[0][0], rows[0][1], rows[0][2]) if rows else None


def any_left() -> Steps[bool]:
    ((found,),) = yield Statement(_SQL["any"])
    return bool(found)
