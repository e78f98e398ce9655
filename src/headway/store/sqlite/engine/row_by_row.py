"""Does a duty row by row, where it failed for all of them together: what it cannot handle is named and stops nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headway.logs import Seldom, get_logger
from headway.store.ops import Row, Rows, Statement, Steps
from headway.store.sqlite.engine.errors import is_of_the_file

T = TypeVar("T")

log = get_logger("headway.store")
_says = Seldom(600)


def each_alone(
    duty: str, rows: Sequence[Row], work: Callable[[Rows], Steps[T]]
) -> Steps[tuple[list[T], list[tuple[Row, str]]]]:
    """What came of the work for each of these rows, and those that it failed for, with the reason."""
    done: list[T] = []
    failed: list[tuple[Row, str]] = []
    for row in rows:
        yield Statement("savepoint alone")
        try:
            done.append((yield from work([row])))
        except Exception as error:
            if is_of_the_file(error):
                raise
            yield Statement("rollback to alone")
            failed.append((row, f"{type(error).__name__}: {error}"))
            if _says(duty):
                log.error(f"{duty} a row failed; the others go on", row=repr(row)[:200], error=str(error))
        yield Statement("release alone")
    return done, failed
