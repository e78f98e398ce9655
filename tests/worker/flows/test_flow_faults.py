"""Flows while the database is away, slow or busy: nothing is charged, nothing runs twice that was recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headway import Flow, SyncFlow
from headway.errors import StepFailed
from headway.worker import Summary
from tests.worker_harness import FaultyStore, WorkerHarness


def _steps(harness: WorkerHarness, ran: list[int], wait: asyncio.Event) -> Any:
    async def one(n: int) -> int:
        ran.append(n)
        if n == 2:
            wait.set()
            await asyncio.sleep(0.05)
        return n

    @harness.job
    def child(n: int) -> int:
        return n

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> list[int]:
        got = [await flow.step(one, n) for n in range(5)]
        flow.set(stage="called")
        return [*got, await flow.call(child, n=9)]

    return f


def test_an_outage_charges_nothing(harness: WorkerHarness) -> None:
    ran: list[int] = []
    store = FaultyStore(harness.store)
    away = asyncio.Event()
    f = _steps(harness, ran, away)
    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await away.wait()
        store.away = True
        await asyncio.sleep(0.3)
        store.away = False
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(store=store), story)
    job = harness.get(job_id)
    assert (job.result, job.tries, job.losses) == ([0, 1, 2, 3, 4, 9], 0, 0)
    assert ran == [0, 1, 2, 3, 4]


def test_a_lost_answer_to_a_record_changes_nothing(harness: WorkerHarness) -> None:
    ran: list[int] = []
    store = FaultyStore(harness.store)
    lost: list[object] = []

    def loses(op: Any) -> bool:
        if op.steps.__qualname__.startswith("RecordVerbs.record") and len(lost) < 3:
            lost.append(op)
            return True
        return False

    store.loses_answer = loses
    f = _steps(harness, ran, asyncio.Event())
    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(store=store), story)
    assert harness.get(job_id).result == [0, 1, 2, 3, 4, 9]
    assert (len(lost), ran) == (3, [0, 1, 2, 3, 4])
    assert len(harness.find(kind="child")) == 1


def test_a_locked_row_holds_up_no_other_flow(harness: WorkerHarness) -> None:
    if harness.store.dialect == "sqlite":
        return  # writers take turns there: nobody holds a row
    ran: list[int] = []
    f = _steps(harness, ran, asyncio.Event())
    began = asyncio.Event()

    async def begin() -> None:
        began.set()
        await asyncio.sleep(0.05)

    @harness.flow(max_attempts=1)
    async def locked(flow: Flow) -> str:
        await flow.step(begin)
        return "went on"

    (first,) = harness.enqueue(locked.build())

    async def story() -> str:
        await began.wait()
        async with await psycopg.AsyncConnection.connect(harness.store.url) as conn:
            await conn.execute("select from headway.jobs where id = %s for update", (first,))
            (second,) = harness.enqueue(f.build())
            await harness.until_status(second, "succeeded")
            assert harness.get(first).status == "running"
            await conn.rollback()
        await harness.until_status(first, "succeeded")
        return second

    harness.while_working(harness.worker(), story)
    assert harness.get(first).result == "went on"


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, asyncio.CancelledError, Odd]
)
def test_whatever_a_step_or_a_flow_raises_is_a_failure_and_the_worker_survives(
    harness: WorkerHarness, kind: type[BaseException]
) -> None:
    def plain() -> None:
        raise kind(3)  # a new one each time: its traceback is its own

    async def on_loop() -> None:
        raise kind(3)

    @harness.flow(max_attempts=1)
    async def f(flow: Flow, how: str) -> None:
        match how:
            case "plain":
                await flow.step(plain)
            case "on the loop":
                await flow.step(on_loop)
            case "task":
                await asyncio.create_task(on_loop())
            case "itself":
                await on_loop()

    @harness.flow(max_attempts=1)
    def g(flow: SyncFlow, how: str) -> None:
        flow.step(plain) if how == "plain" else plain()

    @harness.job
    async def fine() -> None: ...

    jobs = [f.build(how=how) for how in ("plain", "on the loop", "task", "itself")]
    jobs += [g.build(how=how) for how in ("plain", "itself")]
    ids = harness.enqueue(*jobs, *(fine.build() for _ in range(5)))
    assert harness.drain() == Summary(succeeded=5, dead=6)
    assert [harness.get(job_id).status for job_id in ids[:6]] == ["dead"] * 6
    # a failure of a step is the step's
    assert [row for row in harness.journal(ids[0]) if row[0] == "failed"] == [("failed", "plain")]


def test_a_predicate_that_raises_fails_its_step(harness: WorkerHarness) -> None:
    def refuse() -> None:
        raise ValueError("no")

    def unsure(error: BaseException) -> bool:
        raise LookupError(f"what is {error}?")

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        try:
            await flow.using(retry_if=unsure).step(refuse)
        except StepFailed as failed:
            return [failed.kind, failed.reason, failed.tries]
        return []

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == ["LookupError", "what is no?", 1]
