"""Fold: adds deltas up to the numbers of minutes, hours and days, with a sample of what is queued once a minute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.model.stats import (
    COUNTS,
    SPANS,
    Delta,
    Depth,
    Key,
    Numbers,
    Span,
    Times,
    begin_ms,
    capped,
    facts,
    with_sums,
)
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.engine.statements import statements
from headway.store.sqlite.engine.verbs import SqliteOp, Verbs, json_list

_SQL = statements("stats/fold")
_encode = msgspec.json.Encoder().encode
_times = msgspec.json.Decoder(Times).decode
_list = msgspec.json.Decoder(list[int]).decode

RowKey = tuple[str, Span, int, str, str]
"""A row's tenant, span, begin in µs, queue and kind."""


class FoldVerbs(Verbs):
    def fold_stats(self, *, limit: int, depths: Sequence[Depth] | None = None) -> Op[int]:
        def probe() -> Steps[int | None]:
            ((any_,),) = yield Statement(_SQL["any"])
            return None if any_ or depths is not None else 0

        def steps() -> Steps[int]:
            now_ms = self._clock.now() // 1_000
            rows = yield Statement(_SQL["deltas"], (limit,))
            found = facts(read_delta(row[1:]) for row in rows)
            if depths is not None and not (yield from _is_sampled(now_ms)):
                yield Statement(_SQL["sample"], (now_ms,))
                for each in depths:
                    key = (each.tenant_id, each.queue, each.kind)
                    numbers = found.setdefault((begin_ms(now_ms, "minute"), key), Numbers())
                    numbers.depth, numbers.oldest_ms = each.depth, each.oldest_ms
            if found:
                yield from _store(found)
            if rows:
                yield Statement(_SQL["delete"], (rows[-1][0],))
            return len(rows)

        return SqliteOp(steps, writes=True, repeatable=False, probe=probe)

    def depths(self) -> Op[list[Depth] | None]:
        def steps() -> Steps[list[Depth] | None]:
            now = self._clock.now()
            if (yield from _is_sampled(now // 1_000)):
                return None
            return [Depth(*row) for row in (yield Statement(_SQL["depths"], (now,)))]

        return SqliteOp(steps, writes=False)

    def prune_stats(self, span: Span, *, older_than_ms: int, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            before = self._clock.now() - older_than_ms * 1_000
            return len((yield Statement(_SQL["prune"], (span, before, limit))))

        return SqliteOp(steps, writes=True)


def read_delta(row: Row) -> tuple[int, Key, Delta]:
    """A delta with its time in ms and its key, from a row of `deltas` without its rowid."""
    at, tenant_id, queue, kind, *values = row
    *counts, waits, runs = values
    return at // 1_000, (tenant_id, queue, kind), Delta(*[*counts, _list(waits), _list(runs)])


def read_numbers(values: Sequence[Any]) -> Numbers:
    """The numbers of a row's last columns."""
    *counts, waits, runs, depth, oldest_ms = values
    return Numbers(*[*counts, _times(waits), _times(runs), depth, oldest_ms])


def _is_sampled(now_ms: int) -> Steps[bool]:
    rows = yield Statement(_SQL["sampled"])
    return any(begin_ms(at_ms, "minute") == begin_ms(now_ms, "minute") for (at_ms,) in rows)


def _store(found: dict[tuple[int, Key], Numbers]) -> Steps[None]:
    """Add these numbers of minutes to the rows of all spans."""
    names = yield from _names(found)
    added: dict[RowKey, Numbers] = {}
    for (minute_ms, key), numbers in with_sums(found).items():
        tenant_id, queue, kind = names.get((begin_ms(minute_ms, "day"), key), key)
        for span in SPANS:
            row_key = (tenant_id, span, begin_ms(minute_ms, span) * 1_000, queue, kind)
            added.setdefault(row_key, Numbers()).add(numbers)
    for row in (yield Statement(_SQL["stored"], (json_list(list(added)),))):
        added[row[:5]].add(read_numbers(row[5:]))
    yield Batch(
        _SQL["store"], [(*row_key, *_columns(numbers)) for row_key, numbers in sorted(added.items(), key=_row_key)]
    )


def _names(found: dict[tuple[int, Key], Numbers]) -> Steps[dict[tuple[int, Key], Key]]:
    """Under which key each counts on its day: a day has a limited number of queues and kinds."""
    keys: dict[int, set[Key]] = {}
    for minute_ms, key in found:
        keys.setdefault(begin_ms(minute_ms, "day"), set()).add(key)
    days = {(tenant_id, day * 1_000) for day, of_day in keys.items() for tenant_id, _, _ in of_day}
    known: dict[int, dict[str, list[tuple[str, str]]]] = {}
    for tenant_id, at, queue, kind in (yield Statement(_SQL["known"], (json_list(sorted(days)),))):
        known.setdefault(at // 1_000, {}).setdefault(tenant_id, []).append((queue, kind))
    return {
        (day, key): name for day, of_day in keys.items() for key, name in capped(of_day, known.get(day, {})).items()
    }


def _columns(numbers: Numbers) -> tuple[Any, ...]:
    counts = (getattr(numbers, name) for name in COUNTS)
    times = (_encode(times).decode() for times in (numbers.waits, numbers.runs))
    return (*counts, *times, numbers.depth, numbers.oldest_ms)


def _row_key(item: tuple[RowKey, Numbers]) -> RowKey:
    return item[0]
