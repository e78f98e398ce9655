"""What must not stop a worker: logging that raises, hooks that raise anything at all, a loop that was ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headway.worker import Summary
from tests.worker_harness import FaultyStore, WorkerHarness


class Raising(logging.Handler):
    """An application's handler whose server is away."""

    def __init__(self) -> None:
        super().__init__()
        self.raised = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.raised += 1
        raise ConnectionError(f"no log server for {record.getMessage()}")


class Fatal(BaseException):
    """Nothing that anybody catches by accident."""


@pytest.fixture
def raising() -> Iterator[Raising]:
    handler = Raising()
    logger = logging.getLogger("headway")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_log_handler_that_raises_changes_nothing_for_jobs(harness: WorkerHarness, raising: Raising) -> None:
    @harness.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    @harness.job(max_attempts=1, timeout="10ms")
    async def hangs() -> None:
        await asyncio.Event().wait()

    @harness.job
    async def works() -> None: ...

    ids = harness.enqueue(fails.build(), hangs.build(), works.build())
    assert harness.drain() == Summary(succeeded=1, dead=2)
    assert [harness.get(job_id).status for job_id in ids] == ["dead", "dead", "succeeded"]
    assert raising.raised


def test_a_worker_outlives_a_time_without_log_server_and_database(harness: WorkerHarness, raising: Raising) -> None:
    store = FaultyStore(harness.store)
    begun = asyncio.Event()
    harness.hooks.on("worker.started", lambda _: begun.set())

    @harness.job
    async def works() -> None: ...

    async def story() -> None:
        await begun.wait()
        store.away = True
        before = raising.raised
        await harness.until(lambda: raising.raised > before)
        store.away = False
        (job_id,) = harness.enqueue(works.build())
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(store=store), story)


@pytest.mark.parametrize("event", ["job.started", "job.settled"])
@pytest.mark.parametrize("error", [Fatal, asyncio.CancelledError, SystemExit])
def test_a_hook_may_raise_anything(harness: WorkerHarness, event: str, error: type[BaseException], lines: Any) -> None:
    def hook(_: Any) -> None:
        raise error

    async def ahook(_: Any) -> None:
        raise error

    harness.hooks.on(event, hook)
    harness.hooks.on(event, ahook)

    @harness.job
    async def works() -> None: ...

    ids = harness.enqueue(*(works.build() for _ in range(3)))
    assert harness.drain() == Summary(succeeded=3)
    assert [harness.get(job_id).status for job_id in ids] == ["succeeded"] * 3
    assert lines("a hook failed")


def test_a_loop_that_was_ended_is_started_again(harness: WorkerHarness, lines: Any) -> None:
    store = FaultyStore(harness.store)

    @harness.job
    async def works() -> None: ...

    async def story() -> None:
        await harness.until(lambda: bool(harness.store.run(harness.store.ops.workers())))
        ends = iter([Fatal()])
        store.refuses = lambda op: None if op.repeatable else next(ends, None)  # type: ignore[arg-type, return-value]
        (job_id,) = harness.enqueue(works.build())
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(store=store), story)
    assert lines("claiming ended by itself")
