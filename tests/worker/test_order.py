"""Workers and order: the next car at once, idle only when nothing is left, one job alone, and the sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest

from headway.define.groups import grouped
from headway.model.ids import new_id
from headway.model.limit import Limit
from headway.worker import SingleJobWorker
from tests.worker_harness import FaultyStore, WorkerHarness

SLOW = {"pace_ms": 60_000, "idle_pace_ms": 60_000, "promote_every_ms": 60_000}
"""Long enough that a test which waits for a poll never ends."""


def by_hand(store: Any, sql: str, *params: Any) -> None:
    """What somebody does with a SQL prompt."""
    if store.dialect == "postgres":
        with psycopg.connect(store.url, autocommit=True) as conn:
            conn.execute(sql.replace("?", "%s").replace(" jobs", " headway.jobs"), params)
    else:
        conn = apsw.Connection(store.path)
        conn.set_busy_timeout(10_000)
        conn.execute(sql, params)
        conn.close()


def worker_for(
    harness: WorkerHarness, job_id: str, *, store: Any = None, reservation_id: str | None = None
) -> SingleJobWorker:
    from tests.worker_harness import BRISK

    return SingleJobWorker(
        store or harness.store,
        harness.registry.kinds,
        settings=BRISK,
        hooks=harness.hooks,
        queues={"default": 1},
        job_id=job_id,
        reservation_id=reservation_id,
    )


@pytest.fixture
def ran(harness: WorkerHarness) -> list[int]:
    ran: list[int] = []

    @harness.job
    async def work(number: int) -> None:
        ran.append(number)

    return ran


def build(harness: WorkerHarness, number: int, **options: Any) -> Any:
    return harness.registry["work"].using(**options).build(number)


# the next one


@pytest.mark.parametrize(
    "options",
    [{"train": "t"}, {"partition": "p"}, {"concurrency": 1}, {"concurrency": 1, "concurrency_key": "k"}],
    ids=["train", "partition", "kind", "key"],
)
def test_what_waited_for_a_job_is_claimed_as_soon_as_that_is_settled(
    harness: WorkerHarness, ran: list[int], options: dict[str, Any]
) -> None:
    ids = harness.enqueue(*(build(harness, number, **options) for number in range(10)))

    async def story() -> None:
        await harness.until_status(ids[-1], "succeeded")

    harness.while_working(harness.worker(settings=SLOW), story)
    assert ran == list(range(10))


def test_a_group_goes_on_at_once(harness: WorkerHarness, ran: list[int]) -> None:
    jobs = [build(harness, number) for number in range(5)]
    group, batch = grouped(jobs, mode="sequential", on_failure="stop", callback=build(harness, 5))
    ids = [each.id for each in harness.store.run(harness.store.ops.enqueue(batch, group))]

    async def story() -> None:
        await harness.until_status(ids[-1], "succeeded")

    harness.while_working(harness.worker(settings=SLOW), story)
    assert ran == list(range(6))


def test_an_unlimited_queue_is_not_claimed_from_more_often(harness: WorkerHarness, ran: list[int]) -> None:
    store = FaultyStore(harness.store)
    claims = 0
    inner = store.ops.claim

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(harness.store.ops, name)

        def claim(self, *args: Any) -> Any:
            nonlocal claims
            claims += 1
            return inner(*args)

    store.ops = Counting()
    ids = harness.enqueue(build(harness, 1))

    async def story() -> None:
        await harness.until_status(ids[0], "succeeded")
        await asyncio.sleep(0.1)

    harness.while_working(harness.worker(settings=SLOW, store=store), story)
    assert claims == 1


# until idle


@pytest.mark.parametrize("slots", [1, 10])
def test_a_worker_is_not_idle_while_a_train_has_cars(harness: WorkerHarness, ran: list[int], slots: int) -> None:
    harness.enqueue(*(build(harness, number, train=f"t{number % 3}") for number in range(60)))
    assert harness.drain(queues={"default": slots}).succeeded == 60
    for key in range(3):
        assert [number for number in ran if number % 3 == key] == list(range(key, 60, 3))


def test_a_train_goes_through_several_queues(harness: WorkerHarness, ran: list[int]) -> None:
    harness.enqueue(*(build(harness, number, train="t", queue=f"q{number % 2}") for number in range(10)))
    assert harness.drain(queues={"q0": 2, "q1": 2}).succeeded == 10
    assert ran == list(range(10))


def test_a_worker_is_not_idle_while_jobs_wait_behind_many_that_are_limited(
    harness: WorkerHarness, ran: list[int]
) -> None:
    @harness.job(concurrency=1)
    def full() -> None: ...

    ops = harness.store.ops
    harness.store.run(ops.set_limit(Limit(scope="kind", name="full", max_running=0), actor=None))
    harness.enqueue(*(full.build() for _ in range(300)))
    harness.enqueue(build(harness, 1))
    assert harness.drain(queues={"default": 1}).succeeded == 1
    assert ran == [1]


def test_a_worker_is_idle_where_nothing_can_run(harness: WorkerHarness, ran: list[int]) -> None:
    ops = harness.store.ops
    harness.enqueue(build(harness, 1, train="t"))
    harness.store.run(ops.hold_train("u", tenant_id=None, reason=None, actor=None))
    harness.enqueue(build(harness, 2, train="u"))
    for limit in (Limit(scope="queue", name="full", max_running=0), Limit(scope="kind", name="other", max_running=0)):
        harness.store.run(ops.set_limit(limit, actor=None))
    harness.enqueue(build(harness, 3, queue="full"))
    harness.store.run(ops.reserve("mine", new_id(), holder="me", expires_ms=600_000))  # longer than a drain may take
    harness.enqueue(build(harness, 4, queue="mine"))
    assert harness.drain(queues={"default": 1, "full": 1, "mine": 1}).succeeded == 1
    assert ran == [1]


# one job alone


def test_an_errand_runs_its_job_and_no_other(harness: WorkerHarness, ran: list[int]) -> None:
    first, second = harness.enqueue(build(harness, 1), build(harness, 2))
    worker = worker_for(harness, second)
    assert harness.run(worker.run(until_idle=True)).succeeded == 1
    assert worker.taken
    assert ran == [2]
    assert harness.get(first).status == "queued"
    assert harness.last(second).status == "succeeded"
    assert harness.store.run(harness.store.ops.workers()) == []


def test_an_errand_has_the_timeout_and_the_retries_of_its_job(harness: WorkerHarness) -> None:
    @harness.job(timeout="30ms", backoff="1h")
    async def hangs() -> None:
        await asyncio.sleep(60)

    (job,) = harness.enqueue(hangs.build())
    assert harness.run(worker_for(harness, job).run(until_idle=True)).retried == 1
    assert (harness.get(job).status, harness.last(job).status) == ("scheduled", "timeout")


def test_an_errand_ends_without_a_job_that_it_cannot_have(harness: WorkerHarness, ran: list[int]) -> None:
    ids = harness.enqueue(build(harness, 1, train="t"), build(harness, 2, train="t"))
    worker = worker_for(harness, ids[1])
    harness.run(worker.run(until_idle=True))
    assert (worker.taken, ran) == (False, [])
    mine = new_id()
    harness.store.run(harness.store.ops.reserve("default", mine, holder="me", expires_ms=60_000))
    for reservation_id, taken in ((None, False), (new_id(), False), (mine, True)):
        worker = worker_for(harness, ids[0], reservation_id=reservation_id)
        harness.run(worker.run(until_idle=True))
        assert worker.taken is taken
    assert ran == [1]


def test_an_errand_whose_answer_was_lost_takes_its_job_again(harness: WorkerHarness, ran: list[int]) -> None:
    store = FaultyStore(harness.store)
    (job,) = harness.enqueue(build(harness, 1))
    takes: list[Any] = []
    inner = harness.store.ops.take

    class Marking:
        def __getattr__(self, name: str) -> Any:
            return getattr(harness.store.ops, name)

        def take(self, *args: Any, **kwargs: Any) -> Any:
            takes.append(inner(*args, **kwargs))
            return takes[-1]

    store.ops = Marking()
    store.loses_answer = lambda op: bool(takes) and op is takes[0]
    worker = worker_for(harness, job, store=store)
    harness.run(worker.run(until_idle=True))
    assert (worker.taken, ran, len(takes)) == (True, [1], 2)
    assert harness.get(job).status == "succeeded"


def test_an_errand_whose_lease_was_lost_ends(harness: WorkerHarness) -> None:
    begun = asyncio.Event()

    @harness.job
    async def hangs() -> None:
        begun.set()
        await asyncio.sleep(60)

    (job,) = harness.enqueue(hangs.build())
    worker = worker_for(harness, job)

    async def story() -> None:
        task = asyncio.create_task(worker.run(until_idle=True))
        await begun.wait()
        await harness.store.arun(harness.store.ops.reap([worker.worker_id], limit=10))
        async with asyncio.timeout(60):
            await task

    harness.run(story())
    assert harness.last(job).status == "lost"


# the sweep


def test_a_worker_repairs_a_train_whose_locomotive_somebody_deleted(
    harness: WorkerHarness, ran: list[int], lines: Callable[[str], list[Any]]
) -> None:
    ids = harness.enqueue(*(build(harness, number, train="dest_42") for number in range(3)))
    by_hand(harness.store, "delete from jobs where id = ?", ids[0])

    async def story() -> None:
        await harness.until_status(ids[2], "succeeded")
        await harness.until(lambda: bool(lines("that no longer exists")))

    harness.while_working(harness.worker(settings={"sweep_every_ms": 50}), story)
    assert ran == [1, 2]
    (line,) = lines("that no longer exists")
    assert line.levelname == "WARNING"
    assert "somebody changed or deleted rows by hand" in line.getMessage()
    assert "dest_42" in line.getMessage()


def test_a_sweep_that_finds_nothing_says_nothing(
    harness: WorkerHarness, ran: list[int], lines: Callable[[str], list[Any]]
) -> None:
    ids = harness.enqueue(*(build(harness, number, train="t") for number in range(3)))

    async def story() -> None:
        await harness.until_status(ids[2], "succeeded")
        await asyncio.sleep(0.2)

    harness.while_working(harness.worker(settings={"sweep_every_ms": 10}), story)
    assert lines("that no longer exists") == []
