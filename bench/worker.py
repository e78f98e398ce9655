"""A worker process as `headway worker` starts it, and the handle by which the benchmark holds it."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from bench.jobs import QUEUE, make_app
from headway import Headway

READY = "ready"


class Process:
    """A running worker process; what its handlers print comes line by line from `lines`."""

    def __init__(self, url: str, *, concurrency: int, workers: int = 1, pings: int = 0) -> None:
        arguments = [url, str(concurrency), str(workers), str(pings)]
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "bench.worker", *arguments], stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        """The next line that it prints."""
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"a worker process ended by itself with {self._popen.wait()}")
        return line

    def rss(self) -> float:
        """Its resident memory in MiB."""
        return float(psutil.Process(self._popen.pid).memory_info().rss) / 2**20

    def stop(self) -> None:
        self._popen.terminate()
        self._popen.communicate()


@contextmanager
def processes(url: str, count: int, **options: int) -> Iterator[Sequence[Process]]:
    """So many worker processes that have started, connected and registered."""
    started = [Process(url, **options) for _ in range(count)]
    try:
        for process in started:
            line = process.line()
            assert line == READY, line
        yield started
    finally:
        for process in started:
            process.stop()


def main(url: str, concurrency: int, workers: int, pings: int) -> None:
    app = make_app(url)
    waiting = workers

    def started(_event: object) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            print(READY, flush=True)
            if pings:
                threading.Thread(target=ping_itself, daemon=True).start()

    def ping_itself() -> None:
        ping = app.kinds["ping"]
        for _ in range(pings):
            time.sleep(random.uniform(0.01, 0.05))
            ping.enqueue(sent=time.monotonic())

    app.on("worker.started", started)
    if workers == 1:
        app.run(QUEUE, concurrency=concurrency)
    else:
        asyncio.run(_several(app, workers, concurrency))


async def _several(app: Headway, workers: int, concurrency: int) -> None:
    await asyncio.gather(*(app.arun(QUEUE, concurrency=concurrency) for _ in range(workers)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
