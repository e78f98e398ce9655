"""Jobs that flows call: started now and awaited later, canceled, refused, failed; and what a flow tells other flows."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headway import Flow
from headway.define.signals import signal_to
from headway.errors import ChildFailed, LeaseLost, StepFailed
from tests.worker_harness import FaultyStore, WorkerHarness

ELSEWHERE = {"elsewhere": 5}


def test_a_child_is_started_now_and_awaited_later(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def child(x: int) -> int:
        return x * 2

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        started = asyncio.create_task(flow.call(child, x=4))
        return [await flow.receive("go"), await started]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain(queues=ELSEWHERE)
    harness.drain()
    assert (harness.get(job_id).status, harness.find(kind="child")[0].status) == ("waiting", "succeeded")
    harness.signal(job_id, "go", "went on")
    harness.drain()
    assert harness.get(job_id).result == ["went on", 8]


def test_a_child_that_is_never_awaited_ends_with_its_flow_and_an_enqueued_job_does_not(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def child(how: str) -> None: ...

    @harness.flow
    async def f(flow: Flow) -> None:
        started = asyncio.create_task(flow.call(child, how="called"))
        await flow.enqueue(child, how="enqueued")
        assert not started.done()

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "succeeded"
    assert {job.payload["how"]: job.status for job in harness.find(kind="child")} == {
        "called": "canceled",
        "enqueued": "queued",
    }


@pytest.mark.parametrize("started", [True, False])
def test_one_child_is_canceled_and_the_others_go_on(harness: WorkerHarness, started: bool) -> None:
    began: set[int] = set()

    @harness.flow(queue="elsewhere")
    async def child(flow: Flow, n: int) -> int:
        began.add(n)
        await flow.receive("go")
        return n

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        ended = await asyncio.gather(*(flow.call(child, n=n) for n in range(2)), return_exceptions=True)
        return [each.status if isinstance(each, ChildFailed) else each for each in ended]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    first, second = sorted(harness.find(kind="child"), key=lambda job: job.payload["n"])
    if started:
        harness.drain(queues=ELSEWHERE)
    harness.cancel(first.id)
    harness.drain(queues=ELSEWHERE)
    harness.signal(second.id, "go")
    harness.drain(queues=ELSEWHERE)
    harness.drain()
    assert harness.get(job_id).result == ["canceled", 1]
    assert began == ({0, 1} if started else {1})


def test_a_cancel_reaches_three_levels_and_each_undoes_what_it_did(harness: WorkerHarness) -> None:
    undone: list[int] = []

    @harness.flow
    async def level(flow: Flow, n: int) -> None:
        async with flow.saga() as saga:
            saga.undo(undone.append, n)
            if n == 3:
                await flow.receive("never")
            else:
                await flow.call(harness.registry["level"], n=n + 1)

    (job_id,) = harness.enqueue(level.build(n=1))
    harness.drain()
    assert [job.status for job in harness.find(kind="level")] == ["waiting"] * 3
    harness.cancel(job_id)
    harness.drain()
    assert [job.status for job in harness.find(kind="level")] == ["canceled"] * 3
    assert sorted(undone) == [1, 2, 3]


def test_the_error_of_a_child_s_child_arrives_the_same_in_every_replay(harness: WorkerHarness) -> None:
    seen: list[tuple[Any, ...]] = []

    @harness.job(max_attempts=1)
    def innermost() -> None:
        raise ValueError("no box left")

    @harness.flow(max_attempts=1)
    async def inner(flow: Flow) -> None:
        await flow.call(innermost)

    @harness.flow
    async def outer(flow: Flow) -> str:
        try:
            await flow.call(inner)
        except ChildFailed as failed:
            seen.append((failed.job_id, failed.kind, failed.status, failed.error, str(failed)))
            return str(await flow.receive("go"))
        return ""

    (job_id,) = harness.enqueue(outer.build())
    harness.drain()
    harness.signal(job_id, "go", "on")
    harness.drain()
    assert harness.get(job_id).result == "on"
    live, replayed = seen
    assert live == replayed
    assert live[1:3] == ("inner", "dead")
    assert "no box left" in live[3]


def test_a_child_that_is_refused_is_an_error_at_its_call(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere", on_conflict="raise")
    def child(n: int) -> None: ...

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        got: list[Any] = []
        for ask in (flow.call, flow.enqueue):
            try:
                await ask(child.using(unique_key="taken"), n=1)
            except StepFailed as failed:
                got.append([failed.place, failed.kind])
        await flow.receive("go")
        return got

    harness.enqueue(child.using(unique_key="taken").build(n=0))
    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).result == [["call:child", "Duplicate"], ["enqueue:child", "Duplicate"]]


def test_the_first_that_fails_stops_the_others_where_that_is_wanted(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    def fails() -> None:
        raise ValueError("first")

    @harness.job(queue="elsewhere")
    def waits() -> None: ...

    @harness.flow
    async def f(flow: Flow) -> str:
        try:
            await flow.calls([waits.build(), fails.build(), waits.build()], on_failure="stop")
        except ChildFailed as failed:
            await flow.receive("go")
            return failed.kind
        return ""

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert [job.status for job in harness.find(kind="waits")] == ["canceled"] * 2
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).result == "fails"


def test_two_calls_that_meet_one_job_both_get_its_end(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def child() -> str:
        return "once"

    @harness.flow
    async def f(flow: Flow) -> list[str]:
        keyed = child.using(unique_key="k")
        return await asyncio.gather(flow.call(keyed), flow.call(keyed))

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain(queues=ELSEWHERE)
    harness.drain()
    assert harness.get(job_id).result == ["once", "once"]
    assert len(harness.find(kind="child")) == 1


def test_a_window_of_children_is_never_overrun(harness: WorkerHarness) -> None:
    most = 0

    @harness.job(queue="elsewhere")
    def child(n: int) -> int:
        return n * n

    @harness.flow
    async def f(flow: Flow) -> list[int]:
        window = asyncio.Semaphore(4)

        async def one(n: int) -> int:
            async with window:
                return await flow.call(child, n=n)

        return await asyncio.gather(*(one(n) for n in range(11)))

    (job_id,) = harness.enqueue(f.build())
    rounds = 0
    while harness.get(job_id).status != "succeeded" and rounds < 20:
        harness.drain()
        most = max(most, sum(job.status == "queued" for job in harness.find(kind="child")))
        harness.drain(queues=ELSEWHERE)
        rounds += 1
    assert harness.get(job_id).result == [n * n for n in range(11)]
    assert (most, rounds, len(harness.find(kind="child"))) == (4, 4, 11)


def test_a_call_that_was_given_up_before_a_crash_is_canceled_after_it(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies between the row that made the function give it up and the child's cancel."""

    verbs: Any = type(harness.store.ops)
    leave, died = verbs.leave, []

    def dies_once(*args: Any, **options: Any) -> Any:
        if not died:
            died.append(args)
            raise LeaseLost("the test took it away")
        return leave(*args, **options)

    monkeypatch.setattr(verbs, "leave", dies_once)

    @harness.job(queue="elsewhere")
    def child() -> None: ...

    @harness.flow
    async def f(flow: Flow) -> None:
        started = asyncio.create_task(flow.call(child))
        await flow.receive("enough")
        started.cancel()
        await flow.receive("go")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "enough")
    harness.drain()
    assert (harness.get(job_id).status, len(died)) == ("waiting", 1)
    assert [job.status for job in harness.find(kind="child")] == ["canceled"]


def test_a_flow_signals_and_cancels_others_once(harness: WorkerHarness) -> None:
    """Though it is lost between what it did and its row, and again after the row."""
    undone: list[str] = []

    @harness.flow(queue="elsewhere")
    async def other(flow: Flow) -> list[Any]:
        async with flow.saga() as saga:
            saga.undo(undone.append, flow.job_id)
            return [await flow.receive("hello"), await flow.receive("hello"), await flow.receive("never")]
        return []

    @harness.flow
    async def f(flow: Flow, to: str) -> None:
        await flow.send(to, "hello", 1)
        await flow.send(to, "hello", 2)
        await flow.cancel(to)
        await flow.receive("go")

    store = FaultyStore(harness.store)
    records: list[object] = []

    def refuses(op: Any) -> Exception | None:
        if op.steps.__qualname__.startswith("RecordVerbs.record"):
            records.append(op)
            if len(records) % 2:
                return LeaseLost("the test took it away")
        return None

    store.refuses = refuses
    (to,) = harness.enqueue(other.build())
    harness.drain(queues=ELSEWHERE)
    (job_id,) = harness.enqueue(f.build(to=to))
    harness.while_working(harness.worker(store=store), lambda: harness.until_status(job_id, "waiting"))
    harness.signal(job_id, "go")
    harness.drain()
    harness.drain(queues=ELSEWHERE)
    assert (harness.get(job_id).status, len(records)) == ("succeeded", 6)
    assert [each.payload for each in harness.signals(to) if each.name == "hello"] == [1, 2]
    assert harness.get(to).status == "canceled"
    assert undone == [to]


def test_a_flow_that_there_is_not_is_an_error_at_once(harness: WorkerHarness) -> None:
    nobody = "01890000-0000-7000-8000-000000000000"

    @harness.flow
    async def f(flow: Flow) -> list[str]:
        got = []
        for act in (lambda: flow.send(nobody, "hello"), lambda: flow.cancel(nobody)):
            try:
                await act()
            except StepFailed as failed:
                got.append(failed.kind)
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == ["NotFound", "NotFound"]


def test_a_promise_is_resolved_once_and_read_by_many(harness: WorkerHarness) -> None:
    """Also by those that come later, and if it was resolved before anybody waited."""

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        paid = asyncio.create_task(flow.receive("paid"))
        got = await asyncio.gather(*(asyncio.shield(paid) for _ in range(3)))
        await flow.receive("go")
        return [*got, await paid]

    (job_id,) = harness.enqueue(f.build())
    for amount in (100, 200):
        signal = signal_to(job_id, "paid", amount, limit=1_000)
        harness.store.run(harness.store.ops.signal([msgspec.structs.replace(signal, dedup_key="paid")]))
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).result == [100] * 4
    assert [each.name for each in harness.signals(job_id)] == ["paid", "go"]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("met", [True, False])
def test_a_call_that_is_given_up_as_it_begins_is_left(harness: WorkerHarness, at_once: bool, met: bool) -> None:
    """Its own job is canceled; one that it met by its key goes on, and does not wake it."""

    @harness.job(queue="elsewhere")
    def child() -> None: ...

    @harness.flow
    async def f(flow: Flow) -> None:
        started = asyncio.create_task(flow.call(child.using(unique_key="k")))
        await flow.receive("enough")
        started.cancel()
        await flow.receive("go")

    if met:
        harness.enqueue(child.using(unique_key="k").build())
    (job_id,) = harness.enqueue(f.build())
    if not at_once:
        harness.drain()
    harness.signal(job_id, "enough")
    harness.drain()
    executions = len(harness.attempts(job_id))
    harness.drain(queues=ELSEWHERE)
    harness.drain()
    assert [job.status for job in harness.find(kind="child")] == ["succeeded" if met else "canceled"]
    assert (harness.get(job_id).status, len(harness.attempts(job_id))) == ("waiting", executions)
