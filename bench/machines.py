"""Machines: committed steps a second, signal round trips a second, and from a signal to the step that it wakes."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time

from bench.drain import CONCURRENCY, measured
from bench.jobs import QUEUE, Echo, Walk, listeners, make_app
from headway import Headway

STEPS = 3


def steps(url: str, count: int) -> float:
    """Committed steps a second of one worker process."""

    def fill(app: Headway) -> None:
        app.enqueue_many(Walk.build(number=number) for number in range(count))

    return measured(url, fill, expected=count * STEPS, workers=1, concurrency=CONCURRENCY)


def round_trips(url: str, count: int, seconds: float) -> float:
    """Signals a second that were sent, woke their machine, were consumed, and the machine waits again."""
    return float(_inside("trips", url, count, seconds))


def latencies(url: str, samples: int) -> list[float]:
    """Milliseconds from the call of `signal` to the first line of the step, in the process of an idle worker."""
    return [float(each) for each in _inside("latency", url, samples).split()]


def _inside(what: str, url: str, *numbers: float) -> str:
    command = [sys.executable, "-m", "bench.machines", what, url, *map(str, numbers)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


async def _trips(url: str, count: int, seconds: float) -> float:
    """Every machine has one signal on its way at any time; the sender gathers what came back and sends as many."""
    app = make_app(url)
    back: asyncio.Queue[int] = asyncio.Queue()
    listeners.append(lambda number, _: back.put_nowait(number))
    jobs = await app.aenqueue_many(Echo.build(number=number) for number in range(count))
    worker = asyncio.create_task(app.arun(QUEUE, concurrency=CONCURRENCY))
    await _parked(app, count)
    began, heard, numbers = time.monotonic(), 0, list(range(count))
    while time.monotonic() - began < seconds:
        await app.asignal_many(app.build_signal(jobs[number].id, "ping") for number in numbers)
        numbers = [await back.get()]
        while not back.empty():
            numbers.append(back.get_nowait())
        heard += len(numbers)
    rate = heard / (time.monotonic() - began)
    worker.cancel()
    await asyncio.wait([worker])
    await app.aclose()
    return rate


async def _latencies(url: str, samples: int) -> list[float]:
    app = make_app(url)
    found: list[float] = []
    came = threading.Event()

    def heard(_: int, sent: float) -> None:
        found.append((time.monotonic() - sent) * 1_000)
        came.set()

    def send() -> None:
        for _ in range(samples + _WARM_UP):
            time.sleep(random.uniform(0.01, 0.05))
            came.clear()
            app.signal(job.id, "ping", time.monotonic())
            came.wait()

    listeners.append(heard)
    job = await app.aenqueue(Echo.build(number=1))
    worker = asyncio.create_task(app.arun(QUEUE, concurrency=20))
    await _parked(app, 1)
    await asyncio.to_thread(send)
    worker.cancel()
    await asyncio.wait([worker])
    await app.aclose()
    return found[_WARM_UP:]


async def _parked(app: Headway, count: int) -> None:
    while (await app.acounts()).get("waiting", 0) < count:  # noqa: ASYNC110 - it happens in the database
        await asyncio.sleep(0.05)


_WARM_UP = 5


if __name__ == "__main__":
    what, url, *numbers = sys.argv[1:]
    if what == "trips":
        print(asyncio.run(_trips(url, int(numbers[0]), float(numbers[1]))))
    else:
        print(*asyncio.run(_latencies(url, int(numbers[0]))))
