"""Inboxes: a machine's unconsumed signals, and whether they are what it awaits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from headway.model.signal import INBOX_BYTES, INBOX_SIGNALS, Received, most_wanted, satisfied
from headway.store.ops import Batch, Statement, Steps
from headway.store.sqlite.engine.decode import to_match, to_names
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("machines/inbox")
_AT_ONCE = 16  # signals per read of an inbox: few, so that one read is never far above `INBOX_BYTES`
_encode = msgspec.json.Encoder().encode


def inboxes(
    ids: Sequence[str], awaiting: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Steps[dict[str, tuple[Received, ...]]]:
    """The unconsumed signals of each of these jobs that has any, in order of arrival; of a large inbox the most wanted
    ones, up to `INBOX_BYTES` and `INBOX_SIGNALS`, at least one."""
    there: dict[str, list[tuple[int, str]]] = {}
    for job_id, seq, name in (yield Statement(_SQL["inbox"], (json_list(ids),))):
        there.setdefault(job_id, []).append((seq, name))
    wanted = {
        job_id: [signals[n][0] for n in most_wanted([name for _, name in signals], awaiting.get(job_id, ()))]
        for job_id, signals in there.items()
    }
    wanted = {job_id: seqs[:INBOX_SIGNALS] for job_id, seqs in wanted.items()}
    found: dict[str, dict[int, Received]] = {job_id: {} for job_id in wanted}
    room = dict.fromkeys(wanted, INBOX_BYTES)
    while wanted:
        asked = [seq for seqs in wanted.values() for seq in seqs[:_AT_ONCE]]
        rows = {row[0]: row[1:] for row in (yield Statement(_SQL["received"], (json_list(asked),)))}
        for job_id, seqs in wanted.items():
            for seq in seqs[:_AT_ONCE]:
                _, signal_id, name, payload, sent_at, dedup_key, trace_id = rows[seq]
                raw = payload.encode()
                room[job_id] -= len(raw)
                if room[job_id] < 0 and found[job_id]:
                    break
                found[job_id][seq] = Received(signal_id, name, msgspec.Raw(raw), sent_at, dedup_key, trace_id)
        wanted = {job_id: seqs[_AT_ONCE:] for job_id, seqs in wanted.items() if seqs[_AT_ONCE:] and room[job_id] >= 0}
    return {job_id: tuple(signals[seq] for seq in sorted(signals)) for job_id, signals in found.items()}


def names_there(ids: Sequence[str]) -> Steps[dict[str, set[str]]]:
    """The names of unconsumed signals, by job."""
    found: dict[str, set[str]] = {}
    for job_id, name in (yield Statement(_SQL["names"], (json_list(ids),))):
        found.setdefault(job_id, set()).add(name)
    return found


def to_text(signals: tuple[Received, ...] | None) -> str | None:
    return _encode(signals).decode() if signals else None


def meets(awaiting: str, match_all: int | None, there: Iterable[str]) -> bool:
    """Whether these names are what a machine's row says it awaits."""
    return satisfied(to_names(awaiting), to_match(match_all), there)


def consume(consumed: Sequence[tuple[str, str, int, int]]) -> Steps[None]:
    """Mark signals as consumed, each given as (id, job id, fence, now)."""
    if consumed:
        yield Batch(_SQL["consume"], consumed)


def give_back(job_id: str, fence: int) -> Statement:
    """Makes the signals that an execution consumed unconsumed again."""
    return Statement(_SQL["give_back"], (job_id, fence))


def move_inboxes(heirs: Mapping[str, str]) -> Steps[None]:
    """Move unconsumed signals from jobs to the new jobs that retry them."""
    yield Batch(_SQL["move"], list(heirs.items()))
