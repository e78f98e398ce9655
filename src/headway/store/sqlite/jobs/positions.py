"""Positions: a job's number in its line, a gap of 1024 apart so that others can be moved between."""

from __future__ import annotations

from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements

_SQL = statements("jobs/positions")


def positions(count: int) -> Steps[list[int]]:
    """The next `count` positions, a gap of 1024 apart, in order."""
    if not count:
        return []
    rows = yield Statement(_SQL["next"], (count,))
    return spread(rows[0][0], count)


def spread(last: int, count: int) -> list[int]:
    """The `count` positions up to the last one."""
    return [last - 1024 * back for back in range(count - 1, -1, -1)]
