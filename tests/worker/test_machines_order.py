"""Machines under a worker: queues and partitions of steps, trains, limits, groups; hooks, middleware and run_now."""

from __future__ import annotations

import asyncio
from typing import Any

from headway import Await, Context, Done, Headway, Machine, Next, step
from headway.define.groups import grouped
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import WorkerHarness

# queues, partitions, order


def test_a_step_runs_in_its_own_queue_and_the_next_one_at_home(harness: WorkerHarness) -> None:
    seen: list[tuple[str, str]] = []

    @harness.machine
    class M(Machine, queue="home", partition="p_{order}"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append(("start", ctx.queue))
            return Next(self.away)

        @step(queue="away", partition="q_{order}")
        async def away(self, ctx: Context) -> Outcomes:
            seen.append(("away", ctx.queue))
            return Await("go", then=self.back)

        @step
        async def back(self, ctx: Context) -> Outcomes:
            seen.append(("back", ctx.queue))
            return Done()

    (job_id,) = harness.enqueue(M.build(order=7))
    harness.drain(queues={"home": 1})
    job = harness.get(job_id)
    assert (job.status, job.step, job.queue, job.partition) == ("queued", "away", "away", "q_7")
    assert (job.home_queue, job.home_partition) == ("home", "p_7")
    harness.drain(queues={"away": 1})
    job = harness.get(job_id)
    # it waits where its next step will run
    assert (job.status, job.queue, job.partition, job.home_queue, job.home_partition) == (
        "waiting",
        "home",
        "p_7",
        None,
        None,
    )
    harness.signal(job_id, "go")
    harness.drain(queues={"away": 1})
    assert harness.get(job_id).status == "queued"
    harness.drain(queues={"home": 1})
    assert harness.get(job_id).status == "succeeded"
    assert seen == [("start", "home"), ("away", "away"), ("back", "home")]


def test_one_worker_of_both_queues_goes_all_the_way(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine, queue="home"):
        @step(queue="away")
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(ctx.queue)

    ids = harness.enqueue(*(M.build() for _ in range(20)))
    assert harness.drain(queues={"home": 2, "away": 2}) == Summary(stepped=20, succeeded=20)
    assert {harness.get(job_id).result for job_id in ids} == {"home"}


def test_steps_of_one_partition_never_run_at_the_same_time(harness: WorkerHarness) -> None:
    running: list[str] = []
    most: list[int] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.alone)

        @step(partition="printer")
        async def alone(self, ctx: Context) -> Outcomes:
            running.append(ctx.job_id)
            most.append(len(running))
            await asyncio.sleep(0.002)
            running.remove(ctx.job_id)
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    harness.enqueue(*(M.build() for _ in range(10)))
    assert harness.drain().succeeded == 10
    assert max(most) == 1


def test_a_machine_is_one_car_of_its_train_until_it_is_over(harness: WorkerHarness) -> None:
    seen: list[tuple[int, str]] = []

    @harness.machine
    class M(Machine, train="t"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append((ctx.state["n"], "start"))
            return Await("go", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            seen.append((ctx.state["n"], "end"))
            return Done()

    first, second = harness.enqueue(M.build(n=1), M.build(n=2))
    harness.drain()
    assert (harness.get(first).status, harness.get(second).status) == ("waiting", "held")
    harness.signal(second, "go")
    harness.signal(first, "go")
    harness.drain()
    assert (harness.get(first).status, harness.get(second).status) == ("succeeded", "succeeded")
    assert seen == [(1, "start"), (1, "end"), (2, "start"), (2, "end")]


def test_a_machine_that_waits_takes_no_room_of_its_limit(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine, concurrency=1):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    ids = harness.enqueue(*(M.build() for _ in range(3)))
    harness.drain()
    assert {harness.get(job_id).status for job_id in ids} == {"waiting"}
    for job_id in ids:
        harness.signal(job_id, "go")
    assert harness.drain() == Summary(succeeded=3)


def test_a_machine_holds_its_limit_through_steps_that_follow_at_once(harness: WorkerHarness) -> None:
    inside: set[str] = set()
    most: list[int] = []

    @harness.machine
    class M(Machine, concurrency=2):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            inside.add(ctx.job_id)
            most.append(len(inside))
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            inside.remove(ctx.job_id)
            return Done()

    harness.enqueue(*(M.build() for _ in range(12)))
    assert harness.drain().succeeded == 12
    assert max(most) <= 2


def test_a_group_of_machines_is_over_when_they_are(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done() if ctx.signals else Await("go")

    @harness.job
    async def report() -> str:
        return "all over"

    callback = report.build()
    group, jobs = grouped([M.build(), M.build()], mode="parallel", on_failure="stop", callback=callback)
    harness.store.run(harness.store.ops.enqueue(jobs, group))
    harness.drain()
    assert [harness.get(job.id).status for job in jobs] == ["waiting", "waiting", "held"]
    harness.signal(jobs[0].id, "go")
    harness.drain()
    assert harness.get(callback.id).status == "held"
    harness.signal(jobs[1].id, "go")
    harness.drain()
    assert harness.get(callback.id).result == "all over"


def test_a_sequential_group_waits_for_a_machine_that_waits(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done() if ctx.signals else Await("go")

    group, jobs = grouped([M.build(), M.build()], mode="sequential", on_failure="stop", callback=None)
    harness.store.run(harness.store.ops.enqueue(jobs, group))
    harness.drain()
    assert [harness.get(job.id).status for job in jobs] == ["waiting", "held"]
    harness.signal(jobs[0].id, "go")
    harness.drain()
    assert [harness.get(job.id).status for job in jobs] == ["succeeded", "waiting"]


# seen


def test_run_now_takes_a_machine_to_its_end_or_to_its_first_wait(harness: WorkerHarness) -> None:
    url = getattr(harness.store, "url", None) or f"sqlite:///{harness.store.path}"
    app = Headway(url)

    @app.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.middle)

        @step
        def middle(self, ctx: Context) -> Outcomes:
            return Await("go", then=self.end) if ctx.state.get("wait") else Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(ctx.state)

    try:
        assert app.run_now(M, {"n": 1}).value == {"n": 1}
        assert app.run_now("m", {"n": 2}).value == {"n": 2}
        outcome = app.run_now(M, {"wait": True})
        assert (outcome.status, outcome.value) == ("waiting", None)
    finally:
        app.close()


def test_hooks_hear_of_every_step(harness: WorkerHarness) -> None:
    heard: list[tuple[str, Any]] = []
    for name in ("job.started", "job.stepped", "job.succeeded", "job.settled"):
        harness.hooks.on(name, lambda event: heard.append((event.name, event.claim.fence)))

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    harness.enqueue(M.build())
    harness.drain()
    assert {name for name, _ in heard} == {"job.started", "job.stepped", "job.succeeded", "job.settled"}
    assert sorted(fence for name, fence in heard if name == "job.started") == [1, 2]


def test_middleware_wraps_every_step_and_sees_its_context(harness: WorkerHarness) -> None:
    seen: list[tuple[str | None, Any]] = []

    async def watch(ctx: Context, call_next: Any) -> Any:
        outcome = await call_next()
        seen.append((ctx.step, type(outcome).__name__))
        return outcome

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        def end(self, ctx: Context) -> Outcomes:
            return Done()

    harness.enqueue(M.build())
    harness.drain(middleware=[watch])
    assert seen == [("start", "Next"), ("end", "Done")]


def test_progress_and_log_belong_to_the_step(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ctx.progress(0.9, "nearly")
            ctx.log("from the first")
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Await("go")

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.progress, job.progress_note) == ("waiting", None, None)


def test_a_car_that_is_retried_while_it_waited_waits_again_when_its_turn_comes(harness: WorkerHarness) -> None:
    heard: list[Any] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go", then=self.end, timeout="3d")

        @step
        async def end(self, ctx: Context) -> Outcomes:
            heard.append([signal.payload for signal in ctx.signals])
            return Done()

    first, second = harness.enqueue(M.using(train="t").build(order=1), M.using(train="t").build(order=2))
    harness.drain()
    deadline = harness.get(first).deadline_at
    harness.cancel(first)
    harness.drain()
    assert (harness.get(first).status, harness.get(second).status) == ("canceled", "waiting")
    harness.retry(first)
    harness.signal(second, "go", "second")
    harness.drain()
    job = harness.get(first)
    assert (job.status, job.awaiting, job.deadline_at, job.fence) == ("waiting", ("go",), deadline, 1)
    harness.signal(first, "go", "first")
    harness.drain()
    assert harness.get(first).status == "succeeded"
    assert heard == [["second"], ["first"]]
