"""Stop: a machine says itself that it has failed: no dead letter, no retry, but a failure for all that wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Context, Done, Machine, Spawn, Stop, step
from headway.model.listing import Filter
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import WorkerHarness


def stopping(harness: WorkerHarness, **options: Any) -> type[Machine]:
    class Gives(Machine, name="gives", **options):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Stop("no way")

    return harness.machine(Gives)


def after_it(harness: WorkerHarness) -> Any:
    async def follows() -> None:
        pass

    return harness.job(follows)


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_it_ends_failed_and_nobody_retries_it(harness: WorkerHarness, delivery: str) -> None:
    told: list[str] = []
    harness.hooks.on("job.failed", lambda event: told.append(event.name))
    harness.hooks.on("job.dead", lambda event: told.append(event.name))
    (job_id,) = harness.enqueue(stopping(harness, delivery=delivery).using(unique_key="one").build())
    assert harness.drain() == Summary(failed=1)
    job = harness.get(job_id)
    assert (job.status, job.error, job.tries, job.unique_key) == ("failed", "no way", 0, "one")
    assert harness.find(retry_of=job_id) == []
    assert told == ["job.failed"]


@pytest.mark.parametrize("keyed", [True, False])
def test_an_operator_may_retry_it(harness: WorkerHarness, keyed: bool) -> None:
    options = {"unique_key": "one"} if keyed else {}
    (job_id,) = harness.enqueue(stopping(harness).using(**options).build())
    harness.drain()
    harness.retry(job_id)
    assert harness.get(job_id).status == "queued"
    harness.drain()
    assert (harness.get(job_id).status, harness.get(job_id).fence) == ("failed", 2)


@pytest.mark.parametrize(("on_dead", "next_car"), [("advance", "succeeded"), ("hold", "held")])
def test_its_train_does_what_on_dead_says(harness: WorkerHarness, on_dead: Any, next_car: str) -> None:
    first = stopping(harness, train="t", on_dead=on_dead).build()
    second = after_it(harness).using(train="t").build()
    harness.enqueue(first, second)
    harness.drain()
    assert [harness.get(job.id).status for job in (first, second)] == ["failed", next_car]
    if on_dead == "hold":
        (hold,) = harness.store.run(
            harness.store.ops.trains(tenant_id=None, train=None, blocked=True, limit=5, after=None)
        )
        assert "has failed" in str(hold)


@pytest.mark.parametrize(("on_failure", "status"), [("stop", "canceled"), ("continue", "succeeded")])
def test_a_job_after_it_sees_a_failure(harness: WorkerHarness, on_failure: Any, status: str) -> None:
    first = stopping(harness).build()
    second = after_it(harness).using(after=[first.id], on_failure=on_failure).build()
    harness.enqueue(first)
    harness.enqueue(second)
    harness.drain()
    late = after_it(harness).using(after=[first.id], on_failure=on_failure).build()
    harness.enqueue(late)
    harness.drain()
    assert [harness.get(job.id).status for job in (second, late)] == [status, status]


def test_its_parent_sees_it_as_failed(harness: WorkerHarness) -> None:
    child = stopping(harness)

    @harness.machine
    class Parent(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([child.build()], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([(each.status, each.error) for each in ctx.children])

    (job_id,) = harness.enqueue(Parent.build())
    harness.drain()
    assert harness.get(job_id).result == [["failed", "no way"]]


def test_a_stop_says_more_than_a_cancel_that_was_asked_for(harness: WorkerHarness) -> None:
    @harness.machine
    class Gives(Machine, name="gives"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            harness.cancel(ctx.job_id)
            return Stop("no way")

    (job_id,) = harness.enqueue(Gives.build())
    harness.drain()
    assert (harness.get(job_id).status, harness.get(job_id).error) == ("failed", "no way")
    assert harness.store.run(harness.store.ops.find(Filter(status="dead"), limit=5)) == []
