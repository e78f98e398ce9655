"""Flows in trains, partitions, limits and groups: as machines are, since an execution of a flow is one of its job."""

from __future__ import annotations

from typing import Any

from headway import Context, Done, Flow, Machine, Spawn, step
from headway.model.outcome import Outcomes
from tests.worker_harness import WorkerHarness


def test_a_waiting_flow_holds_its_train(harness: WorkerHarness) -> None:
    order: list[str] = []

    @harness.flow
    async def car(flow: Flow, name: str) -> None:
        order.append(f"{name} begins")
        await flow.receive("go")
        await flow.step(order.append, f"{name} ends")

    first, second = harness.enqueue(*(car.using(train="t").build(name=name) for name in "ab"))
    harness.drain()
    assert (harness.get(first).status, harness.get(second).status) == ("waiting", "held")
    harness.signal(second, "go")
    harness.signal(first, "go")
    harness.drain()
    assert {harness.get(first).status, harness.get(second).status} == {"succeeded"}
    assert [each for each in order if each.endswith("ends")] == ["a ends", "b ends"]


def test_a_dead_flow_holds_its_train_and_goes_on_as_its_locomotive(harness: WorkerHarness) -> None:
    broken = [True]

    def fail() -> None:
        if broken[0]:
            raise ValueError("no")

    @harness.flow(max_attempts=1)
    async def car(flow: Flow) -> None:
        await flow.step(fail)

    first, second = harness.enqueue(*(car.using(train="t", on_dead="hold").build() for _ in range(2)))
    harness.drain()
    assert (harness.get(first).status, harness.get(second).status) == ("dead", "held")
    broken[0] = False
    harness.retry(first)
    harness.drain()
    assert {harness.get(first).status, harness.get(second).status} == {"succeeded"}


def test_a_waiting_flow_holds_no_partition_and_no_slot_of_a_limit(harness: WorkerHarness) -> None:
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        running -= 1

    @harness.flow(partition="p", concurrency=1)
    async def f(flow: Flow) -> None:
        await flow.step(work)
        await flow.receive("go")
        await flow.step(work)

    ids = harness.enqueue(*(f.build() for _ in range(4)))
    harness.drain()
    assert {harness.get(job_id).status for job_id in ids} == {"waiting"}
    for job_id in ids:
        harness.signal(job_id, "go")
    harness.drain()
    assert {harness.get(job_id).status for job_id in ids} == {"succeeded"}
    assert most == 1


def test_a_machine_spawns_flows_and_a_flow_calls_machines(harness: WorkerHarness) -> None:
    @harness.flow
    async def inner(flow: Flow, x: int) -> int:
        await flow.sleep("1ms")
        return x * 2

    @harness.machine
    class Outer(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([inner.build(x=1), inner.build(x=2)], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([child.result for child in ctx.children])

    @harness.flow
    async def outermost(flow: Flow) -> Any:
        return await flow.call(Outer.kind())

    (job_id,) = harness.enqueue(outermost.build())
    harness.drain()
    harness.drain()
    assert harness.get(job_id).result == [2, 4]


def test_a_flow_waits_for_the_jobs_it_was_enqueued_after(harness: WorkerHarness) -> None:
    order: list[str] = []

    @harness.job
    def before() -> None:
        order.append("before")

    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.step(order.append, "flow")

    first = before.build()
    harness.enqueue(first, f.using(after=first).build())
    harness.drain()
    assert order == ["before", "flow"]


def test_a_unique_key_is_held_while_it_waits(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.receive("go")

    (first,) = harness.enqueue(f.using(unique_key="k").build())
    harness.drain()
    assert harness.enqueue(f.using(unique_key="k").build()) == [first]
    harness.signal(first, "go")
    harness.drain()
    assert harness.enqueue(f.using(unique_key="k").build()) != [first]


def test_many_flows_that_sleep_together_wake_together(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow, n: int) -> int:
        await flow.sleep("1500ms")
        return n

    ids = harness.enqueue(*(f.build(n=n) for n in range(300)))

    harness.drain()

    async def over() -> None:
        for job_id in ids:
            await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(), over)
    assert [harness.get(job_id).result for job_id in ids] == list(range(300))
