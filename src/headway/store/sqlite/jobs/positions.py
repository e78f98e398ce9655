"""The next positions: what the file counts, for new jobs and those that go to the end of a line."""

from __future__ import annotations

from headway.model.position import spread
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements

_SQL = statements("jobs/positions")


def positions(count: int) -> Steps[list[int]]:
    """The next `count` positions, in order."""
    if not count:
        return []
    rows = yield Statement(_SQL["next"], (count,))
    return spread(rows[0][0], count)
