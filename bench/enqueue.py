"""Enqueueing: one by one from one thread, and in bulk, in turns with the raw limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from bench.jobs import Options, enqueue, make_app, plain
from bench.raw import open_raw

BATCH = 1_000
TURNS = 4

Way = Callable[[int], float]


def rates(url: str, *, jobs: int, singles: int) -> Iterator[tuple[str, float]]:
    """Jobs a second of each way, beside the raw limit."""
    raw = open_raw(url)
    with closing(raw), Enqueuing(url) as own:
        ways = {"raw.single": raw.single, "single": own.one_by_one(), "raw.bulk": raw.bulk, "bulk": own.in_bulk()}
        yield from _in_turns(ways, jobs=jobs, singles=singles)


def train_rates(url: str, *, jobs: int, singles: int) -> Iterator[tuple[str, float]]:
    """The same into trains, beside plain jobs: one by one into a hundred of them, in bulk three cars each."""
    with Enqueuing(url) as own:
        ways = {
            "order.single.plain": own.one_by_one(),
            "order.single": own.one_by_one(lambda number: {"train": f"train-{number % 100}"}),
            "order.bulk.plain": own.in_bulk(),
            "order.bulk": own.in_bulk(lambda number: {"train": f"train-{number // 3}"}),
        }
        yield from _in_turns(ways, jobs=jobs, singles=singles)


class Enqueuing:
    """An app whose enqueues are measured: what it gives enqueues so many and says how many a second that were."""

    def __init__(self, url: str) -> None:
        self._app = make_app(url)

    def __enter__(self) -> Enqueuing:
        self._noop.enqueue(number=0, to="somebody@example.com")  # connects
        return self

    def __exit__(self, *_: object) -> None:
        self._app.close()

    @property
    def _noop(self) -> Any:
        return self._app.kinds["noop"]

    def one_by_one(self, options: Options = plain) -> Way:
        def way(count: int) -> float:
            kinds = [self._noop.using(**options(number)) for number in range(count)]
            began = time.perf_counter()
            for number, kind in enumerate(kinds):
                kind.enqueue(number=number, to="somebody@example.com")
            return count / (time.perf_counter() - began)

        return way

    def in_bulk(self, options: Options = plain) -> Way:
        def way(count: int) -> float:
            began = time.perf_counter()
            enqueue(self._app, count, BATCH, options)
            return count / (time.perf_counter() - began)

        return way


def _in_turns(ways: Mapping[str, Way], *, jobs: int, singles: int) -> Iterator[tuple[str, float]]:
    """Short turns, so that a busy moment of the machine meets all of them."""
    sizes = {"single": singles // TURNS, "bulk": max(jobs // TURNS // BATCH, 1) * BATCH}
    seconds = dict.fromkeys(ways, 0.0)
    for _ in range(TURNS):
        for name, way in ways.items():
            seconds[name] += 1 / way(sizes["single" if "single" in name else "bulk"])
    for name, spent in seconds.items():
        yield name, TURNS / spent
