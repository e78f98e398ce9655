"""Runs a migration part by part, each committed by itself, so that one that was ended goes on where it was."""

from __future__ import annotations

import time
from typing import Any, Protocol, TypeVar

from headway.logs import get_logger
from headway.store.ops import Statement, Steps
from headway.store.postgres.engine import migrate
from headway.store.steps import Part

log = get_logger("headway.store")
T = TypeVar("T")

_PATIENCE_S = 0.5


class Run(Protocol):
    """Drives steps on one connection."""

    def __call__(self, steps: Steps[T], /) -> T: ...


def migrate_in_parts(to: int | None, in_transaction: Run, run: Run) -> list[str]:
    """Bring the schema to a version; gives what was done. Several may do this at the same time."""
    done: list[str] = []
    while True:
        found = in_transaction(migrate.advance(to))
        done += [part.title for part in found.done]
        if found.left is not None:
            if found.left.outside:
                _run_outside(found.left, to, in_transaction, run)
            else:
                _run_batches(found.left, to, in_transaction)
            done.append(found.left.title)
        if found.over:
            return done


def _run_outside(part: Part, to: int | None, in_transaction: Run, run: Run) -> None:
    # it does not wait in the server: what it runs waits for every transaction, and so for whoever waits for this lock
    while not run(migrate.alone()):
        time.sleep(_PATIENCE_S)
    try:
        if part in in_transaction(migrate.plan(to)):
            for sql in part.statements:
                run(_statement(sql))
            in_transaction(migrate.record(part, to))
    finally:
        run(migrate.not_alone())


def _run_batches(part: Part, to: int | None, in_transaction: Run) -> None:
    rows = 0
    while changed := in_transaction(migrate.batch(part)):
        rows += changed
        log.info("a step of the migration goes on", step=part.title, rows=rows)
    in_transaction(migrate.record(part, to))


def _statement(sql: str) -> Steps[Any]:
    return (yield Statement(sql))
