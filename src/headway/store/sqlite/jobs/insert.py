"""Inserts new jobs as rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from headway.clock import to_micros
from headway.model.job import NewJob
from headway.model.machine import Checkpoint
from headway.model.outcome import Match
from headway.model.status import Status
from headway.store.ops import Batch, Row, Statement, Steps
from headway.store.sqlite.engine.statements import of_rows, statements
from headway.store.sqlite.engine.verbs import json_list
from headway.store.sqlite.stats.deltas import count_enqueued, count_last

_SQL = statements("jobs/enqueue")
_PRUNE = statements("jobs/prune")

_CREATED_AT = 18  # its index in a row
_AT_ONCE = 16  # rows per insert: SQLite before 3.32 takes 999 parameters
_INSERTS = {name: of_rows(_SQL[name], _AT_ONCE) for name in ("insert", "insert_extended")}


def starts_at(job: NewJob, now: int) -> int | None:
    if job.scheduled_for is not None:
        return to_micros(job.scheduled_for)
    return None if job.delay_ms is None else now + job.delay_ms * 1000


def extended_row(row: Row, job: NewJob, *, metered: bool, parent_id: str | None) -> Row:
    """The row with the job's extras (train, limits, group …) and where a machine begins; `parent_id` is the machine
    that spawns it now, if one does."""
    return (
        *row,
        job.train,
        None if job.on_canceled == "advance" else job.on_canceled,
        None if job.on_dead == "advance" else job.on_dead,
        job.partition,
        job.concurrency,
        job.concurrency_key,
        job.rate_count,
        job.rate_period_ms,
        job.rate_burst,
        job.rate_key,
        job.group_id,
        bool(job.after),
        metered,
        job.unique_group,
        *_start(job.checkpoint, parent_id),
        names_text(job.tags),
    )


def _start(checkpoint: Checkpoint | None, parent_id: str | None) -> Row:
    if checkpoint is None:
        return (*(None,) * 10, parent_id)
    return (
        checkpoint.version,
        checkpoint.step,
        bytes(checkpoint.state).decode() or None,
        names_text(checkpoint.awaiting),
        match_flag(checkpoint.match),
        checkpoint.joining,
        checkpoint.woken,
        checkpoint.home_queue,
        checkpoint.home_partition,
        checkpoint.forked_from,
        parent_id or checkpoint.parent_id,
    )


def names_text(names: Sequence[str]) -> str | None:
    """The names that a machine awaits, or a job's tags, as stored."""
    return json_list(names) if names else None


def match_flag(match: Match) -> int | None:
    return 1 if match == "all" else None


def insert_all(name: str, rows: Sequence[Row]) -> Steps[int]:
    """Run this insert for all rows, and count those that were new; gives how many."""
    new = yield from _insert_all(name, rows)
    if not new:
        return 0
    if new == len(rows):
        yield count_enqueued([(row[1], row[3], row[2]) for row in rows], rows[0][_CREATED_AT])
    else:
        yield count_last(new, rows[0][_CREATED_AT])
    return new


def _insert_all(name: str, rows: Sequence[Row]) -> Steps[int]:
    if len(rows) == 1:
        yield Statement(_SQL[name], rows[0])
        ((new,),) = yield Statement(_SQL["changes"])
        return int(new)
    ((before,),) = yield Statement(_SQL["total_changes"])
    whole = len(rows) - len(rows) % _AT_ONCE
    if whole:
        blocks = [tuple(chain(*rows[first : first + _AT_ONCE])) for first in range(0, whole, _AT_ONCE)]
        yield Batch(_INSERTS[name], blocks)
    yield Batch(_SQL[name], rows[whole:])
    ((after,),) = yield Statement(_SQL["total_changes"])
    return int(after - before)


def index_tags(ids: Sequence[str]) -> Statement:
    """Make these jobs, which have tags, findable by them."""
    return Statement(_SQL["index_tags"], (json_list(ids),))


def renew_tags(job_id: str, before: str | None) -> Steps[None]:
    """Make the job, whose tags were these, as stored, findable by those that it has now."""
    if before is not None:
        yield Statement(_PRUNE["prune_tags"], (before, job_id))
    yield index_tags([job_id])


def present(ids: Sequence[str]) -> Steps[dict[tuple[str, str], Status]]:
    """The status of those of these jobs that exist, by id and tenant."""
    rows = yield Statement(_SQL["present"], (json_list(ids),))
    return {(job_id, tenant): status for job_id, tenant, status in rows}
