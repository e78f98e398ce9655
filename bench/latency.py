"""Pick-up: from the call of enqueue to the first line of the handler, in milliseconds, when the worker is idle."""

from __future__ import annotations

import random
import time

from bench.jobs import make_app
from bench.worker import processes


def across(url: str, samples: int) -> list[float]:
    """From this process to a worker in another one, on a queue in use, at moments that know nothing of its polls."""
    app = make_app(url)
    ping = app.kinds["ping"]
    found: list[float] = []
    try:
        with processes(url, 1, concurrency=20) as (worker,):
            for n in range(samples + _WARM_UP):
                time.sleep(random.uniform(0.01, 0.1))
                ping.enqueue(sent=time.monotonic())
                ms = float(worker.line())
                if n >= _WARM_UP:
                    found.append(ms)
    finally:
        app.close()
    return found


def within(url: str, samples: int) -> list[float]:
    """From a thread of the worker's own process."""
    with processes(url, 1, concurrency=20, pings=samples + _WARM_UP) as (worker,):
        return [float(worker.line()) for _ in range(samples + _WARM_UP)][_WARM_UP:]


_WARM_UP = 5
