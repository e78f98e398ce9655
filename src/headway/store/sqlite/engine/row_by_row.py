"""Does work row by row after it failed for all rows together: one that fails is logged, the others continue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headway.logs import Seldom, get_logger
from headway.store.ops import Row, Rows, Statement, Steps
from headway.store.sqlite.engine.errors import is_of_the_file

T = TypeVar("T")

log = get_logger("headway.store")
_says = Seldom(600)


def row_by_row(
    duty: str, rows: Sequence[Row], work: Callable[[Rows], Steps[T]]
) -> Steps[tuple[list[T], list[tuple[Row, str]]]]:
    """The results of the rows that succeeded, and the rows that failed, each with the reason."""
    done: list[T] = []
    failed: list[tuple[Row, str]] = []
    for row in rows:
        yield Statement("savepoint one_row")
        try:
            done.append((yield from work([row])))
        except Exception as error:
            if is_of_the_file(error):
                raise
            yield Statement("rollback to one_row")
            failed.append((row, f"{type(error).__name__}: {error}"))
            if _says(duty):
                log.error(f"{duty} a row failed; the others continue", row=repr(row)[:200], error=str(error))
        yield Statement("release one_row")
    return done, failed
