"""Flows that are plain functions: a thread while they run, one operation at a time, the same journal."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headway import Context, SyncFlow
from headway.errors import ChildFailed, StepFailed
from headway.worker import flow_execution
from tests.worker_harness import WorkerHarness


def test_it_goes_on_behind_its_last_operation(harness: WorkerHarness) -> None:
    ran: list[str] = []
    threads: set[str] = set()

    def reserve(ctx: Context, order: int) -> int:
        ran.append("reserve")
        threads.add(threading.current_thread().name)
        return order + ctx.tries

    async def pay() -> str:
        ran.append("pay")
        return "paid"

    @harness.job
    def pack(order: int) -> str:
        return f"packed {order}"

    @harness.flow
    def checkout(flow: SyncFlow, order: int) -> list[Any]:
        stock = flow.step(reserve, order)
        flow.set(stage="waiting")
        name, payload = flow.receive(["go", "stop"])
        got = [stock, flow.step(pay), name, payload, flow.call(pack, order=order)]
        flow.sleep("1ms")
        return [*got, flow.receive("never", timeout="1ms")]

    (job_id,) = harness.enqueue(checkout.build(order=4))
    harness.drain()
    assert (harness.get(job_id).status, harness.get(job_id).state) == ("waiting", {"stage": "waiting"})
    harness.signal(job_id, "go", {"n": 1})
    harness.drain()
    harness.drain()
    assert harness.get(job_id).result == [4, "paid", "go", {"n": 1}, "packed 4", None]
    assert ran == ["reserve", "pay"]
    assert [name.startswith("headway-") for name in threads] == [True]


def test_errors_come_as_they_do_in_an_async_flow(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    def dies() -> None:
        raise ValueError("no box")

    def fails() -> None:
        raise KeyError("k")

    @harness.flow(max_attempts=1)
    def f(flow: SyncFlow) -> list[Any]:
        seen: list[Any] = []
        try:
            flow.step(fails)
        except StepFailed as error:
            seen.append(error.kind)
        try:
            flow.call(dies)
        except ChildFailed as error:
            seen.append(error.status)
        return [*seen, [child.status for child in flow.calls([dies.build()])]]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == ["KeyError", "dead", ["dead"]]


def test_a_canceled_one_undoes_what_it_did(harness: WorkerHarness) -> None:
    did: list[str] = []

    @harness.flow
    def f(flow: SyncFlow) -> None:
        with flow.saga() as saga:
            for what in ("stock", "money"):
                flow.step(did.append, what)
                saga.undo(did.append, f"not {what}")
            flow.receive("never")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.cancel(job_id)
    harness.drain()
    assert harness.get(job_id).status == "canceled"
    assert did == ["stock", "money", "not money", "not stock"]


def test_leaving_undoes_nothing_and_frees_the_thread(harness: WorkerHarness) -> None:
    did: list[str] = []
    left: list[bool] = []

    @harness.flow
    def f(flow: SyncFlow) -> None:
        try:
            with flow.saga() as saga:
                saga.undo(did.append, "undone")
                flow.receive("never")
        finally:
            left.append(True)

    ids = harness.enqueue(*(f.build() for _ in range(30)))
    harness.drain(queues={"default": 3})
    assert {harness.get(job_id).status for job_id in ids} == {"waiting"}
    assert did == []

    async def story() -> None:
        await harness.until(lambda: len(left) == 30)

    harness.run(story())


def test_more_of_them_than_threads_end(harness: WorkerHarness) -> None:
    def one(x: int) -> int:
        return x

    @harness.flow
    def f(flow: SyncFlow, n: int) -> int:
        return sum(flow.step(one, n) for _ in range(5))

    ids = harness.enqueue(*(f.build(n=n) for n in range(20)))
    harness.drain(queues={"default": 4})
    assert [harness.get(job_id).result for job_id in ids] == [5 * n for n in range(20)]


def test_it_runs_in_the_shortest_slices(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the flow's event loop may have to pause after each callback."""
    monkeypatch.setattr(flow_execution, "SLICE_S", 0.0)

    @harness.job
    def one() -> int:
        return 1

    @harness.flow
    def f(flow: SyncFlow, n: int) -> int:
        found = flow.step(int, n) + flow.call(one)
        flow.receive("go")
        return found

    ids = harness.enqueue(*(f.build(n) for n in range(3)))
    harness.drain()
    for job_id in ids:
        harness.signal(job_id, "go")
    harness.drain()
    assert [harness.get(job_id).result for job_id in ids] == [1, 2, 3]


def test_an_operation_in_another_thread_is_refused(harness: WorkerHarness) -> None:
    @harness.flow(max_attempts=1)
    def f(flow: SyncFlow) -> Any:
        seen: list[str] = []

        def other() -> None:
            try:
                flow.step(int)
            except Exception as error:
                seen.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return seen

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    (said,) = harness.get(job_id).result
    assert "in another thread" in said


@pytest.mark.parametrize("kills", [1, 2])
def test_what_is_recorded_does_not_run_again(harness: WorkerHarness, kills: int) -> None:
    ran: list[int] = []
    began = [False]

    async def slow(n: int) -> int:
        ran.append(n)
        began[0] = True
        await asyncio.sleep(0.02)
        return n

    @harness.flow
    def f(flow: SyncFlow) -> list[int]:
        return [flow.step(slow, n) for n in range(6)]

    (job_id,) = harness.enqueue(f.build())
    for _ in range(kills):
        began[0] = False
        harness.while_working(harness.worker(), lambda: harness.until(lambda: began[0]))
    harness.drain()
    assert harness.get(job_id).result == list(range(6))
    assert ran == list(range(6))
