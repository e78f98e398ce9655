"""Journals: the finished operations of a flow, which is a job whose function goes on behind the last of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from headway.model.job import NewJob
from headway.model.signal import Received

FLOW = "$flow"
"""The step of every flow: what tells it from a machine."""

CHILD = "$child"
"""The signal that a child of the flow is over. It only wakes: what counts is the child's row."""

CANCEL = "$cancel"
"""The signal that somebody wants the flow to end; its payload is the reason. A retry deletes it."""

Answer = Literal["done", "failed", "signal", "ended", "timer", "cancel"]
Note = Literal["called", "due", "begun", "tried", "settled", "cut", "forgotten"]
RowKind = Answer | Note

ANSWERS: frozenset[RowKind] = frozenset({"done", "failed", "signal", "ended", "timer", "cancel"})
"""What is delivered to the function, in the order of `seq`; the others are notes, found by their place."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row to be recorded by the execution (job_id, fence).

    A `called` entry may have a `child` to be enqueued; its value is then an object with the child's "id". `waits`: the
    flow is woken when that child is over, and the child is canceled if the flow is over first. A child that is kept is
    not: it has no parent.
    """

    job_id: str
    fence: int
    seq: int  # from 1
    kind: RowKind
    place: str
    value: str | None = None  # JSON text
    error: str | None = None
    print: int | None = None  # the fingerprint of the arguments
    took_ms: int | None = None
    signal: str | None = None  # the id of the signal that it consumes
    child: NewJob | None = None
    waits: bool = False
    keeps: bool = False

    @property
    def parent(self) -> str | None:
        """The parent of the child."""
        return None if self.keeps else self.job_id

    @property
    def size(self) -> int:
        """About how many bytes it is on its way to the database."""
        payload = 0 if self.child is None else len(self.child.payload) + 500
        return len(self.value or "") + len(self.error or "") + len(self.place) + 100 + payload


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a journal as it is stored."""

    job_id: str
    seq: int  # the order of delivery; of `settled` notes below 0, without an order
    fence: int  # the execution that wrote it
    kind: RowKind
    place: str
    value: msgspec.Raw | None
    error: str | None
    print: int | None
    at: datetime
    took_ms: int | None
    signal: str | None


class Recorded(msgspec.Struct, frozen=True):
    """What a record answers."""

    lost: list[tuple[str, int]]  # (id, fence) of what is not this worker's any more: nothing of it was written
    children: dict[str, str]  # an entry's child → the job that it is: itself, or the one that it met by its key
    at: dict[str, int] = {}  # of each flow, the time of these rows, in microseconds


class Journals(msgspec.Struct, frozen=True):
    """Rows of journals, by job and seq."""

    rows: list[Row]
    more: bool  # it was cut: ask again after the last row
    now: datetime  # by the store's clock


class FlowNews(msgspec.Struct, frozen=True):
    """What arrived for a flow while it runs."""

    signals: list[Received]  # all that are unconsumed, in order of arrival, as a claim brings them
    canceling: bool  # `$cancel` is among them


class _From(msgspec.Struct, frozen=True):
    start: int = msgspec.field(name="from", default=0)


def starts_from(value: msgspec.Raw | bytes | str) -> int:
    """The number in the value of a `cut` or `forgotten` row.

    >>> starts_from('{"from": 7, "why": "charge"}')
    7
    """
    return msgspec.json.decode(value, type=_From).start


def with_child(entry: Entry, children: Mapping[str, str]) -> Entry:
    """The entry with the id of the job that its child is, if that is known.

    >>> child = NewJob(id="mine", kind="pack")
    >>> entry = Entry(job_id="f", fence=1, seq=1, kind="called", place="pack", value='{"id":"mine","n":1}', child=child)
    >>> with_child(entry, {"mine": "theirs"}).value
    '{"id":"theirs","n":1}'
    """
    if entry.child is None or entry.child.id not in children:
        return entry
    said = msgspec.json.decode(entry.value or "{}")
    said = {**(said if isinstance(said, dict) else {}), "id": children[entry.child.id]}
    return msgspec.structs.replace(entry, value=msgspec.json.encode(said).decode())


def news(inbox: str) -> FlowNews:
    """What a flow's unread signals, as JSON, say."""
    signals = msgspec.json.decode(inbox, type=list[Received])
    return FlowNews(signals, any(signal.name == CANCEL for signal in signals))


def effective(rows: Sequence[Row]) -> list[Row]:
    """The rows of one journal, in order, that count: without those that a later `forgotten` row took back, and without
    that row. It takes back every row from its number on; if that is below 1, the `settled` notes of its execution and
    of those before, too.

    >>> def row(seq, kind, place="", value=None, fence=1):
    ...     raw = None if value is None else msgspec.Raw(value)
    ...     return Row(job_id="f", seq=seq, fence=fence, kind=kind, place=place, value=raw, error=None, print=None,
    ...                at=datetime(2026, 1, 1), took_ms=None, signal=None)
    >>> cut = row(3, "cut", value='{"from": 2}')
    >>> first = [row(-5, "settled", "pay"), row(1, "done", "pay"), row(2, "failed", "ship"), cut]
    >>> again = [*first, row(4, "forgotten", value='{"from": 2}'), row(5, "done", "ship", fence=2)]
    >>> [(each.seq, each.kind, each.place) for each in effective(again)]
    [(-5, 'settled', 'pay'), (1, 'done', 'pay'), (5, 'done', 'ship')]
    >>> whole = row(4, "forgotten", value='{"from": 0}')
    >>> effective([*first, whole])
    []
    >>> [each.seq for each in effective([row(-6, "settled", fence=2), *first, whole])]
    [-6]
    """
    starts = [starts_from(row.value or b"{}") if row.kind == "forgotten" else None for row in rows]
    counted = counting([(row.seq, row.fence, start) for row, start in zip(rows, starts, strict=True)])
    return [row for row in rows if row.seq in counted]


def counting(rows: Sequence[tuple[int, int, int | None]]) -> set[int]:
    """The numbers of the rows of one journal that count, of all in order: (seq, fence, what it takes back from)."""
    counted: set[int] = set()
    settled_after = -1
    lowest: int | None = None
    for seq, fence, start in reversed(rows):
        if seq < 0:
            if fence > settled_after:
                counted.add(seq)
        elif start is not None:
            # for good, even where a later one takes this row back
            lowest = start if lowest is None else min(lowest, start)
            if start < 1:
                settled_after = max(fence, settled_after)
        elif lowest is None or seq < lowest:
            counted.add(seq)
    return counted
