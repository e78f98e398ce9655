"""A worker of many queues: it asks for all of them at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headway.worker import Summary
from tests.worker_harness import FaultyStore, WorkerHarness


class Counting:
    """The verbs, and how often each was asked for."""

    def __init__(self, ops: Any) -> None:
        self._ops = ops
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._ops, name)


def test_idle_queues_are_not_asked_one_by_one(harness: WorkerHarness) -> None:
    store = FaultyStore(harness.store)
    counting = store.ops = Counting(harness.store.ops)

    @harness.job
    async def works() -> None: ...

    async def story() -> list[str]:
        await harness.until(lambda: counting.calls["claimable"] > 3)
        before = counting.calls["claim"]
        await harness.until(lambda: counting.calls["claimable"] > 13)
        # one by one it would be ten thousand; where fewer than eight are due together, each is claimed from
        assert counting.calls["claim"] - before < 10 * 8
        jobs = [works.using(queue=f"q{number}").build() for number in (3, 77, 999)]
        # as from elsewhere: nobody wakes this worker
        harness.store.run(harness.store.ops.enqueue(jobs))
        for job in jobs:
            await harness.until_status(job.id, "succeeded")
        return [job.id for job in jobs]

    queues = {f"q{number}": 1 for number in range(1_000)}
    _, summary = harness.while_working(harness.worker(store=store, queues=queues), story)
    assert summary == Summary(succeeded=3)


def test_few_queues_are_claimed_from_as_before(harness: WorkerHarness) -> None:
    store = FaultyStore(harness.store)
    counting = store.ops = Counting(harness.store.ops)

    @harness.job
    async def works() -> None: ...

    jobs = [works.using(queue=f"q{number}").build() for number in range(3)]
    harness.enqueue(*jobs)
    assert harness.drain(store=store, queues={f"q{number}": 1 for number in range(3)}) == Summary(succeeded=3)
    assert "claimable" not in counting.calls
