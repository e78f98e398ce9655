"""Starts jobs: sets them running under a new fence, and makes their claims."""

from __future__ import annotations

from collections.abc import Sequence

from headway.model.job import Claim
from headway.store.ops import Row, Rows, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.machines.turns import read_checkpoints

_SQL = statements("jobs/claim")


def start_first(worker_id: str, queue: str, limit: int, now: int) -> Steps[list[Claim]]:
    """Start the first jobs of a queue, in order. One that would enter a taken unique scope stays queued."""
    rows = yield Statement(_SQL["start_first"], (queue, now, limit, worker_id))
    rows.sort()  # by priority, position, id: returning has no order
    return (yield from _claims(rows, 2))


def start_these(worker_id: str, rowids: Sequence[int], now: int, *, limited: int) -> Steps[dict[int, Claim]]:
    """Start exactly these jobs, which count under limits as `limited` says; gives their claims by rowid."""
    rows = yield Statement(_SQL["start_these"], (json_list(rowids), now, limited, worker_id))
    claims = yield from _claims(rows, 1)
    return {row[0]: claim for row, claim in zip(rows, claims, strict=True)}


def read_claims(rows: Rows) -> Steps[list[Claim]]:
    """The claims of these rows of running jobs."""
    return (yield from _claims(rows, 0))


def _claims(rows: Rows, begin: int) -> Steps[list[Claim]]:
    """The claims of these rows, whose columns begin there."""
    ids = [row[begin] for row in rows if row[-1]]
    checkpoints = (yield from read_checkpoints(ids)) if ids else {}
    return [_claim(row[begin:-3], row[-2], checkpoints.get(row[begin]), row[-3]) for row in rows]


def _claim(columns: Row, followed: int, checkpoint: str | None, attempt: int) -> Claim:
    return Claim(*[*columns, bool(followed), checkpoint, attempt])
