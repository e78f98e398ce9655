"""Enqueueing: one by one from one thread, and in bulk."""

from __future__ import annotations

import time

from bench.jobs import enqueue, make_app

BATCH = 1_000


def single(url: str, count: int) -> float:
    """Jobs a second by `kind.enqueue`, each committed before the next."""
    app = make_app(url)
    noop = app.kinds["noop"]
    noop.enqueue(number=0, to="somebody@example.com")  # connects
    began = time.perf_counter()
    for number in range(count):
        noop.enqueue(number=number, to="somebody@example.com")
    took = time.perf_counter() - began
    app.close()
    return count / took


def bulk(url: str, count: int) -> float:
    """Jobs a second by `app.enqueue_many`, building them included."""
    app = make_app(url)
    enqueue(app, 1, 1)  # connects
    began = time.perf_counter()
    enqueue(app, count, BATCH)
    took = time.perf_counter() - began
    app.close()
    return count / took
