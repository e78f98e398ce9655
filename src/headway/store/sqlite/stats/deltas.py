"""Deltas: what a transaction did, left for the fold to add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headway.model.stats import SAMPLES, Delta, Key, milliseconds
from headway.store.ops import Batch, Statement
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

if TYPE_CHECKING:
    from headway.store.sqlite.jobs.ending import Ending

_SQL = statements("stats/deltas")
_UNHAPPY = ("failed", "timeout", "lost")


def count_endings(endings: Sequence[Ending], now: int) -> tuple[Batch, list[Ending]]:
    """Counts executions that ended, and the jobs that retry them; gives also those that ended badly."""
    bad: list[Ending] = []
    counts = Counter([end.job.counted_as for end in endings])
    deltas = {name: Delta(ended=count, succeeded=count) for name, count in counts.items()}
    for end in endings:
        if end.to != "succeeded" or end.status != "succeeded":
            _count_other(deltas[end.job.counted_as], end)
            if end.status in _UNHAPPY:
                bad.append(end)
    for end in endings[:: -(-len(endings) // SAMPLES)]:
        job = end.job
        delta = deltas[job.counted_as]
        delta.waits.append(0 if job.queued_at is None else milliseconds(job.started_at - job.queued_at))
        delta.runs.append(milliseconds(now - job.started_at))
    return Batch(_SQL["insert"], [_row(now, name.split(" ", 2), delta) for name, delta in deltas.items()]), bad


def count_enqueued(keys: Iterable[Key], now: int) -> Batch:
    """Counts new jobs, by their keys."""
    return Batch(_SQL["insert"], [_row(now, key, Delta(enqueued=count)) for key, count in Counter(keys).items()])


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
    """An execution that did not simply succeed, and was counted as if it had."""
    delta.succeeded -= end.to != "succeeded"
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


def _row(now: int, key: Sequence[str], delta: Delta) -> tuple[Any, ...]:
    return (
        now, *key, delta.enqueued, delta.succeeded, delta.failed, delta.retried, delta.dead, delta.canceled, delta.lost,
        delta.ended, json_list(delta.waits), json_list(delta.runs),
    )  # fmt: skip
