"""Claims whose answer was lost: the worker asks what it holds, gives back what it never saw, and each job runs once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from headway.model.job import Claim
from headway.store.ops import Steps
from headway.worker import Worker
from tests.worker_harness import FaultyStore, WorkerHarness

SELDOM = {"pace_ms": 10**6, "idle_pace_ms": 10**6}
"""A worker that looks once and then waits to be told."""


async def _ready(harness: WorkerHarness, worker: Worker) -> None:
    """Wait until the worker has looked at its queues, found nothing, and doubts nothing."""
    await harness.until(lambda: hasattr(worker, "_fetcher") and bool(harness.wake._listeners))
    fetcher = worker._fetcher
    await harness.until(lambda: all(queue.poll_at for queue in fetcher._queues.values()))
    await harness.until(lambda: not (fetcher._slots.asked or fetcher.returned.is_uncertain))


def _claimed_unseen(harness: WorkerHarness, worker: Worker, job: Any) -> None:
    """Enqueue it and claim it for the worker, unseen by it; in one transaction, or it would claim it itself."""
    ops = harness.store.ops

    def steps() -> Steps[list[Claim]]:
        yield from ops.enqueue([job]).steps()
        return (yield from ops.claim(worker.worker_id, job.queue, 1).steps())

    both = msgspec.structs.replace(ops.enqueue([job]), steps=steps, alone=None, atomic=True)
    (claim,) = harness.store.run(both)
    assert claim.id == job.id


def _ran_once(harness: WorkerHarness, job_id: str, *, fence: int = 1) -> None:
    """It ran once, and nothing was charged."""
    job = harness.get(job_id)
    assert (job.status, job.fence, job.tries, job.losses) == ("succeeded", fence, 0, 0)
    assert [attempt.status for attempt in harness.attempts(job_id)] == ["succeeded"]


def test_a_commit_that_comes_after_the_doubt_was_resolved_is_found_a_lease_later(
    harness: WorkerHarness, lines: Any
) -> None:
    @harness.job
    async def works() -> None: ...

    store = FaultyStore(harness.store)
    worker = harness.worker(store=store, settings={"pace_ms": 20, "idle_pace_ms": 20, "lease_ms": 1_000})

    async def story() -> str:
        await _ready(harness, worker)
        before = worker._fetcher.returned._uncertain
        store.away = True
        await harness.until(lambda: worker._fetcher.returned._uncertain > before)
        store.away = False
        await harness.until(lambda: not worker._fetcher.returned.is_uncertain)
        assert worker._fetcher.returned._check_at < time.monotonic() + 1.3  # five quarters of its lease
        # only now the server gets to it
        job = works.build()
        _claimed_unseen(harness, worker, job)
        await harness.until_status(job.id, "succeeded")
        return job.id

    job_id, _ = harness.while_working(worker, story)
    _ran_once(harness, job_id, fence=2)
    assert len(lines("answer was lost")) == 1


def test_a_claim_that_nobody_knows_of_is_found_sooner_or_later(harness: WorkerHarness) -> None:
    @harness.job
    async def works() -> None: ...

    worker = harness.worker()

    async def story() -> str:
        await _ready(harness, worker)
        job = works.build()
        _claimed_unseen(harness, worker, job)
        assert 400 < worker._fetcher.returned._check_at - time.monotonic() < 800  # its lease is a minute
        worker._fetcher.returned._check_at = time.monotonic()
        await harness.until_status(job.id, "succeeded")
        return job.id

    _ran_once(harness, harness.while_working(worker, story)[0], fence=2)


def test_a_doubt_waits_for_the_claim_that_a_settle_makes(harness: WorkerHarness, lines: Any) -> None:
    """What a settle has claimed is running in the store before the worker has heard of it."""
    store = FaultyStore(harness.store)
    committed, let_go = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @harness.job(partition="p")
    async def works(number: int) -> None:
        ran.append(number)

    settle_and_claim, arun = harness.store.ops.settle_and_claim, store.arun
    made: list[Any] = []

    def remember(*args: Any) -> Any:
        made.append(settle_and_claim(*args))
        return made[-1]

    async def hold(op: Any, **options: Any) -> Any:
        answer = await arun(op, **options)
        if any(op is each for each in made) and not committed.is_set():
            committed.set()
            await let_go.wait()
        return answer

    worker = harness.worker(store=store, settings=SELDOM)

    async def story() -> list[str]:
        store.ops.settle_and_claim, store.arun = remember, hold  # type: ignore[method-assign]
        await _ready(harness, worker)
        ids = harness.enqueue(*(works.build(number) for number in range(2)))
        await committed.wait()
        assert [harness.get(job_id).status for job_id in ids] == ["succeeded", "running"]
        fetcher = worker._fetcher
        fetcher.returned.uncertain()
        fetcher.loop.poke()
        await asyncio.sleep(0.05)  # for a worker that would give it back
        let_go.set()
        for job_id in ids:
            await harness.until_status(job_id, "succeeded")
        await harness.until(lambda: not fetcher.returned.is_uncertain)
        return ids

    try:
        ids, _ = harness.while_working(worker, story)
    finally:
        store.ops.settle_and_claim = settle_and_claim
    assert ran == [0, 1]
    for job_id in ids:
        _ran_once(harness, job_id)
    assert lines("answer was lost") == []
