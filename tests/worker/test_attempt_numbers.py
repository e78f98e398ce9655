"""`ctx.attempt`: the number of an execution of its step, whatever ended the ones before."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Context, Done, Machine, Next, Replay, Retry, Sleep, Snooze, step
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.model.outcome import Outcomes
from tests.worker_harness import WorkerHarness


def drained(harness: WorkerHarness, job_id: str) -> None:
    """Until it is over, whatever it is scheduled for."""
    while harness.get(job_id).finished_at is None:
        if harness.get(job_id).status == "scheduled":
            harness.make_due(job_id)
        harness.drain()


def test_it_counts_failures_snoozes_and_losses(harness: WorkerHarness) -> None:
    seen: list[tuple[int, int, int]] = []

    @harness.job
    async def job(ctx: Context) -> None:
        seen.append((ctx.attempt, ctx.tries, ctx.losses))
        match ctx.attempt:
            case 1:
                raise Retry(0)
            case 2:
                raise Snooze(0)

    (job_id,) = harness.enqueue(job.build())
    drained(harness, job_id)
    assert seen == [(1, 0, 0), (2, 1, 0), (3, 1, 0)]
    harness.retry(job_id)
    drained(harness, job_id)
    assert seen[3:] == [(1, 0, 0), (2, 1, 0), (3, 1, 0)], "an operator's retry begins anew"
    assert harness.get(job_id).fence == 6


def test_a_lost_execution_counts_and_one_that_never_began_does_not(live_store: Any) -> None:
    run, ops = live_store.run, live_store.ops
    harness = WorkerHarness(live_store)
    worker_id = new_id()
    run(ops.register(harness.worker()._describe(worker_id)))
    (job_id,) = harness.enqueue(NewJob(id=new_id(), kind="k"))

    def claimed() -> Any:
        (claim,) = run(ops.claim(worker_id, "default", 5))
        return claim

    first = claimed()
    run(ops.release([(first.id, first.fence)], delay_ms=0))
    again = claimed()
    assert (first.attempt, again.attempt, again.fence) == (1, 1, 2)
    run(ops.unregister(worker_id))  # what it held is reaped as lost
    worker_id = new_id()
    run(ops.register(harness.worker()._describe(worker_id)))
    run(ops.reap([], limit=10))
    harness.make_due(job_id)
    third = claimed()
    assert (third.attempt, third.losses, third.fence) == (2, 1, 3)


def test_a_step_counts_its_own_executions(harness: WorkerHarness) -> None:
    seen: list[tuple[str, int]] = []

    @harness.machine
    class Counts(Machine, name="counts", backoff=lambda _: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append(("start", ctx.attempt))
            return Next(self.middle) if ctx.attempt == 2 else Replay()

        @step
        async def middle(self, ctx: Context) -> Outcomes:
            seen.append(("middle", ctx.attempt))
            if ctx.attempt < 3:
                raise ValueError("not yet")
            return Sleep(0, then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            seen.append(("end", ctx.attempt))
            return Done()

    (job_id,) = harness.enqueue(Counts.build())
    drained(harness, job_id)
    assert seen == [("start", 1), ("start", 2), ("middle", 1), ("middle", 2), ("middle", 3), ("end", 1)]


@pytest.mark.parametrize("fails", [Retry, Snooze])
def test_an_at_most_once_chain_goes_on_counting(harness: WorkerHarness, fails: Any) -> None:
    seen: list[int] = []

    @harness.job(delivery="at_most_once")
    async def once(ctx: Context) -> None:
        seen.append(ctx.attempt)
        if ctx.attempt < 3:
            raise fails(0)

    harness.enqueue(once.build())
    harness.drain()
    assert seen == [1, 2, 3]
