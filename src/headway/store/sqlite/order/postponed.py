"""Postponed work: where many jobs follow from one, a transaction does a piece and leaves the rest as an arrival."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.statements import statements

_SQL = statements("order/postponed")

PIECE = 500
"""How many jobs one transaction ends: other writers wait meanwhile."""

What = Literal["ended", "stopping", "orphaned", "revived", "clearing", "resumed"]


def postpone(what: What, ids: Iterable[str]) -> Steps[None]:
    """Leave the rest of the work for these to the next claim or promote."""
    rows = [(what, each) for each in ids]
    if rows:
        yield Batch(_SQL["postpone"], rows)


def take(after: str) -> Steps[tuple[What, str, str] | None]:
    """Take the first arrival of the next tenant in turn; gives it with that tenant."""
    rows = yield Statement(_SQL["take"], (after,))
    return (rows[0][0], rows[0][1], rows[0][2]) if rows else None


def any_postponed() -> Steps[bool]:
    ((found,),) = yield Statement(_SQL["any"])
    return bool(found)
