"""Plain functions run in threads, which nobody can kill: how they are told to end, and that nothing overlaps them."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from headway import Context, Done
from headway.worker import Summary
from headway.worker.run import Runner
from tests.worker_harness import WorkerHarness


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Runner.__module__], "STUBBORN_S", 0.02)


def stopped_while_it_runs(
    harness: WorkerHarness, kind: Any, started: threading.Event, **settings: Any
) -> tuple[str, Summary]:
    async def story() -> str:
        (job_id,) = harness.enqueue(kind.build())
        await asyncio.to_thread(started.wait, 60)
        return job_id

    return harness.while_working(harness.worker(settings=settings), story)


def test_a_function_that_returns_because_the_worker_stops_is_given_back(harness: WorkerHarness) -> None:
    started = threading.Event()

    @harness.job
    def works(ctx: Context) -> str:
        assert not ctx.stopping
        started.set()
        while not ctx.stopping:
            threading.Event().wait(0.01)
        assert not ctx.canceled, "that comes after the grace"
        return "half of it"

    job_id, summary = stopped_while_it_runs(harness, works, started)
    job = harness.get(job_id)
    assert (job.status, job.result, job.tries, job.losses) == ("queued", None, 0, 0)
    assert (harness.last(job_id).status, summary) == ("released", Summary(released=1))
    assert "the worker stops" in (harness.last(job_id).error or "")


def test_so_is_an_async_one(harness: WorkerHarness) -> None:
    started = threading.Event()

    @harness.job
    async def works(ctx: Context) -> None:
        started.set()
        while not ctx.stopping:
            await asyncio.sleep(0.01)

    job_id, _ = stopped_while_it_runs(harness, works, started)
    assert harness.get(job_id).status == "queued"


def test_a_function_that_got_to_its_end_all_the_same_says_done(harness: WorkerHarness) -> None:
    started = threading.Event()

    @harness.job
    def works(ctx: Context) -> Any:
        started.set()
        while not ctx.stopping:
            threading.Event().wait(0.01)
        return Done("all of it")

    job_id, _ = stopped_while_it_runs(harness, works, started)
    assert (harness.get(job_id).status, harness.get(job_id).result) == ("succeeded", "all of it")


def test_a_function_that_did_not_look_has_succeeded(harness: WorkerHarness) -> None:
    started, seen = threading.Event(), threading.Event()

    @harness.job
    def looks(ctx: Context) -> None:
        started.set()
        while not ctx.stopping:
            threading.Event().wait(0.01)
        seen.set()

    @harness.job
    def works(ctx: Context) -> str:
        assert not ctx.stopping
        seen.wait(60)
        return "all of it"

    (job_id,) = harness.enqueue(works.build())
    stopped_while_it_runs(harness, looks, started)
    assert harness.get(job_id).result == "all of it"


@pytest.mark.usefixtures("short_patience")
def test_a_job_whose_thread_still_runs_is_nobody_elses(harness: WorkerHarness, lines: Any) -> None:
    started, go_on = threading.Event(), threading.Event()
    inside: list[int] = []

    @harness.job(partition="one")
    def stuck(ctx: Context) -> None:
        inside.append(1)
        started.set()
        if ctx.fence == 1:
            go_on.wait(60)
            assert inside == [1], "another execution of the partition ran beside it"
        inside.clear()

    (job_id,) = harness.enqueue(stuck.build())
    (next_id,) = harness.enqueue(stuck.build())
    _, summary = stopped_while_it_runs(harness, harness.job(lambda: None, name="other"), started, grace_ms=0)
    assert summary.released == 0
    assert lines("a thread cannot be killed: their jobs are given back when")
    # the process goes on, and so does the thread: another worker finds nothing, also when it reaps
    harness.drain()
    assert [harness.get(each).status for each in (job_id, next_id)] == ["running", "queued"]
    assert len(harness.store.run(harness.store.ops.workers())) == 1

    async def back() -> None:
        await harness.until_status(job_id, "queued")
        await harness.until(lambda: harness.store.run(harness.store.ops.workers()) == [])

    go_on.set()
    harness.run(back())
    assert (harness.last(job_id).status, harness.get(job_id).losses) == ("released", 0)
    harness.drain()
    assert [harness.get(each).status for each in (job_id, next_id)] == ["succeeded", "succeeded"]


def test_a_function_past_its_timeout_is_given_time_to_end(harness: WorkerHarness) -> None:
    ended = threading.Event()

    @harness.job(timeout="20ms", max_attempts=1)
    def looks(ctx: Context) -> str:
        while not ctx.canceled:
            threading.Event().wait(0.01)
        ended.set()
        return "too late"

    (job_id,) = harness.enqueue(looks.build())
    harness.drain()
    assert ended.is_set()
    assert (harness.get(job_id).status, harness.last(job_id).status) == ("dead", "timeout")


@pytest.mark.usefixtures("short_patience")
def test_a_partition_waits_for_a_function_past_its_timeout(harness: WorkerHarness, lines: Any) -> None:
    go_on, others = threading.Event(), threading.Event()

    @harness.job(timeout="20ms", max_attempts=1, partition="one")
    def stuck() -> None:
        go_on.wait(60)
        assert not others.is_set()

    @harness.job(partition="one")
    def other() -> None:
        others.set()

    async def story() -> str:
        (job_id,) = harness.enqueue(stuck.build())
        await harness.until_status(job_id, "running")
        harness.enqueue(other.build())
        await harness.until(lambda: bool(lines("other jobs wait for its end")))
        assert harness.get(job_id).status == "running"
        go_on.set()
        await harness.until(others.is_set)
        return job_id

    job_id, _ = harness.while_working(harness.worker(), story)
    assert harness.last(job_id).status == "timeout"
