"""Waits of flows for signals and times: in their order, once, and the same in every replay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway import Flow, Headway
from headway.errors import NotFound
from headway.testing import drain
from tests.worker_harness import FaultyStore, WorkerHarness


def test_a_wait_that_ran_out_with_none_done_stays_so(harness: WorkerHarness) -> None:
    seen: list[int] = []

    @harness.flow
    async def f(flow: Flow) -> Any:
        task = asyncio.create_task(flow.receive("late"))
        done, _ = await asyncio.wait({task}, timeout=0.01)
        seen.append(len(done))
        return await task

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "late", 7)
    harness.drain()
    assert harness.get(job_id).result == 7
    assert seen == [0, 0]


@pytest.mark.parametrize("first", ["signal", "time"])
def test_a_signal_and_the_end_of_its_timeout_while_no_worker_is_there(
    still: WorkerHarness, clock: Any, first: str
) -> None:
    @still.flow
    async def f(flow: Flow) -> list[Any]:
        try:
            async with asyncio.timeout(3_600):
                return ["in time", await flow.receive("paid")]
        except TimeoutError:
            return ["late", await flow.receive("paid", timeout=0.001)]

    (job_id,) = still.enqueue(f.build())
    still.drain()
    clock.advance("30m" if first == "signal" else "2h")
    still.signal(job_id, "paid", 5)
    clock.advance("2h")
    still.drain()
    assert still.get(job_id).result == ["in time" if first == "signal" else "late", 5]
    assert [signal.status for signal in still.signals(job_id)] == ["consumed"]


@pytest.mark.parametrize("comes", [True, False])
def test_a_wait_with_a_limit_is_the_same_however_it_is_written(still: WorkerHarness, clock: Any, comes: bool) -> None:
    async def by_option(flow: Flow) -> Any:
        return await flow.receive("a", timeout="1h")

    async def by_timeout(flow: Flow) -> Any:
        try:
            async with asyncio.timeout(3_600):
                return await flow.receive("b")
        except TimeoutError:
            return None

    async def by_wait(flow: Flow) -> Any:
        task, limit = asyncio.create_task(flow.receive("c")), asyncio.create_task(flow.sleep("1h"))
        done, rest = await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        for each in rest:
            each.cancel()
        return task.result() if task in done else None

    async def by_wait_for(flow: Flow) -> Any:
        try:
            return await asyncio.wait_for(flow.receive("d"), 3_600)
        except TimeoutError:
            return None

    @still.flow
    async def f(flow: Flow) -> list[Any]:
        return await asyncio.gather(by_option(flow), by_timeout(flow), by_wait(flow), by_wait_for(flow))

    (job_id,) = still.enqueue(f.build())
    still.drain()
    if comes:
        for name in "abcd":
            still.signal(job_id, name, 1)
    clock.advance("61m")
    still.drain()
    assert still.get(job_id).result == [1 if comes else None] * 4


def test_signals_come_by_name_in_their_order_and_none_stays_none(still: WorkerHarness, clock: Any) -> None:
    seen: list[Any] = []

    @still.flow
    async def f(flow: Flow) -> list[Any]:
        got = [await flow.receive("b"), await flow.receive("a"), await flow.receive("a")]
        got.append(await flow.receive("a", timeout="1h"))
        seen.append(got[-1])
        return [*got, await flow.receive("go"), await flow.receive("a")]

    (job_id,) = still.enqueue(f.build())
    for name, payload in (("a", 1), ("a", 2), ("b", 3)):
        still.signal(job_id, name, payload)
    still.drain()
    clock.advance("61m")
    still.drain()
    still.signal(job_id, "a", "too late")
    still.signal(job_id, "go", "on")
    still.drain()
    assert still.get(job_id).result == [3, 1, 2, None, "on", "too late"]
    assert seen == [None, None]


def test_a_lost_answer_neither_loses_nor_repeats_a_signal_or_its_end(harness: WorkerHarness) -> None:
    store = FaultyStore(harness.store)
    lost: list[object] = []

    def loses(op: Any) -> bool:
        if op.steps.__qualname__.startswith("RecordVerbs.record") and len(lost) < 4:
            lost.append(op)
            return True
        return False

    store.loses_answer = loses

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        return [await flow.receive("a"), await flow.receive("a", timeout=0.01), await flow.receive("b")]

    (job_id,) = harness.enqueue(f.build())
    harness.signal(job_id, "a", 1)
    harness.signal(job_id, "b", 2)
    harness.while_working(harness.worker(store=store), lambda: harness.until_status(job_id, "succeeded"))
    assert harness.get(job_id).result == [1, None, 2]
    assert len(lost) >= 3
    assert [signal.status for signal in harness.signals(job_id)] == ["consumed", "consumed"]


def test_a_canceled_sleep_sleeps_only_the_rest_when_it_is_retried(still: WorkerHarness, clock: Any) -> None:
    @still.flow
    async def f(flow: Flow) -> str:
        await flow.sleep("10h")
        return "slept"

    (job_id,) = still.enqueue(f.build())
    still.drain()
    clock.advance("6h")
    still.cancel(job_id)
    still.drain()
    assert still.get(job_id).status == "canceled"
    still.retry(job_id)
    still.drain()
    clock.advance("3h")
    still.drain()
    assert still.get(job_id).status == "waiting"
    clock.advance("61m")
    still.drain()
    assert still.get(job_id).result == "slept"


def test_whoever_starts_it_or_finds_it_running_signals_it_by_its_key(app: Headway) -> None:
    """Started if it is absent, told in any case, and told once by each request."""

    @app.flow
    async def cart(flow: Flow) -> list[str]:
        items: list[str] = []
        while (item := await flow.receive("add")) != "pay":
            items.append(item)
        return items

    keyed = cart.using(unique_key="ada")
    ids = []
    for request, item in (("r1", "tea"), ("r1", "tea"), ("r2", "salt"), ("r3", "pay"), ("r4", "rice"), ("r5", "pay")):
        ids.append(keyed.enqueue().id)
        cart.signal("ada", "add", item, dedup_key=request)
        if item == "pay":
            drain(app)
    first, second = sorted(set(ids))
    assert ids == [first] * 4 + [second] * 2
    assert [app.result(job_id).value for job_id in (first, second)] == [["tea", "salt"], ["rice"]]
    with pytest.raises(NotFound):
        cart.signal("ada", "add", "too late")
