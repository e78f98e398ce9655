"""Flows under a worker: steps, waits, jobs that they call, and what is kept of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway import Context, Flow
from headway.errors import ChildFailed, StepFailed
from headway.worker import Summary
from tests.worker_harness import WorkerHarness


def test_steps_run_once_and_their_results_are_given_again(harness: WorkerHarness) -> None:
    ran: list[str] = []

    def reserve(order: int) -> int:
        ran.append(f"reserve {order}")
        return order + 1

    async def pay(amount: int) -> str:
        ran.append(f"pay {amount}")
        return f"paid {amount}"

    @harness.flow
    async def checkout(flow: Flow, order: int) -> list[Any]:
        stock = await flow.step(reserve, order)
        paid = await asyncio.gather(flow.step(pay, 1), flow.step(pay, 2))
        told = await flow.receive("go")
        return [stock, paid, told]

    (job_id,) = harness.enqueue(checkout.build(order=4))
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    assert harness.journal(job_id)[0] == ("done", "reserve")
    assert sorted(harness.journal(job_id)[1:]) == [("done", "pay"), ("done", "pay#2")]
    harness.signal(job_id, "go", {"by": "ada"})
    assert harness.drain() == Summary(succeeded=1)
    assert harness.get(job_id).result == [5, ["paid 1", "paid 2"], {"by": "ada"}]
    assert ran == ["reserve 4", "pay 1", "pay 2"]
    assert harness.outcomes(job_id) == [("$flow", "park"), ("$flow", "done")]
    assert [signal.status for signal in harness.signals(job_id)] == ["consumed"]


@dataclass
class Parcel:
    number: int
    sent_at: datetime


def test_live_and_replayed_values_are_equal(harness: WorkerHarness) -> None:
    seen: list[Any] = []
    moment = datetime(2026, 1, 2, tzinfo=UTC)

    def parcel() -> Parcel:
        return Parcel(7, moment)

    def pair() -> tuple[int, str]:
        return (1, "a")

    def plain():  # type: ignore[no-untyped-def]
        return {"at": moment, "pair": (1, 2)}

    @harness.flow
    async def f(flow: Flow) -> None:
        seen.append([await flow.step(parcel), await flow.step(pair), await flow.step(plain), flow.now(), flow.uuid()])
        await flow.receive("go")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    live, replayed = seen
    assert live == replayed
    assert live[:3] == [Parcel(7, moment), (1, "a"), {"at": "2026-01-02T00:00:00Z", "pair": [1, 2]}]


def test_a_signal_that_came_before_is_received(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> Any:
        return [await flow.receive("go"), await flow.receive(["stop", "go"])]

    (job_id,) = harness.enqueue(f.build())
    harness.signal(job_id, "go", 1)
    harness.signal(job_id, "go", 2)
    harness.drain()
    assert harness.get(job_id).result == [1, ["go", 2]]


def test_a_timeout_gives_none(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> Any:
        return await flow.receive("never", timeout=0.01)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "succeeded"
    assert harness.journal(job_id) == [("timer", "receive:never")]


def test_a_long_sleep_leaves_the_worker(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> str:
        await flow.sleep("1h")
        return "woke"

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    job = harness.get(job_id)
    assert job.status == "waiting"
    assert job.deadline_at is not None
    assert timedelta(minutes=59) < job.deadline_at - datetime.now(UTC) < timedelta(minutes=61)


def test_asyncio_s_own_timers_are_durable(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> Any:
        try:
            async with asyncio.timeout(1.2):
                await flow.receive("never")
        except TimeoutError:
            return "late"

    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await harness.until_status(job_id, "waiting")
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(), story)
    assert harness.get(job_id).result == "late"


def test_a_called_job_gives_its_result(harness: WorkerHarness) -> None:
    @harness.job
    def pack(order: int) -> Parcel:
        return Parcel(order, datetime(2026, 1, 2, tzinfo=UTC))

    @harness.flow
    async def f(flow: Flow) -> int:
        parcels = await asyncio.gather(flow.call(pack, order=1), flow.call(pack, order=2))
        assert all(isinstance(parcel, Parcel) for parcel in parcels)
        return sum(parcel.number for parcel in parcels)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == 3
    assert sorted(job.parent_id or "" for job in harness.find(kind="pack")) == [job_id, job_id]


def test_a_called_job_that_dies_raises(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    def pack() -> None:
        raise ValueError("no box")

    @harness.flow
    async def f(flow: Flow) -> Any:
        try:
            await flow.call(pack)
        except ChildFailed as error:
            return [error.status, error.kind, "no box" in (error.error or "")]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == ["dead", "pack", True]


def test_calls_wait_for_as_many_as_are_needed(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    def one(x: int) -> int:
        if x == 0:
            raise ValueError
        return x

    @harness.flow
    async def f(flow: Flow) -> Any:
        every = await flow.calls([one.build(x) for x in range(3)])
        return [(child.status, child.result) for child in every]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == [["dead", None], ["succeeded", 1], ["succeeded", 2]]


def test_an_enqueued_job_lives_on(harness: WorkerHarness) -> None:
    @harness.job
    def later(x: int) -> None: ...

    @harness.flow
    async def f(flow: Flow) -> str:
        job_id = await flow.enqueue(later, x=1)
        await flow.receive("go")
        return job_id

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    (child,) = harness.find(kind="later")
    assert harness.get(job_id).result == child.id
    assert child.status == "succeeded"


def test_a_signal_to_another_flow_is_sent_once(harness: WorkerHarness) -> None:
    @harness.flow
    async def hears(flow: Flow) -> Any:
        return await flow.receive("hello")

    @harness.flow
    async def speaks(flow: Flow, to: str) -> None:
        await flow.send(to, "hello", {"n": 1})
        await flow.receive("go")

    (hearing,) = harness.enqueue(hears.build())
    (speaking,) = harness.enqueue(speaks.build(to=hearing))
    harness.drain()
    harness.signal(speaking, "go")
    harness.drain()
    assert harness.get(hearing).result == {"n": 1}
    assert len(harness.signals(hearing)) == 1


def test_a_failed_step_is_tried_again_and_then_raises(harness: WorkerHarness) -> None:
    tries: list[int] = []

    async def charge(ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise ValueError("declined")

    @harness.flow
    async def f(flow: Flow) -> Any:
        try:
            await flow.using(max_attempts=3, backoff=0.01).step(charge)
        except StepFailed as error:
            return [error.place, error.kind, error.reason, error.tries]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == ["charge", "ValueError", "declined", 3]
    assert tries == [1, 2, 3]
    assert harness.journal(job_id) == [("tried", "charge"), ("tried", "charge"), ("failed", "charge")]


def test_a_step_that_fails_for_good_makes_the_flow_dead_and_a_retry_goes_on_there(harness: WorkerHarness) -> None:
    ran: list[str] = []
    broken = [True]

    def reserve() -> str:
        ran.append("reserve")
        return "stock"

    def charge() -> str:
        ran.append("charge")
        if broken[0]:
            raise ValueError("declined")
        return "money"

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> list[str]:
        return [await flow.step(reserve), await flow.step(charge)]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    job = harness.get(job_id)
    assert job.status == "dead"
    assert "step charge failed: ValueError: declined" in (job.error or "")
    broken[0] = False
    harness.retry(job_id)
    harness.drain()
    assert harness.get(job_id).result == ["stock", "money"]
    assert ran == ["reserve", "charge", "charge"]


def test_an_error_between_operations_loses_nothing(harness: WorkerHarness) -> None:
    ran: list[str] = []
    broken = [True]

    def reserve() -> str:
        ran.append("reserve")
        return "stock"

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> str:
        stock = await flow.step(reserve)
        if broken[0]:
            raise KeyError("a bug")
        return stock

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "dead"
    broken[0] = False
    harness.retry(job_id)
    harness.drain()
    assert (harness.get(job_id).result, ran) == ("stock", ["reserve"])


def test_a_result_that_does_not_fit_its_annotation_fails_its_step(harness: WorkerHarness) -> None:
    def wrong() -> int:
        return "text"  # type: ignore[return-value]

    @harness.flow
    async def f(flow: Flow) -> str:
        try:
            await flow.step(wrong)
        except StepFailed as error:
            return error.reason

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == "the result cannot be read at $: expected `int`, got `str`"


def test_flow_fail_ends_it_failed(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> None:
        flow.fail("never paid")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.error) == ("failed", "never paid")


def test_a_retry_after_flow_fail_looks_again_at_what_it_decided_by(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> Any:
        if await flow.receive("payment", timeout=0.01) is None:
            flow.fail("never paid")
        return "paid"

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "failed"
    harness.retry(job_id)
    harness.signal(job_id, "payment", 1)
    harness.drain()
    assert harness.get(job_id).result == "paid"


def test_an_answered_timeout_wakes_nobody(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.receive("a", timeout="3d")
        await flow.receive("b")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).deadline_at is not None
    harness.signal(job_id, "a", 1)
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.deadline_at) == ("waiting", None)


def test_values_are_shown_while_it_waits(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> None:
        flow.set(stage="paying", left=2)
        await flow.receive("go")
        flow.set(stage="done")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).state == {"stage": "paying", "left": 2}
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).state == {"stage": "done", "left": 2}


def test_restart_begins_anew_with_an_empty_journal(harness: WorkerHarness) -> None:
    ids: list[Any] = []

    @harness.flow
    async def f(flow: Flow, n: int = 0) -> int:
        ids.append(flow.uuid())
        await flow.step(lambda_free, n)
        if n < 3:
            flow.restart(n + 1)
        return n

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == 3
    assert harness.journal(job_id) == [("done", "lambda_free")]
    assert len(set(ids)) == 4


def lambda_free(n: int) -> int:
    return n


@pytest.mark.parametrize("fan", [3, 60])
def test_many_steps_at_once_are_bounded(harness: WorkerHarness, fan: int) -> None:
    running = most = 0

    async def one(x: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return x

    @harness.flow(steps_at_once=5)
    async def f(flow: Flow) -> int:
        return sum(await asyncio.gather(*(flow.step(one, x) for x in range(fan))))

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == sum(range(fan))
    assert most == min(fan, 5)
