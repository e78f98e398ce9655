"""Enqueueing: one by one from one thread, and in bulk, in turns with the raw limit."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.jobs import enqueue, make_app
from bench.raw import open_raw

BATCH = 1_000
TURNS = 4


def rates(url: str, *, jobs: int, singles: int) -> Iterator[tuple[str, float]]:
    """Jobs a second of each way; short turns, so that a busy moment of the machine meets both sides."""
    app, raw = make_app(url), open_raw(url)
    noop = app.kinds["noop"]

    def one_by_one(count: int) -> float:
        began = time.perf_counter()
        for number in range(count):
            noop.enqueue(number=number, to="somebody@example.com")
        return count / (time.perf_counter() - began)

    def in_bulk(count: int) -> float:
        began = time.perf_counter()
        enqueue(app, count, BATCH)
        return count / (time.perf_counter() - began)

    one_by_one(1)  # connects
    ways = {"raw.single": raw.single, "single": one_by_one, "raw.bulk": raw.bulk, "bulk": in_bulk}
    sizes = {"single": singles // TURNS, "bulk": max(jobs // TURNS // BATCH, 1) * BATCH}
    seconds = dict.fromkeys(ways, 0.0)
    for _ in range(TURNS):
        for name, way in ways.items():
            seconds[name] += 1 / way(sizes[name.removeprefix("raw.")])
    raw.close()
    app.close()
    for name, spent in seconds.items():
        yield name, TURNS / spent
