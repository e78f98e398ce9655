"""Deltas: what a transaction did, left for the fold to add up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headway.model.stats import Delta, Key, milliseconds
from headway.store.ops import Batch, Statement
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

if TYPE_CHECKING:
    from headway.store.sqlite.jobs.ending import Ending

_SQL = statements("stats/deltas")
_UNHAPPY = ("failed", "timeout", "lost")


def count_endings(endings: Sequence[Ending], now: int) -> Batch:
    """Counts executions that ended, and the jobs that retry them."""
    deltas: dict[Key, Delta] = {}
    for end in endings:
        job = end.job
        key = (job.tenant_id, job.queue, job.kind)
        delta = deltas.get(key)
        if delta is None:
            delta = deltas[key] = Delta()
        started = job.started_at
        delta.waits.append(0 if job.queued_at is None else milliseconds(started - job.queued_at))
        delta.runs.append(milliseconds(now - started))
        if end.to == "succeeded":
            delta.succeeded += 1
        if end.status != "succeeded" or end.heir is not None:
            _count_other(delta, end)
    return _insert(deltas, now)


def count_enqueued(keys: Iterable[Key], now: int) -> Batch:
    """Counts new jobs, by their keys."""
    deltas: dict[Key, Delta] = {}
    for key in keys:
        delta = deltas.get(key)
        if delta is None:
            delta = deltas[key] = Delta()
        delta.enqueued += 1
    return _insert(deltas, now)


def count_last(new: int, now: int) -> Statement:
    """Counts the jobs that were inserted last."""
    return Statement(_SQL["last"], (new, now))


def count_canceled(rowids: Sequence[int], now: int) -> Statement:
    """Counts these jobs, which were canceled before they ran, or gave up their claim unstarted."""
    return Statement(_SQL["canceled"], (json_list(rowids), now))


def count_copies(rowids: Sequence[int], now: int) -> Statement:
    """Counts the new jobs that retry these."""
    return Statement(_SQL["copies"], (json_list(rowids), now))


def _count_other(delta: Delta, end: Ending) -> None:
    """An execution that did not simply succeed."""
    if end.status == "lost":
        delta.lost += 1
    elif end.status in _UNHAPPY:
        delta.failed += 1
    if end.status in _UNHAPPY and (end.heir is not None or end.to in ("scheduled", "queued")):
        delta.retried += 1
    if end.to == "dead":
        delta.dead += 1
    elif end.to == "canceled":
        delta.canceled += 1
    if end.heir is not None:
        delta.enqueued += 1
        delta.canceled += end.heir_ended


def _insert(deltas: dict[Key, Delta], now: int) -> Batch:
    return Batch(_SQL["insert"], [_row(now, key, delta) for key, delta in deltas.items()])


def _row(now: int, key: Key, delta: Delta) -> tuple[Any, ...]:
    return (
        now, *key, delta.enqueued, delta.succeeded, delta.failed, delta.retried, delta.dead, delta.canceled, delta.lost,
        json_list(delta.waits), json_list(delta.runs),
    )  # fmt: skip
