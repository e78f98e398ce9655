"""Hints: an enqueue in one process wakes one worker in another, and nothing ever waits or fails because of it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headway import Headway
from headway.worker.wake import HintListener, Hints, folder_of
from tests.worker_harness import WorkerHarness

SELDOM = {"pace_ms": 10**6, "idle_pace_ms": 10**6}
"""A worker that looks once and then waits to be told."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    # a socket's path has 108 bytes at most
    place = Path(f"/tmp/hw-{os.getpid()}-{time.monotonic_ns() % 10**6}")
    place.mkdir(0o700)
    yield str(place / "db")
    for path in sorted(place.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    place.rmdir()


class Ear:
    """A worker as far as hints know it: counts what it hears, and has a free slot or not."""

    def __init__(self, folder: str, queues: tuple[str, ...] = ("mail",), *, free: bool = True) -> None:
        self.heard: list[str] = []
        self.free = free
        self.listener = HintListener(folder, queues, self._wake)

    def _wake(self, queue: str) -> bool:
        self.heard.append(queue)
        return self.free


def listening(ears: list[Ear], story: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        assert all(ear.listener.open() for ear in ears)
        try:
            await story()
            await asyncio.sleep(0.05)  # for hints that should not have been sent
        finally:
            for ear in ears:
                ear.listener.close()

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)


def test_a_hint_wakes_one_worker_of_its_queue_and_no_herd(folder: str) -> None:
    ears = [Ear(folder) for _ in range(60)] + [Ear(folder, ("other",))]

    async def story() -> None:
        Hints(folder).send("mail")
        await until(lambda: any(ear.heard for ear in ears))

    listening(ears, story)
    assert sum(len(ear.heard) for ear in ears) == 1
    assert ears[-1].heard == []


def test_a_busy_worker_passes_a_hint_on_once(folder: str) -> None:
    ears = [Ear(folder, free=False) for _ in range(3)]

    async def story() -> None:
        Hints(folder).send("mail")
        await until(lambda: sum(len(ear.heard) for ear in ears) == 2)

    listening(ears, story)
    assert sorted(len(ear.heard) for ear in ears) == [0, 1, 1]


def test_hints_for_a_queue_come_at_most_once_a_millisecond(folder: str) -> None:
    ear = Ear(folder, ("mail", "news"))

    async def story() -> None:
        hints = Hints(folder)
        began = time.monotonic()
        for _ in range(1_000):
            hints.send("mail")
        at_most = (time.monotonic() - began) * 1_000 + 2
        hints.send("news")
        await until(lambda: "news" in ear.heard)
        assert ear.heard.count("mail") <= at_most

    listening([ear], story)


def test_the_socket_of_a_killed_worker_is_removed_and_another_one_is_told(folder: str) -> None:
    ear = Ear(folder)
    os.makedirs(folder, 0o700)
    for number in range(2):  # as many as a hint tries beside the live one
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(f"{folder}/dead{number}")
        Path(f"{folder}/dead{number}.queues").write_text("mail")

    async def story() -> None:
        for _ in range(100):
            Hints(folder).send("mail")
            await asyncio.sleep(0.002)
        await until(lambda: bool(ear.heard))

    listening([ear], story)
    assert not list(Path(folder).parent.rglob("dead*"))


def test_a_worker_leaves_nothing_behind(folder: str) -> None:
    listening([Ear(folder)], lambda: asyncio.sleep(0))
    assert not os.path.exists(folder)


def test_a_folder_that_others_can_enter_is_not_used(folder: str) -> None:
    os.chmod(os.path.dirname(folder), 0o755)

    async def run() -> None:
        assert not Ear(folder).listener.open()

    asyncio.run(run())


def test_without_workers_a_hint_does_nothing(folder: str) -> None:
    Hints(folder).send("mail")
    assert not os.path.exists(folder)


def test_what_a_stranger_sends_changes_nothing(folder: str) -> None:
    ear = Ear(folder)

    async def story() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for hint in (b"", b"1", b"1nothing", b"\xff\xfe", b"1" + b"x" * 5_000):
                stranger.sendto(hint, ear.listener.path)
        Hints(folder).send("mail")
        await until(lambda: bool(ear.heard))

    listening([ear], story)
    assert ear.heard == ["mail"]


def test_a_worker_hears_of_a_job_of_another_process(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("HEADWAY_RUNTIME_DIR", os.path.dirname(folder))

    @harness.job
    async def works() -> None: ...

    worker = harness.worker(settings=SELDOM)
    store = harness.store
    url = store.url if store.dialect == "postgres" else f"sqlite:///{store.path}"

    async def story() -> str:
        await harness.until(lambda: bool(harness.wake._listeners))
        await harness.until(lambda: all(queue.poll_at for queue in worker._fetcher._queues.values()))
        script = f"from headway import Headway; print(Headway({url!r}).enqueue('works').id)"
        done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], capture_output=True, check=True)
        job_id = done.stdout.decode().strip()
        await harness.until_status(job_id, "succeeded")
        return job_id

    harness.while_working(worker, story)


def test_a_worker_hears_of_an_event_of_another_process(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("HEADWAY_RUNTIME_DIR", os.path.dirname(folder))

    @harness.job
    async def works() -> None: ...

    worker = harness.worker(settings={**SELDOM, "promote_every_ms": 10**6})
    store = harness.store
    url = store.url if store.dialect == "postgres" else f"sqlite:///{store.path}"
    other = Headway(url, strict_kinds=False)  # as in another process: it does not know of the worker
    other.create_trigger("on_paid", "paid", kind="works")

    async def story() -> None:
        await harness.until(lambda: bool(harness.wake._listeners))
        other.emit("paid")
        await harness.until(lambda: [job.status for job in harness.find(kind="works")] == ["succeeded"])

    harness.while_working(worker, story)
    other.close()


def test_hints_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Headway(f"sqlite:///{tmp_path}/a.db", hints=False)._hints is None
    monkeypatch.setenv("HEADWAY_HINTS", "off")
    assert not Headway(f"sqlite:///{tmp_path}/a.db").settings.hints
    assert folder_of(None) is None
