"""Machines under a worker: the children that they spawn."""

from __future__ import annotations

from typing import Any

from headway import Await, Context, Done, Machine, Next, Replay, Spawn, step
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import WorkerHarness


def test_children_come_back_with_results_and_errors_in_their_order(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    async def work(n: int) -> int:
        if n == 2:
            raise ValueError("two")
        return n * 10

    @harness.machine
    class Inner(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done("inner")

    @harness.machine
    class Outer(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            jobs = [work.build(n=3), work.build(n=2), Inner.build(), work.build(n=1)]
            return Spawn(jobs, then=self.gather, state={"spawned": True})

        @step
        async def gather(self, ctx: Context) -> Outcomes:
            told = [(child.kind, child.status, child.result, str(child.error).split("\n")[0]) for child in ctx.children]
            return Done([told, ctx.state])

    (job_id,) = harness.enqueue(Outer.build())
    harness.drain()
    job = harness.get(job_id)
    assert job.status == "succeeded"
    assert job.result == [
        [
            ["work", "succeeded", 30, "None"],
            ["work", "dead", None, "ValueError: two"],
            ["inner", "succeeded", "inner", "None"],
            ["work", "succeeded", 10, "None"],
        ],
        {"spawned": True},
    ]
    assert [child.kind for child in harness.children(job_id, fence=1)] == ["work", "work", "inner", "work"]
    assert {each.parent_id for each in harness.find(parent_id=job_id)} == {job_id}
    assert [attempt.woken for attempt in harness.attempts(job_id)] == [None, "children"]


def test_a_retried_step_after_a_spawn_sees_its_children_again(harness: WorkerHarness) -> None:
    seen: list[Any] = []

    @harness.job
    async def work() -> int:
        return 7

    @harness.machine
    class Outer(Machine, backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([work.build()], then=self.gather)

        @step
        async def gather(self, ctx: Context) -> Outcomes:
            seen.append([child.result for child in ctx.children])
            if len(seen) == 1:
                raise ValueError("once")
            return Replay() if len(seen) == 2 else Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(len(ctx.children))

    (job_id,) = harness.enqueue(Outer.build())
    harness.drain()
    assert seen == [[7], [7], [7]]
    assert harness.get(job_id).result == 0


def test_an_empty_spawn_goes_on_at_once(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(len(ctx.children))

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(stepped=1, succeeded=1)
    assert harness.get(job_id).result == 0


def test_the_first_child_that_fails_may_cancel_the_others(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    @harness.job
    async def later() -> None: ...

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            jobs = [later.using(delay="1h").build(), fails.build()]
            return Spawn(jobs, then=self.gather, on_failure="stop")

        @step
        async def gather(self, ctx: Context) -> Outcomes:
            return Done([child.status for child in ctx.children])

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    assert harness.get(job_id).result == ["canceled", "dead"]


def test_children_of_a_canceled_machine_are_canceled(harness: WorkerHarness) -> None:
    @harness.job
    async def later() -> None: ...

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([later.using(delay="1h").build(), later.using(delay="2h").build()])

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    harness.cancel(job_id)
    harness.drain()
    assert harness.get(job_id).status == "canceled"
    assert [child.status for child in harness.children(job_id, fence=1)] == ["canceled", "canceled"]


def test_a_spawn_that_the_store_refuses_is_a_failed_step(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    @harness.machine
    class M(Machine, max_attempts=2, backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            taken = work.using(unique_key="one", on_conflict="raise")
            return Spawn([taken.build(), work.build()], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    harness.enqueue(work.using(unique_key="one", delay="1h").build())
    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    _until_over(harness, job_id)
    job = harness.get(job_id)
    assert (job.status, job.step, job.tries) == ("dead", "start", 2)
    assert "Duplicate" in str(job.error)
    assert harness.find(parent_id=job_id) == []


def _until_over(harness: WorkerHarness, job_id: str) -> None:
    for _ in range(5):
        if harness.get(job_id).status != "scheduled":
            return
        harness.make_due(job_id)
        harness.drain()


def test_a_child_that_met_an_existing_job_waits_for_that(harness: WorkerHarness) -> None:
    @harness.job
    async def work(n: int) -> int:
        return n

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([work.using(unique_key="one").build(n=2)], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([child.result for child in ctx.children])

    harness.enqueue(work.using(unique_key="one", priority=200).build(n=1))
    (job_id,) = harness.enqueue(M.build())
    harness.drain(queues={"default": 1})
    assert harness.get(job_id).result == [1]


def nest(harness: WorkerHarness, ending: Any) -> type[Machine]:
    @harness.machine
    class Nest(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            depth = ctx.state["depth"] - 1
            return Spawn([Nest.build(depth=depth), Nest.build(depth=depth)], then=self.end) if depth >= 0 else ending

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(1 + sum(child.result for child in ctx.children))

    return Nest


def test_machines_spawn_machines_that_spawn_machines(harness: WorkerHarness) -> None:
    (job_id,) = harness.enqueue(nest(harness, Done(1)).build(depth=5))
    harness.drain()
    assert harness.get(job_id).result == 63


def test_a_canceled_machine_takes_its_whole_tree_along(harness: WorkerHarness) -> None:
    (job_id,) = harness.enqueue(nest(harness, Await("never")).build(depth=3))
    harness.drain()
    assert len(harness.find(status="waiting")) == 15
    harness.cancel(job_id)
    harness.drain()
    assert len(harness.find(status="canceled")) == 15


def test_children_may_wait_for_each_other(harness: WorkerHarness) -> None:
    ran: list[int] = []

    @harness.job
    async def work(n: int) -> int:
        ran.append(n)
        return n

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            last = work.using(delay=0.02).build(1)
            car = work.using(train="t")
            return Spawn([work.using(after=last).build(2), last, car.build(3), car.build(4)], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([child.result for child in ctx.children])

    (job_id,) = harness.enqueue(M.build())
    harness.while_working(harness.worker(), lambda: harness.until_status(job_id, "succeeded"))
    assert harness.get(job_id).result == [2, 1, 3, 4]
    assert ran.index(1) < ran.index(2)
    assert ran.index(3) < ran.index(4)


def test_the_job_that_goes_on_for_an_at_most_once_machine_sees_its_children(harness: WorkerHarness) -> None:
    seen: list[Any] = []

    @harness.job
    async def work() -> int:
        return 5

    @harness.machine
    class M(Machine, delivery="at_most_once", backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([work.build()], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            seen.append([child.result for child in ctx.children])
            if len(seen) == 1:
                raise ValueError("once")
            return Done()

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    (again,) = harness.find(retry_of=job_id)
    assert (harness.get(job_id).status, again.status, seen) == ("failed", "succeeded", [[5], [5]])
