"""Machines under a worker: canceled, stopped between steps, and answers that are lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from headway import Await, Context, Done, Machine, Next, Replay, Sleep, step
from headway.errors import StoreUnavailable
from headway.model.job import Job
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import FaultyStore, WorkerHarness


def test_a_machine_that_waits_or_sleeps_is_canceled_at_once(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go") if ctx.state["how"] == "wait" else Sleep("1d")

    ids = harness.enqueue(M.build(how="wait"), M.build(how="sleep"))
    harness.drain()
    harness.cancel(*ids)
    assert [harness.get(job_id).status for job_id in ids] == ["canceled", "canceled"]
    assert harness.drain() == Summary()


@pytest.mark.parametrize("outcome", [Next("end"), Await("go", then="end"), Sleep("1h", then="end"), Replay(delay="1h")])
def test_a_machine_asked_to_cancel_while_it_runs_goes_no_further(harness: WorkerHarness, outcome: Any) -> None:
    began, asked = threading.Event(), threading.Event()
    ran: list[str] = []

    @harness.machine
    class M(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            began.set()
            assert asked.wait(60)
            return outcome  # type: ignore[no-any-return]

        @step
        def end(self, ctx: Context) -> Outcomes:
            ran.append("end")
            return Done()

    (job_id,) = harness.enqueue(M.build())

    async def story() -> Job:
        await asyncio.to_thread(began.wait, 10)
        await asyncio.to_thread(harness.cancel, job_id)
        asked.set()
        return await harness.until_status(job_id, "canceled", "succeeded", "waiting", "scheduled")

    # no heartbeat tells the worker in time: the store itself must see that it was asked
    job, _ = harness.while_working(harness.worker(settings={"heartbeat_ms": 20_000}), story)
    assert (job.status, ran) == ("canceled", [])


def test_a_worker_that_stops_between_steps_leaves_the_machine_for_the_next(harness: WorkerHarness) -> None:
    ran: list[tuple[str, int]] = []
    stop: list[Any] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ran.append(("start", ctx.fence))
            stop[0].stop()
            while not stop[0]._runner._closing:
                await asyncio.sleep(0)
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            ran.append(("end", ctx.losses))
            return Done()

    (job_id,) = harness.enqueue(M.build())
    worker = harness.worker()
    stop.append(worker)
    harness.run(worker.run())
    job = harness.get(job_id)
    assert (job.status, job.step, job.worker_id) == ("queued", "end", None)
    harness.drain()
    assert ran == [("start", 1), ("end", 0)]
    assert harness.get(job_id).status == "succeeded"


def test_a_worker_that_stops_while_a_step_is_being_committed_gives_the_machine_back(harness: WorkerHarness) -> None:
    ran: list[str] = []
    faulty = FaultyStore(harness.store)
    workers: list[Any] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ran.append("start")
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            ran.append("end")
            return Done()

    (job_id,) = harness.enqueue(M.build())
    run_op = faulty.arun

    async def arun(op: Any, **options: Any) -> Any:
        answer = await run_op(op, **options)
        if ran == ["start"] and getattr(answer, "continued", None):
            # committed as running with the next fence, and now nothing further may begin
            workers[0]._runner.close()
            workers[0].stop()
        return answer

    faulty.arun = arun  # type: ignore[method-assign]
    workers.append(harness.worker(store=faulty))
    harness.run(workers[0].run())
    job = harness.get(job_id)
    assert (job.status, job.step, job.worker_id, job.losses) == ("queued", "end", None, 0)
    assert ran == ["start"]
    harness.drain()
    assert ran == ["start", "end"]
    assert harness.get(job_id).status == "succeeded"


def test_a_lost_answer_of_a_settle_runs_no_step_twice(harness: WorkerHarness) -> None:
    ran: list[str] = []
    faulty = FaultyStore(harness.store)
    lost: list[int] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ran.append("start")
            return Next(self.middle)

        @step
        async def middle(self, ctx: Context) -> Outcomes:
            ran.append("middle")
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            ran.append("end")
            return Done(ctx.fence)

    run_op = faulty.arun

    async def arun(op: Any, **options: Any) -> Any:
        answer = await run_op(op, **options)
        if getattr(answer, "continued", None) and len(lost) < 2:
            lost.append(1)
            raise StoreUnavailable("the test cut the wire after the commit")
        return answer

    faulty.arun = arun  # type: ignore[method-assign]
    (job_id,) = harness.enqueue(M.build())
    job, _ = harness.while_working(
        harness.worker(store=faulty), lambda: harness.until_status(job_id, "succeeded", "dead")
    )
    assert (ran, job.result, len(lost)) == (["start", "middle", "end"], 3, 2)
    assert harness.outcomes(job_id) == [("start", "next"), ("middle", "next"), ("end", "done")]


PROGRAM = """
import sys, time
from headway import Done, Headway, Machine, Next, step

app = Headway(sys.argv[1])

@app.machine
class Count(Machine):
    @step
    def start(self, ctx):
        ctx.state["n"] += 1
        print(ctx.state["n"], flush=True)
        time.sleep(0.005)
        return Next(self.start) if ctx.state["n"] < 60 else Done(ctx.state["n"])

app.run(until_idle=True)
"""


def test_sigterm_between_two_steps_loses_none_and_repeats_none(harness: WorkerHarness) -> None:
    url = getattr(harness.store, "url", None) or f"sqlite:///{harness.store.path}"

    @harness.machine
    class Count(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done()

    (job_id,) = harness.enqueue(Count.build(n=0))
    counted: list[int] = []
    for stop_at in (10, 25, 61):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                counted.append(int(line))
                if counted[-1] == stop_at:
                    process.terminate()
        assert process.returncode == 0
        job = harness.get(job_id)
        assert (job.status, job.losses, job.worker_id) == ("queued" if stop_at < 60 else "succeeded", 0, None)
    assert counted == list(range(1, 61))
    assert {attempt.outcome for attempt in harness.attempts(job_id)} == {"next", "done"}


def test_a_step_whose_execution_was_given_back_leads_to_no_other(harness: WorkerHarness) -> None:
    """Its outcome is not written, so whoever runs the machine next begins with that step."""
    began: list[tuple[str, int]] = []

    @harness.machine
    class Order(Machine):
        @step
        async def start(self, ctx: Any) -> Any:
            began.append(("start", ctx.fence))
            if ctx.fence == 1:
                await harness.store.arun(harness.store.ops.release([(ctx.job_id, 1)], delay_ms=0))
            return Next("end")

        @step
        async def end(self, ctx: Any) -> Any:
            began.append(("end", ctx.fence))
            return Done("over")

    (job_id,) = harness.enqueue(Order.build())
    harness.drain()
    assert harness.get(job_id).result == "over"
    assert began == [("start", 1), ("start", 2), ("end", 3)]
