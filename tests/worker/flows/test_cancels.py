"""Flows that are to end: what they undo, however often that is interrupted, and what counts if both come together."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from headway import Context, Flow
from headway.define import flow_step
from tests.worker_harness import FaultyStore, WorkerHarness

STEAL = "update {}jobs set status = 'queued', worker_id = null, attempt_started_at = null where kind = 'trip'"


@pytest.mark.parametrize("killed_after", range(1, 8))
def test_a_saga_that_is_killed_in_the_middle_undoes_each_once_in_reverse(
    harness: WorkerHarness, killed_after: int
) -> None:
    """Killed right after the n-th time that rows were committed: of the steps, of the failure, of the undos."""
    did: list[str] = []
    store = FaultyStore(harness.store)
    records: list[object] = []

    def dies(op: Any) -> bool:
        if op.steps.__qualname__.startswith("RecordVerbs.record"):
            records.append(op)
            if len(records) == killed_after:
                harness.sql(STEAL)
                return True
        return False

    store.loses_answer = dies

    def fail() -> None:
        raise ValueError("no room left")

    @harness.flow(max_attempts=1)
    async def trip(flow: Flow) -> None:
        async with flow.saga() as saga:
            for what in ("flight", "car", "hotel"):
                await flow.step(did.append, what)
                saga.undo(did.append, f"not {what}")
            await flow.step(fail)

    (job_id,) = harness.enqueue(trip.build())
    harness.while_working(harness.worker(store=store), lambda: harness.until_status(job_id, "failed"))
    assert did == ["flight", "car", "hotel", "not hotel", "not car", "not flight"]
    assert len(records) > killed_after


@pytest.mark.parametrize("killed_after", range(1, 6))
def test_a_canceled_saga_that_is_killed_undoes_each_once_in_reverse(harness: WorkerHarness, killed_after: int) -> None:
    """Killed right after the cancel was recorded, or an undo, or what a retry forgets."""
    did: list[str] = []
    store = FaultyStore(harness.store)
    records: list[object] = []

    def dies(op: Any) -> bool:
        if op.steps.__qualname__.startswith("RecordVerbs.record"):
            records.append(op)
            if len(records) == killed_after:
                harness.sql(STEAL)
                return True
        return False

    store.loses_answer = dies

    @harness.flow(max_attempts=1)
    async def trip(flow: Flow) -> None:
        async with flow.saga() as saga:
            for what in ("flight", "car", "hotel"):
                await flow.step(did.append, what)
                saga.undo(did.append, f"not {what}")
            await flow.receive("never")

    (job_id,) = harness.enqueue(trip.build())
    harness.drain()
    harness.cancel(job_id)
    harness.while_working(harness.worker(store=store), lambda: harness.until_status(job_id, "canceled"))
    assert did == ["flight", "car", "hotel", "not hotel", "not car", "not flight"]
    assert len(records) > killed_after


def test_an_undo_that_fails_parks_and_goes_on_where_it_was(still: WorkerHarness, clock: Any) -> None:
    did: list[str] = []

    @flow_step(max_attempts=3, backoff=("1m", "1m"))
    def release(ctx: Context, what: str) -> None:
        did.append(f"{what} {ctx.attempt}")
        if ctx.attempt < 3 and what == "car":
            raise ConnectionError

    @still.flow
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(release, "flight")
            saga.undo(release, "car")
            await flow.receive("never")

    (job_id,) = still.enqueue(f.build())
    still.drain()
    still.cancel(job_id)
    for _ in range(3):
        still.drain()
        clock.advance("70s")
    assert still.get(job_id).status == "canceled"
    assert did == ["car 1", "car 2", "car 3", "flight 1"]


def test_an_undo_with_a_policy_of_its_own_keeps_it(harness: WorkerHarness) -> None:
    tries: list[int] = []

    @flow_step(max_attempts=2, backoff=0.001)
    def release(ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise ConnectionError("for good")

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(release)
            raise KeyError

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert (harness.get(job_id).status, tries) == ("failed", [1, 2])


def test_a_canceled_flow_that_does_not_end_is_ended_after_its_grace(still: WorkerHarness, clock: Any) -> None:
    @still.flow(cancel_grace="10m")
    async def f(flow: Flow) -> None:
        while True:
            try:
                await flow.receive("never")
            except asyncio.CancelledError:
                await flow.sleep("9m")
                await flow.step(str)

    (job_id,) = still.enqueue(f.build())
    still.drain()
    still.cancel(job_id)
    still.drain()
    clock.advance("9m")
    still.drain()
    clock.advance("59s")
    still.drain()
    assert still.get(job_id).status == "waiting"
    clock.advance("2s")
    still.drain()
    assert still.get(job_id).status == "canceled"
    assert "cancel_grace was over" in (still.last(job_id).error or "")


def test_an_end_at_once_frees_what_it_held_and_runs_no_further_line(harness: WorkerHarness) -> None:
    began, lines = asyncio.Event(), []

    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    @harness.job(queue="elsewhere")
    def child() -> None: ...

    @harness.flow(name="f")
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(lines.append, "undone")
            asyncio.create_task(flow.call(child))  # noqa: RUF006
            try:
                await flow.step(endless)
            except asyncio.CancelledError:
                await flow.step(lines.append, "handled")

    keyed = f.using(unique_key="k", train="t")
    (job_id,) = harness.enqueue(keyed.build())

    async def story() -> None:
        await began.wait()
        await harness.until(lambda: len(harness.find(kind="child")) == 1)
        op = harness.store.ops.cancel([job_id], tenant_id=None, reason=None, actor=None, at_once=True)
        harness.store.run(op)
        await harness.until_status(job_id, "canceled")

    harness.while_working(harness.worker(), story)
    assert (lines, [job.status for job in harness.find(kind="child")]) == ([], ["canceled"])
    (again,) = harness.enqueue(keyed.build())
    assert (again != job_id, harness.get(again).status) == (True, "queued")


def test_a_cancel_that_it_has_not_seen_does_not_undo_its_end(harness: WorkerHarness) -> None:
    """It came after the last operation: what the flow did is done, and its result says so."""

    @harness.flow
    async def f(flow: Flow) -> str:
        await flow.step(str)
        harness.cancel(flow.job_id)
        return "done"

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.result) == ("succeeded", "done")


def test_a_plain_step_that_ends_although_it_is_canceled_is_not_waited_for(harness: WorkerHarness) -> None:
    """Nobody knows how it ended: what undoes it is named before it."""
    began, may_end = asyncio.Event(), threading.Event()
    did: list[Any] = []

    def reserve(ctx: Context) -> str:
        loop.call_soon_threadsafe(began.set)
        may_end.wait(30)
        did.append(("reserved", ctx.canceled))
        return "stock"

    def release(order: int) -> None:
        did.append(("released", order))
        may_end.set()

    @harness.flow
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(release, 4)
            await flow.step(reserve)

    (job_id,) = harness.enqueue(f.build())
    loop: Any = None

    async def story() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        await began.wait()
        harness.cancel(job_id)
        await harness.until_status(job_id, "canceled")
        await harness.until(lambda: len(did) == 2)

    harness.while_working(harness.worker(), story)
    assert did == [("released", 4), ("reserved", True)]
    assert [place for _, place in harness.journal(job_id)] == ["$cancel", "undo:release", ""]


def test_a_step_that_was_shielded_counts_as_it_ended(harness: WorkerHarness) -> None:
    """The cancel reaches who waits for it, not the step; a replay says the same."""
    began, may_end = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def charge() -> str:
        began.set()
        await may_end.wait()
        return "charged"

    @harness.flow
    async def f(flow: Flow) -> str:
        charging = asyncio.create_task(flow.step(charge))
        try:
            await asyncio.shield(charging)
        except asyncio.CancelledError:
            await flow.step(may_end.set)
            seen.append(await charging)
            await flow.receive("go")
        return seen[-1]

    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await began.wait()
        harness.cancel(job_id)
        await harness.until_status(job_id, "waiting")
        harness.signal(job_id, "go")
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(), story)
    assert harness.get(job_id).result == "charged"
    assert seen == ["charged", "charged"]


def test_a_flow_that_has_not_begun_in_time_is_canceled_and_one_that_has_is_asked(
    still: WorkerHarness, clock: Any
) -> None:
    undone: list[str] = []

    @still.flow
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(undone.append, flow.job_id)
            await flow.receive("never")

    in_time = f.using(expires_at=clock.now() + timedelta(hours=1))
    (begun,) = still.enqueue(in_time.build())
    still.drain()
    (late,) = still.enqueue(in_time.build())
    clock.advance("2h")

    still.drain()
    still.drain()
    assert [still.get(job_id).status for job_id in (begun, late)] == ["canceled", "canceled"]
    assert undone == [begun]


def test_a_flow_that_is_not_done_in_time_says_so(still: WorkerHarness, clock: Any) -> None:
    undone: list[str] = []

    @still.flow
    async def f(flow: Flow) -> None:
        try:
            async with asyncio.timeout(3_600), flow.saga() as saga:
                saga.undo(undone.append, "stock")
                await flow.receive("never")
        except TimeoutError:
            flow.fail("not done within an hour")

    (job_id,) = still.enqueue(f.build())
    still.drain()
    clock.advance("61m")
    still.drain()
    job = still.get(job_id)
    assert (job.status, job.error, undone) == ("failed", "not done within an hour", ["stock"])


def test_a_step_that_a_deploy_interrupts_runs_again_and_nothing_else_does(harness: WorkerHarness) -> None:
    began = asyncio.Event()
    ran: list[tuple[str, int]] = []

    async def long(ctx: Context) -> str:
        ran.append(("long", ctx.fence))
        if ctx.fence == 1:
            began.set()
            await asyncio.Event().wait()
        return "done"

    def short(ctx: Context) -> None:
        ran.append(("short", ctx.fence))

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> str:
        await flow.step(short)
        return await flow.step(long)

    (job_id,) = harness.enqueue(f.build())
    harness.while_working(harness.worker(settings={"grace_ms": 20}), began.wait)
    job = harness.get(job_id)
    assert (job.status, job.tries, job.losses) == ("queued", 0, 0)
    harness.drain()
    assert harness.get(job_id).result == "done"
    assert ran == [("short", 1), ("long", 1), ("long", 2)]
