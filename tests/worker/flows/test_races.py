"""Tasks of a flow that run together: who ends first is kept, and the same in every replay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headway import Flow
from headway.errors import FlowMisused, StepFailed
from tests.worker_harness import WorkerHarness


class Turns:
    """Lets steps end in an order that the test says, whatever order they began in."""

    def __init__(self, *order: str) -> None:
        self._order = list(order)
        self._changed = asyncio.Condition()

    async def __call__(self, name: str) -> str:
        async with self._changed:
            await self._changed.wait_for(lambda: self._order[0] == name)
            self._order.pop(0)
            self._changed.notify_all()
        return name.upper()


@pytest.mark.parametrize("order", ["bca", "cab", "abc"])
def test_gathered_steps_give_their_results_in_the_order_of_the_call(harness: WorkerHarness, order: str) -> None:
    ends = Turns(*order)

    @harness.flow
    async def f(flow: Flow) -> list[str]:
        got = await asyncio.gather(*(flow.using(name=name).step(ends.__call__, name) for name in "abc"))
        await flow.receive("go")
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).result == ["A", "B", "C"]
    assert {place for _, place in harness.journal(job_id)[:3]} == set("abc")


def test_who_won_is_kept_and_the_loser_may_be_awaited_later(harness: WorkerHarness) -> None:
    ends = Turns("quick", "slow")
    seen: list[list[str]] = []

    @harness.flow
    async def f(flow: Flow) -> list[str]:
        tasks = [asyncio.create_task(flow.step(ends.__call__, name)) for name in ("slow", "quick")]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        got = [await task for task in done] + [await task for task in rest]
        seen.append(got)
        await flow.receive("go")
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).result == ["QUICK", "SLOW"]
    assert seen == [["QUICK", "SLOW"]] * 2


def test_a_wait_for_the_first_error_ends_there_in_every_replay(harness: WorkerHarness) -> None:
    ends = Turns("a", "b", "c")
    seen: list[Any] = []

    async def end(name: str) -> str:
        got = await ends(name)
        if name == "b":
            raise ValueError(name)
        return got

    @harness.flow
    async def f(flow: Flow) -> None:
        tasks = [asyncio.create_task(flow.using(name=name, max_attempts=1).step(end, name)) for name in "cba"]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        seen.append(
            [sorted(task in done for task in tasks), tasks[1] in done, isinstance(tasks[1].exception(), StepFailed)]
        )
        await asyncio.wait(tasks)
        await flow.receive("go")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).status == "succeeded"
    assert seen == [[[False, True, True], True, True]] * 2


def test_wake_ups_that_come_together_are_seen_in_one_order(still: WorkerHarness, clock: Any) -> None:
    """Two signals, a timer and a child's end, all while it is parked."""
    seen: list[list[str]] = []

    @still.job(queue="elsewhere")
    def child() -> str:
        return "child"

    @still.flow
    async def f(flow: Flow) -> list[str]:
        order: list[str] = []
        seen.append(order)

        async def note(name: str, wait: Any) -> None:
            await wait
            order.append(name)
            await flow.using(name=f"after-{name}").step(str, name)

        async with asyncio.TaskGroup() as group:
            for name, wait in (
                ("sleep", flow.sleep("1h")),
                ("b", flow.receive("b")),
                ("call", flow.call(child)),
                ("a", flow.receive("a")),
            ):
                group.create_task(note(name, wait))
        await flow.receive("go")
        return order

    (job_id,) = still.enqueue(f.build())
    still.drain()
    still.drain(queues={"elsewhere": 1})
    clock.advance("61m")
    still.signal(job_id, "a")
    still.signal(job_id, "b")
    still.drain()
    still.signal(job_id, "go")
    still.drain()
    assert sorted(still.get(job_id).result) == ["a", "b", "call", "sleep"]
    assert seen[-2:] == [seen[-1]] * 2


@pytest.mark.parametrize("rival", ["signal", "timer", "cancel"])
def test_a_signal_that_loses_a_race_is_received_later(still: WorkerHarness, clock: Any, rival: str) -> None:
    """Both are there when the function is to be told: what it gives up then must not be consumed."""

    @still.flow
    async def f(flow: Flow) -> list[Any]:
        rivals: dict[str, Callable[[], Any]] = {
            "signal": lambda: flow.receive("rival"),
            "timer": lambda: flow.sleep("1h"),
            "cancel": lambda: flow.receive("never"),
        }
        tasks = {
            "paid": asyncio.create_task(flow.receive("paid")),
            rival: asyncio.create_task(rivals[rival]()),
        }
        try:
            done, _ = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            done = set()
        for task in tasks.values():
            task.cancel()
        won = [name for name, task in tasks.items() if task in done]
        return [won, await flow.receive("paid")]

    (job_id,) = still.enqueue(f.build())
    still.drain()
    clock.advance("2h")
    if rival == "signal":
        still.signal(job_id, "rival", "here, too")
    if rival == "cancel":
        still.cancel(job_id)
    still.signal(job_id, "paid", 100)
    still.drain()
    assert still.get(job_id).result == [[] if rival == "cancel" else [rival], 100]
    assert [signal.status for signal in still.signals(job_id) if signal.name == "paid"] == ["consumed"]


def test_of_two_signals_that_race_the_earlier_one_wins_and_the_other_stays(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        tasks = [asyncio.create_task(flow.receive(name)) for name in ("a", "b")]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return [len(done), *(task.result() for task in done), await flow.receive(["a", "b"])]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "b", 1)
    harness.signal(job_id, "a", 2)
    harness.drain()
    assert harness.get(job_id).status == "succeeded"
    assert harness.get(job_id).result == [1, 1, ["a", 2]]


def test_a_branch_that_is_given_up_leaves_nothing_behind(harness: WorkerHarness) -> None:
    began = asyncio.Event()
    ended: list[str] = []

    @harness.job(queue="elsewhere")
    def child() -> None: ...

    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("step")

    @harness.flow
    async def f(flow: Flow) -> str:
        waiting = [flow.sleep("30d"), flow.step(endless), flow.call(child), flow.receive("never")]
        tasks = [asyncio.create_task(each) for each in waiting]
        await flow.receive("go")
        unsent = [asyncio.create_task(each) for each in (flow.enqueue(child), flow.step(endless), flow.call(child))]
        for task in [*tasks, *unsent]:
            task.cancel()
        await flow.receive("end")
        return "end"

    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await began.wait()
        await harness.until(lambda: len(harness.find(kind="child")) == 1)
        harness.signal(job_id, "go")
        await harness.until_status(job_id, "waiting")

    harness.while_working(harness.worker(), story)
    job = harness.get(job_id)
    assert (job.deadline_at, ended) == (None, ["step"])
    assert [each.status for each in harness.find(kind="child")] == ["canceled"]
    assert [place for kind, place in harness.journal(job_id) if kind not in ("due", "called")] == ["receive:go"]
    harness.signal(job_id, "never")
    harness.signal(job_id, "end")
    harness.drain()
    assert harness.get(job_id).result == "end"
    assert [signal.status for signal in harness.signals(job_id) if signal.name == "never"] == ["undelivered"]


@pytest.mark.parametrize("winner", ["step", "sleep", "receive", "call"])
def test_the_first_of_all_kinds_of_waits_is_enough(harness: WorkerHarness, winner: str) -> None:
    @harness.job
    def child() -> str:
        return "call"

    @harness.job(queue="elsewhere")
    def nobody() -> None: ...

    async def endless() -> None:
        await asyncio.Event().wait()

    @harness.flow
    async def f(flow: Flow) -> str:
        wins = {
            "step": lambda: flow.step(str, "step"),
            "sleep": lambda: flow.sleep(0.01),
            "receive": lambda: flow.receive("here"),
            "call": lambda: flow.call(child),
        }
        loses = {
            "step": lambda: flow.step(endless),
            "sleep": lambda: flow.sleep("30d"),
            "receive": lambda: flow.receive("never"),
            "call": lambda: flow.call(nobody),
        }
        tasks = {asyncio.create_task((wins if name == winner else loses)[name]()): name for name in wins}
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return ", ".join(tasks[task] for task in done)

    (job_id,) = harness.enqueue(f.build())
    harness.signal(job_id, "here")
    harness.drain()
    assert harness.get(job_id).result == winner
    assert {job.status for job in harness.find(kind="nobody")} <= {"canceled"}


def test_no_thread_gets_between_the_operations_of_a_flow(harness: WorkerHarness) -> None:
    """Which thread comes first differs in every run."""

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> list[str]:
        loop, said = asyncio.get_running_loop(), []

        def elsewhere() -> None:
            try:
                loop.call_soon_threadsafe(int)
            except FlowMisused as misused:
                said.append(str(misused))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        try:
            await asyncio.to_thread(int)
        except FlowMisused as misused:
            said.append(str(misused))
        return said

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    said = harness.get(job_id).result
    assert len(said) == 2
    assert all("into a step" in each for each in said)
