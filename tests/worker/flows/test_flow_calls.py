"""Jobs that a flow calls, whose fate is not its own: kept ones, and ones that failed before the flow was retried."""

from __future__ import annotations

import asyncio
from typing import Any

from headway import Flow
from tests.worker_harness import WorkerHarness


def test_a_kept_job_lives_on_after_its_timeout_and_its_flow(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def slow() -> str:
        return "done"

    @harness.flow
    async def f(flow: Flow) -> str:
        kept = flow.using(keep=True)
        task = asyncio.create_task(kept.call(slow))
        try:
            async with asyncio.timeout(0.05):
                await kept.call(slow)
        except TimeoutError:
            await flow.step(str, "waited")
            return "timed out"
        finally:
            task.cancel()

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == "timed out"
    harness.drain(queues={"elsewhere": 2})
    assert [job.status for job in harness.find(kind="slow")] == ["succeeded", "succeeded"]


def test_a_kept_job_lives_on_when_its_flow_is_canceled(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def slow() -> str:
        return "done"

    @harness.flow
    async def f(flow: Flow) -> None:
        await asyncio.gather(flow.using(keep=True).call(slow), flow.call(slow))

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.cancel(job_id)
    harness.drain()
    assert harness.get(job_id).status == "canceled"
    harness.drain(queues={"elsewhere": 2})
    assert sorted(job.status for job in harness.find(kind="slow")) == ["canceled", "succeeded"]


def test_a_retried_flow_calls_a_job_that_failed_again(harness: WorkerHarness) -> None:
    broken, calls = [True], [0]

    @harness.job(max_attempts=1)
    def pay() -> str:
        calls[0] += 1
        if broken[0]:
            raise ValueError("no money")
        return "paid"

    @harness.flow
    async def f(flow: Flow) -> Any:
        return await flow.step(str, "begun"), await flow.call(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "dead"
    harness.retry(job_id)
    harness.drain()  # still broken: dead again, and a new job each time
    assert (harness.get(job_id).status, calls[0]) == ("dead", 2)
    broken[0] = False
    harness.retry(job_id)
    harness.drain()
    assert (harness.get(job_id).result, calls[0]) == (["begun", "paid"], 3)


def test_a_retried_job_that_fails_again_is_not_called_anew(harness: WorkerHarness) -> None:
    calls = [0]

    @harness.job(max_attempts=1, queue="elsewhere")
    def pay() -> str:
        calls[0] += 1
        raise ValueError("no money")

    @harness.flow
    async def f(flow: Flow) -> str:
        return await flow.call(pay)

    (job_id,) = harness.enqueue(f.build())
    both = {"default": 1, "elsewhere": 1}
    harness.drain(queues=both)
    (child,) = harness.find(kind="pay")
    harness.retry(child.id)
    harness.retry(job_id)
    harness.drain()  # it waits for the job that runs again
    assert harness.get(job_id).status == "waiting"
    harness.drain(queues=both)
    assert (harness.get(job_id).status, calls[0]) == ("dead", 2)


def test_a_retried_flow_takes_what_the_retried_job_gave(harness: WorkerHarness) -> None:
    broken, calls = [True], [0]

    @harness.job(max_attempts=1)
    def pay() -> str:
        calls[0] += 1
        if broken[0]:
            raise ValueError("no money")
        return "paid"

    @harness.flow
    async def f(flow: Flow) -> str:
        return await flow.call(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "dead"
    broken[0] = False
    (child,) = harness.find(kind="pay")
    harness.retry(child.id)
    harness.drain()
    harness.retry(job_id)
    harness.drain()
    assert (harness.get(job_id).result, calls[0]) == ("paid", 2)
