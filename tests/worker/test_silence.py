"""A database that says nothing: an answer that never comes, a lock that somebody holds. Nobody waits forever."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from headway.errors import StoreUnavailable
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.store.postgres.store import PostgresStore
from headway.store.sqlite.store import SqliteStore
from headway.worker import Summary
from tests.worker.silent_postgres import Wire, wired
from tests.worker_harness import WorkerHarness

SHORT_MS = 1_500  # longer than an answer takes on a busy machine


@pytest.fixture
def wire(postgres_migrated_url: str) -> Iterator[tuple[WorkerHarness, Wire]]:
    with wired(postgres_migrated_url) as (url, wire):
        store = PostgresStore(url, timeout_s=SHORT_MS / 1_000)
        try:
            yield WorkerHarness(store), wire
        finally:
            store.close()


def _short(harness: WorkerHarness, **options: Any) -> Any:
    return harness.worker(settings={"database_timeout_ms": SHORT_MS}, **options)


def test_jobs_of_a_claim_that_got_no_answer_are_run_once(wire: tuple[WorkerHarness, Wire]) -> None:
    harness, line = wire
    calls: list[int] = []

    @harness.job
    async def works(number: int) -> None:
        calls.append(number)

    ids = harness.enqueue(*(works.build(number=number) for number in range(5)))
    line.swallow("headway.claim(")
    summary = harness.run(_short(harness).run(until_idle=True))
    assert line.swallowed.is_set()
    assert summary == Summary(succeeded=5)
    assert sorted(calls) == list(range(5))
    assert {(harness.get(job_id).losses, len(harness.attempts(job_id))) for job_id in ids} == {(0, 1)}


def test_an_outcome_whose_settle_got_no_answer_is_written_once(wire: tuple[WorkerHarness, Wire]) -> None:
    harness, line = wire

    @harness.job
    async def works() -> str:
        line.swallow("headway.succeed(")
        return "done"

    (job_id,) = harness.enqueue(works.build())
    assert harness.run(_short(harness).run(until_idle=True)) == Summary(succeeded=1)
    assert line.swallowed.is_set()
    job = harness.get(job_id)
    assert (job.status, job.result, job.fence, len(harness.attempts(job_id))) == ("succeeded", "done", 1, 1)


def test_a_worker_beats_on_after_a_heartbeat_that_got_no_answer(wire: tuple[WorkerHarness, Wire]) -> None:
    harness, line = wire
    worker = _short(harness)

    def beat_at() -> Any:
        return harness.store.run(harness.store.ops.workers())[0].heartbeat_at

    async def story() -> None:
        await harness.until(lambda: bool(harness.store.run(harness.store.ops.workers())))
        line.swallow("headway.heartbeat(")
        await harness.until(line.swallowed.is_set)
        before = beat_at()
        await harness.until(lambda: beat_at() > before)

    harness.while_working(worker, story)


@pytest.mark.parametrize("call", ["headway.register(", "headway.succeed("])
def test_a_worker_that_gets_no_answer_at_its_start_can_be_stopped(wire: tuple[WorkerHarness, Wire], call: str) -> None:
    harness, line = wire
    worker = harness.worker()  # it would wait for half a minute
    line.swallow(call)

    async def story() -> None:
        running = asyncio.create_task(worker.run())
        await harness.until(line.swallowed.is_set)
        worker.stop()
        async with asyncio.timeout(60):
            await running

    harness.run(story())


def test_an_enqueue_that_got_no_answer_is_repeated_and_makes_one_job(wire: tuple[WorkerHarness, Wire]) -> None:
    harness, line = wire
    store = harness.store
    ids = [new_id(), new_id()]
    store.run(store.ops.counts(tenant_id=None))
    line.swallow("headway.enqueue")
    (first,) = store.run(store.ops.enqueue([NewJob(id=ids[0], kind="k")]))
    assert line.swallowed.is_set()

    async def enqueue() -> Any:
        await store.arun(store.ops.counts(tenant_id=None))
        line.swallow("headway.enqueue")
        return await store.arun(store.ops.enqueue([NewJob(id=ids[1], kind="k")]))

    (second,) = harness.run(enqueue())
    assert line.swallowed.is_set()
    assert [first.id, second.id] == ids
    assert sorted(job.id for job in harness.find(kind="k")) == sorted(ids)


def test_what_may_not_be_repeated_says_that_it_is_not_known(wire: tuple[WorkerHarness, Wire]) -> None:
    harness, line = wire
    store = harness.store
    (job_id,) = harness.enqueue(NewJob(id=new_id(), kind="k"))
    harness.cancel(job_id)
    line.swallow("headway.retry(")
    with pytest.raises(StoreUnavailable, match=r"no answer for 1.5 s. It may have been written or not"):
        store.run(store.ops.retry([job_id], tenant_id=None, actor=None))


def test_a_cancelled_call_does_not_wait_for_the_answer(wire: tuple[WorkerHarness, Wire]) -> None:
    harness, line = wire
    store = PostgresStore(harness.store._url)

    async def story() -> None:
        await store.arun(store.ops.counts(tenant_id=None))
        line.swallow("headway.enqueue")
        call = asyncio.create_task(store.arun(store.ops.enqueue([NewJob(id=new_id(), kind="k")])))
        await harness.until(line.swallowed.is_set)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await store.leave_loop()

    harness.run(story())


def test_a_worker_goes_on_after_somebody_held_the_write_lock(sqlite_path: Path, lines: Any) -> None:
    harness = WorkerHarness(SqliteStore(str(sqlite_path)))
    started, finish = asyncio.Event(), asyncio.Event()

    @harness.job
    async def works() -> str:
        started.set()
        await finish.wait()
        return "kept"

    async def story() -> str:
        (job_id,) = harness.enqueue(works.build())
        await started.wait()
        with contextlib.closing(apsw.Connection(str(sqlite_path))) as other:
            other.set_busy_timeout(10_000)  # the worker may be writing this moment
            other.execute("begin immediate")
            finish.set()
            await harness.until(lambda: bool(lines("cannot be reached")))
            other.execute("rollback")
        await harness.until_status(job_id, "succeeded")
        return job_id

    job_id, summary = harness.while_working(_short(harness), story)
    assert (harness.get(job_id).result, harness.get(job_id).fence, summary) == ("kept", 1, Summary(succeeded=1))
    harness.store.close()
