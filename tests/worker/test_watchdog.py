"""The watchdog of an event loop: it names a callback that takes long, by its own CPU time, and no others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import uvloop

from headway.telemetry.metrics import ProcessMetrics
from headway.worker import watchdog
from headway.worker.watchdog import Watchdog

Held = list[tuple[float, str, str]]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Any:
    return asyncio.run if request.param == "asyncio" else uvloop.run


def burn(seconds: float) -> None:
    """Take so much of this thread's CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def watched(held: Held, **options: Any) -> Watchdog:
    found = Watchdog(on_held=lambda *said: held.append(said), sample_s=0.002, **options)
    found.start()
    return found


async def until_held(held: Held, work: Any) -> None:
    for _ in range(1_000):
        work()
        await asyncio.sleep(0.005)
        if held:
            return


def test_a_callback_that_takes_long_is_told_with_its_stack(run: Any) -> None:
    held: Held = []
    metrics = ProcessMetrics()

    async def main() -> None:
        dog = watched(held, metrics=metrics)
        await until_held(held, lambda: burn(0.1))
        dog.stop()

    run(main())
    seconds, by, stack = held[0]
    assert 0.02 <= seconds < 0.11
    assert (by, "in burn" in stack, "in until_held" in stack) == ("code", True, True)
    counted = metrics.samples()
    assert counted["headway_loop_held_total"] == {("engine",): 0, ("code",): len(held)}
    assert counted["headway_loop_longest_seconds"]["code",] == max(each[0] for each in held)


def test_many_short_callbacks_are_none_that_takes_long(run: Any) -> None:
    held: Held = []

    async def steps(count: int) -> None:
        for _ in range(count):
            burn(0.004)
            await asyncio.sleep(0)

    async def main() -> None:
        dog = watched(held)
        await steps(60)  # one task, whose frame is the same at every step
        await asyncio.gather(*(steps(15) for _ in range(4)))
        loop = asyncio.get_running_loop()
        for _ in range(40):
            loop.call_soon(burn, 0.004)
        await asyncio.sleep(0.01)
        dog.stop()

    run(main())
    assert held == []


def test_what_waits_without_working_is_told_only_when_it_is_long(run: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED_S", 0.05)
    held: Held = []
    told = threading.Event()
    monkeypatch.setattr(Watchdog, "_tell_of_block", lambda *_: told.set())

    async def main() -> None:
        dog = watched(held)
        await asyncio.sleep(0.01)
        assert told.wait(60)  # another thread's time
        dog.stop()

    run(main())
    assert held == []


def test_code_of_handlers_is_told_apart_from_the_engines(run: Any, monkeypatch: Any) -> None:
    held: Held = []
    jobs: set[asyncio.Task[Any] | None] = set()

    async def main() -> None:
        dog = watched(held, job_of=lambda task: {"kind": "resize"} if task in jobs else {})
        for is_job in (False, True):
            if is_job:
                jobs.add(asyncio.current_task())
            for ours in (__file__, "/nowhere"):
                monkeypatch.setattr(watchdog, "_OURS", ours)
                await until_held(held, lambda: burn(0.1))
                said.append(held[0][1])
                await asyncio.sleep(0.05)
                held.clear()
        dog.stop()

    said: list[str] = []
    run(main())
    assert said == ["engine", "code"] * 2


COLLECTS = """
import asyncio, gc, threading, time
from headway.worker.watchdog import Watchdog

def let_others_run(phase, info):
    if threading.current_thread().name == "headway-watchdog":
        time.sleep(0.0005)

async def main():
    dog = Watchdog(sample_s=0.0001)
    dog.start()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(1)
    for _ in range(500):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        await asyncio.sleep(0)
    dog.stop()

asyncio.run(main())
"""


def test_threads_start_while_the_watchdog_collects_garbage() -> None:
    """In a process of its own: before Python 3.12 a collection in the look ended it, or stopped it for ever."""
    subprocess.run([sys.executable, "-c", COLLECTS], check=True, timeout=60)


def test_it_ends_with_the_thread_that_it_watches() -> None:
    """A loop that is abandoned, and whose thread has ended: that thread's clock is gone."""
    ended: list[Watchdog] = []

    async def abandoned() -> None:
        ended.append(Watchdog())

    thread = threading.Thread(target=lambda: asyncio.run(abandoned()))
    thread.start()
    thread.join()
    ended[0]._clock = 99_999  # the kernel may give the thread's number to another one: then its clock is that one's
    ended[0]._watch()
