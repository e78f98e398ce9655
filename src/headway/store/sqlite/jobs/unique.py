"""Unique keys: which job holds one, and the end of a job that would enter a taken scope. What an
enqueue does when it finds its key taken is in taken_keys.py.

A job that ends without its key, because another holds it, still records it: in its scope, the status that it ended in
gets a minus in front. A retry removes the minus, and so finds out whether the key is still taken.
"""

from __future__ import annotations

from headway.model import refusals
from headway.model.reasons import superseded
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.stats.deltas import count_canceled

_SQL = statements("jobs/unique")


def holder_of_key(rowid: int) -> Steps[str | None]:
    """The other job that holds this job's unique key."""
    rows = yield Statement(_SQL["holder"], (rowid,))
    return rows[0][0] if rows else None


def key_of(rowid: int) -> Steps[str | None]:
    ((key,),) = yield Statement(_SQL["key"], (rowid,))
    return None if key is None else str(key)


def supersede(rowid: int, key: str | None, holder: str, now: int) -> Steps[None]:
    """Cancel the job and drop its key."""
    yield Statement(_SQL["supersede"], (rowid, now, superseded(key, holder)))
    yield count_canceled([rowid], now)


def refuse_taken(job_id: str, rowid: int, key: str) -> Steps[None]:
    """Raises `Duplicate` if another job holds this job's unique key."""
    holder = yield from holder_of_key(rowid)
    if holder is not None:
        raise refusals.key_taken(job_id, key, holder)
