"""A job's trace goes on: to its children, to the job that retries it, to what it calls."""

from __future__ import annotations

from typing import Any

from headway import Context, Done, Machine, Retry, Spawn, step
from tests.worker_harness import WorkerHarness

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_children_and_retries_are_of_the_same_trace(harness: WorkerHarness) -> None:
    seen: dict[str, tuple[str, str]] = {}

    @harness.job
    async def child(ctx: Context, name: str) -> None:
        seen[name] = (ctx.trace_id, ctx.traceparent)

    @harness.machine
    class Parent(Machine):
        name: str

        @step
        async def start(self, ctx: Context) -> Any:
            return Spawn([child.build(ctx.state["name"])], then=self.end)

        @step
        async def end(self, ctx: Context) -> Any:
            return Done()

    @harness.job(delivery="at_most_once", max_attempts=2)
    async def once(ctx: Context) -> None:
        seen[f"once {ctx.tries}"] = (ctx.trace_id, ctx.traceparent)
        if not ctx.tries:
            raise Retry(0)

    plain, traced = harness.enqueue(Parent.build(name="plain"), Parent.using(trace_id=PARENT).build(name="traced"))
    (first,) = harness.enqueue(once.build())
    harness.drain()
    harness.drain()
    own = plain.replace("-", "")
    assert seen["plain"][0] == own
    assert seen["plain"][1].startswith(f"00-{own}-")
    assert seen["traced"] == (PARENT[3:35], PARENT)
    assert harness.get(traced).trace == PARENT[3:35]
    assert seen["once 0"][0] == seen["once 1"][0] == first.replace("-", "")
