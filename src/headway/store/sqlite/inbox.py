"""Inboxes: the signals of machines that nobody consumed yet, and whether they are what an await waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headway.model.outcome import Match
from headway.model.signal import Received, satisfied
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.op import json_list
from headway.store.sqlite.sql import statements

_SQL = statements("signals")
_encode = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode


def inboxes(ids: Sequence[str]) -> Steps[dict[str, tuple[Received, ...]]]:
    """What is unconsumed of each of these that has any, in order of arrival."""
    found: dict[str, list[Received]] = {}
    for job_id, signal_id, name, payload, sent_at, dedup_key in (yield Statement(_SQL["inbox"], (json_list(ids),))):
        signal = Received(signal_id, name, msgspec.Raw(payload.encode()), sent_at, dedup_key)
        found.setdefault(job_id, []).append(signal)
    return {job_id: tuple(signals) for job_id, signals in found.items()}


def names_there(ids: Sequence[str]) -> Steps[dict[str, set[str]]]:
    """The names of the signals that are unconsumed."""
    found: dict[str, set[str]] = {}
    for job_id, name in (yield Statement(_SQL["names"], (json_list(ids),))):
        found.setdefault(job_id, set()).add(name)
    return found


def to_text(signals: tuple[Received, ...] | None) -> str | None:
    return _encode(signals).decode() if signals else None


def to_names(awaiting: str | None) -> tuple[str, ...]:
    """The names as they are stored."""
    return () if awaiting is None else _decode_names(awaiting)


def to_match(match_all: int | None) -> Match:
    return "all" if match_all else "any"


def meets(awaiting: str, match_all: int | None, there: Iterable[str]) -> bool:
    """Whether what is there is what a machine waits for, as its row says it."""
    return satisfied(to_names(awaiting), to_match(match_all), there)


def consume(consumed: Sequence[tuple[str, str, int, int]]) -> Steps[None]:
    """Mark signals, each by (id, job id, fence, now)."""
    if consumed:
        yield Batch(_SQL["consume"], consumed)


def move_inboxes(heirs: Mapping[str, str]) -> Steps[None]:
    """Give what is unconsumed to the jobs that retry these."""
    yield Batch(_SQL["move"], list(heirs.items()))
