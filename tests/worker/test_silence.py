"""A database that says nothing: an answer that never comes, a lock that somebody holds. Nobody waits for ever."""

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
from tests.worker_harness import Workshop

SHORT_MS = 400


@pytest.fixture
def wire(postgres_migrated_url: str) -> Iterator[tuple[Workshop, Wire]]:
    with wired(postgres_migrated_url) as (url, wire):
        store = PostgresStore(url, timeout_s=SHORT_MS / 1_000)
        try:
            yield Workshop(store), wire
        finally:
            store.close()


def _short(shop: Workshop, **options: Any) -> Any:
    return shop.worker(settings={"database_timeout_ms": SHORT_MS}, **options)


def test_jobs_of_a_claim_that_got_no_answer_are_run_once(wire: tuple[Workshop, Wire]) -> None:
    shop, line = wire
    calls: list[int] = []

    @shop.job
    async def works(number: int) -> None:
        calls.append(number)

    ids = shop.enqueue(*(works.build(number=number) for number in range(5)))
    line.swallow("headway.claim(")
    summary = shop.run(_short(shop).run(until_idle=True))
    assert line.swallowed.is_set()
    assert summary == Summary(succeeded=5)
    assert sorted(calls) == list(range(5))
    assert {(shop.get(job_id).losses, len(shop.attempts(job_id))) for job_id in ids} == {(0, 1)}


def test_an_outcome_whose_settle_got_no_answer_is_written_once(wire: tuple[Workshop, Wire]) -> None:
    shop, line = wire

    @shop.job
    async def works() -> str:
        line.swallow("headway.succeed(")
        return "done"

    (job_id,) = shop.enqueue(works.build())
    assert shop.run(_short(shop).run(until_idle=True)) == Summary(succeeded=1)
    assert line.swallowed.is_set()
    job = shop.get(job_id)
    assert (job.status, job.result, job.fence, len(shop.attempts(job_id))) == ("succeeded", "done", 1, 1)


def test_a_worker_beats_on_after_a_heartbeat_that_got_no_answer(wire: tuple[Workshop, Wire]) -> None:
    shop, line = wire
    worker = _short(shop)

    def beat_at() -> Any:
        return shop.store.run(shop.store.ops.workers())[0].heartbeat_at

    async def story() -> None:
        await shop.until(lambda: bool(shop.store.run(shop.store.ops.workers())))
        line.swallow("headway.heartbeat(")
        await shop.until(line.swallowed.is_set)
        before = beat_at()
        await shop.until(lambda: beat_at() > before)

    shop.while_working(worker, story)


@pytest.mark.parametrize("call", ["headway.register(", "headway.succeed("])
def test_a_worker_that_gets_no_answer_at_its_start_can_be_stopped(wire: tuple[Workshop, Wire], call: str) -> None:
    shop, line = wire
    worker = shop.worker()  # it would wait for half a minute
    line.swallow(call)

    async def story() -> None:
        running = asyncio.create_task(worker.run())
        await shop.until(line.swallowed.is_set)
        worker.stop()
        async with asyncio.timeout(15):
            await running

    shop.run(story())


def test_an_enqueue_that_got_no_answer_is_repeated_and_makes_one_job(wire: tuple[Workshop, Wire]) -> None:
    shop, line = wire
    store = shop.store
    ids = [new_id(), new_id()]
    store.run(store.ops.counts(tenant_id=None))
    line.swallow("headway.enqueue")
    (first,) = store.run(store.ops.enqueue([NewJob(id=ids[0], kind="k")]))
    assert line.swallowed.is_set()

    async def enqueue() -> Any:
        await store.arun(store.ops.counts(tenant_id=None))
        line.swallow("headway.enqueue")
        return await store.arun(store.ops.enqueue([NewJob(id=ids[1], kind="k")]))

    (second,) = shop.run(enqueue())
    assert line.swallowed.is_set()
    assert [first.id, second.id] == ids
    assert sorted(job.id for job in shop.find(kind="k")) == sorted(ids)


def test_what_may_not_be_repeated_says_that_it_is_not_known(wire: tuple[Workshop, Wire]) -> None:
    shop, line = wire
    store = shop.store
    (job_id,) = shop.enqueue(NewJob(id=new_id(), kind="k"))
    shop.cancel(job_id)
    line.swallow("headway.retry(")
    with pytest.raises(StoreUnavailable, match=r"no answer for 0.4 s. It may have been written or not"):
        store.run(store.ops.retry([job_id], tenant_id=None, actor=None))


def test_a_cancelled_call_does_not_wait_for_the_answer(wire: tuple[Workshop, Wire]) -> None:
    shop, line = wire
    store = PostgresStore(shop.store._url)

    async def story() -> None:
        await store.arun(store.ops.counts(tenant_id=None))
        line.swallow("headway.enqueue")
        call = asyncio.create_task(store.arun(store.ops.enqueue([NewJob(id=new_id(), kind="k")])))
        await shop.until(line.swallowed.is_set)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await store.leave_loop()

    shop.run(story())


def test_a_worker_goes_on_after_somebody_held_the_write_lock(sqlite_path: Path, lines: Any) -> None:
    shop = Workshop(SqliteStore(str(sqlite_path)))
    started, finish = asyncio.Event(), asyncio.Event()

    @shop.job
    async def works() -> str:
        started.set()
        await finish.wait()
        return "kept"

    async def story() -> str:
        (job_id,) = shop.enqueue(works.build())
        await started.wait()
        with contextlib.closing(apsw.Connection(str(sqlite_path))) as other:
            other.set_busy_timeout(10_000)  # the worker may be writing this moment
            other.execute("begin immediate")
            finish.set()
            await shop.until(lambda: bool(lines("cannot be reached")))
            other.execute("rollback")
        await shop.until_status(job_id, "succeeded")
        return job_id

    job_id, summary = shop.while_working(_short(shop), story)
    assert (shop.get(job_id).result, shop.get(job_id).fence, summary) == ("kept", 1, Summary(succeeded=1))
    shop.store.close()
