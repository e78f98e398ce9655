"""Stop: a machine says itself that it has failed: no dead letter, no retry, but a failure for all that wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Context, Done, Machine, Spawn, Stop, step
from headway.model.job import Filter
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import Workshop


def stopping(shop: Workshop, **options: Any) -> type[Machine]:
    class Gives(Machine, name="gives", **options):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Stop("no way")

    return shop.machine(Gives)


def after_it(shop: Workshop) -> Any:
    async def follows() -> None:
        pass

    return shop.job(follows)


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_it_ends_failed_and_nobody_retries_it(shop: Workshop, delivery: str) -> None:
    told: list[str] = []
    shop.hooks.on("job.failed", lambda event: told.append(event.name))
    shop.hooks.on("job.dead", lambda event: told.append(event.name))
    (job_id,) = shop.enqueue(stopping(shop, delivery=delivery).using(unique_key="one").build())
    assert shop.drain() == Summary(failed=1)
    job = shop.get(job_id)
    assert (job.status, job.error, job.tries, job.unique_key) == ("failed", "no way", 0, "one")
    assert shop.find(retry_of=job_id) == []
    assert told == ["job.failed"]


@pytest.mark.parametrize("keyed", [True, False])
def test_an_operator_may_retry_it(shop: Workshop, keyed: bool) -> None:
    options = {"unique_key": "one"} if keyed else {}
    (job_id,) = shop.enqueue(stopping(shop).using(**options).build())
    shop.drain()
    shop.retry(job_id)
    assert shop.get(job_id).status == "queued"
    shop.drain()
    assert (shop.get(job_id).status, shop.get(job_id).fence) == ("failed", 2)


@pytest.mark.parametrize(("on_dead", "next_car"), [("advance", "succeeded"), ("hold", "held")])
def test_its_train_does_what_on_dead_says(shop: Workshop, on_dead: Any, next_car: str) -> None:
    first = stopping(shop, train="t", on_dead=on_dead).build()
    second = after_it(shop).using(train="t").build()
    shop.enqueue(first, second)
    shop.drain()
    assert [shop.get(job.id).status for job in (first, second)] == ["failed", next_car]
    if on_dead == "hold":
        (hold,) = shop.store.run(shop.store.ops.trains(tenant_id=None, train=None, blocked=True, limit=5, after=None))
        assert "has failed" in str(hold)


@pytest.mark.parametrize(("on_failure", "status"), [("stop", "canceled"), ("continue", "succeeded")])
def test_a_job_after_it_sees_a_failure(shop: Workshop, on_failure: Any, status: str) -> None:
    first = stopping(shop).build()
    second = after_it(shop).using(after=[first.id], on_failure=on_failure).build()
    shop.enqueue(first)
    shop.enqueue(second)
    shop.drain()
    late = after_it(shop).using(after=[first.id], on_failure=on_failure).build()
    shop.enqueue(late)
    shop.drain()
    assert [shop.get(job.id).status for job in (second, late)] == [status, status]


def test_its_parent_sees_it_as_failed(shop: Workshop) -> None:
    child = stopping(shop)

    @shop.machine
    class Parent(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Spawn([child.build()], then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([(each.status, each.error) for each in ctx.children])

    (job_id,) = shop.enqueue(Parent.build())
    shop.drain()
    assert shop.get(job_id).result == [["failed", "no way"]]


def test_a_stop_says_more_than_a_cancel_that_was_asked_for(shop: Workshop) -> None:
    @shop.machine
    class Gives(Machine, name="gives"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            shop.cancel(ctx.job_id)
            return Stop("no way")

    (job_id,) = shop.enqueue(Gives.build())
    shop.drain()
    assert (shop.get(job_id).status, shop.get(job_id).error) == ("failed", "no way")
    assert shop.store.run(shop.store.ops.find(Filter(status="dead"), limit=5, before_id=None)) == []
