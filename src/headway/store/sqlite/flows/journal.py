"""What a journal has, without its values; and how a retry takes a part of it back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.model.journal import RowKind, counting, starts_from
from headway.store.ops import Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import json_list

_SQL = statements("flows/journal")


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A row of a journal without what it is about."""

    seq: int
    fence: int
    kind: RowKind
    place: str
    signal: str | None
    said: str | None  # of a `cut` or `forgotten` row its value; of others their child's id, if they have one


def lines(job_id: str) -> Steps[list[Line]]:
    """The whole journal, in order."""
    return [Line(*row) for row in (yield Statement(_SQL["lines"], (job_id,)))]


def that_count(every: Sequence[Line]) -> list[Line]:
    """Those of them that count; PostgreSQL's twin is headway.effective."""
    starts = [starts_from(line.said or "{}") if line.kind == "forgotten" else None for line in every]
    counted = counting([(line.seq, line.fence, start) for line, start in zip(every, starts, strict=True)])
    return [line for line in every if line.seq in counted]


def take_back(job_id: str, fence: int, start: int, every: Sequence[Line], now: int) -> Steps[None]:
    """Take back the rows from this number on: the signals that they consumed are unread again, but those that only
    wake."""
    signals = [line.signal for line in that_count(every) if line.seq >= start and line.signal is not None]
    if signals:
        yield Statement(_SQL["give_back"], (job_id, json_list(signals)))
    last = max((line.seq for line in every), default=0)
    said = msgspec.json.encode({"from": start}).decode()
    yield Statement(_SQL["forgotten"], (job_id, max(last, 0) + 1, fence, said, now))


def retry_flow(job_id: str, fence: int, now: int) -> Steps[None]:
    """What a retry of a flow that is over does with its journal: takes back what its last end said that a retry shall
    forget (`cut`), and its cancel. Children that were retried meanwhile are waited for again."""
    every = yield from lines(job_id)
    cuts = [line.said for line in that_count(every) if line.kind == "cut"]
    if cuts:
        yield from take_back(job_id, fence, starts_from(cuts[-1] or "{}"), every, now)
    yield Statement(_SQL["withdraw_cancel"], (job_id,))
    yield Statement(_SQL["call_again"], (job_id,))


def has_seen(flow: str, child: str) -> Steps[bool]:
    """Whether the flow has recorded how this child ended."""
    counted = that_count((yield from lines(flow)))
    places = {line.place for line in counted if line.kind == "called" and line.said == child}
    return any(line.kind == "ended" and line.place in places for line in counted)
