"""Flows that leave their worker at every wait and come back: in order, once, at once when a worker stops, and many."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway import Context, Flow, Headway
from headway.testing import drain, held
from headway.worker import flow_execution
from tests.worker_harness import WorkerHarness


def test_branches_that_are_parked_again_and_again_get_what_is_theirs(still: WorkerHarness, clock: Any) -> None:
    ran: list[str] = []

    def note(what: str) -> str:
        ran.append(what)
        return what

    @still.job
    def child(what: str) -> str:
        ran.append(what)
        return what

    @still.flow
    async def f(flow: Flow) -> list[list[Any]]:
        async def branch(name: str, hours: int) -> list[Any]:
            got: list[Any] = []
            for lap in range(3):
                got.append(await flow.receive(name))
                await flow.sleep(timedelta(hours=hours))
                got.append(await flow.step(note, f"step {name} {lap}"))
                got.append(await flow.call(child, what=f"child {name} {lap}"))
            return got

        return await asyncio.gather(branch("a", 2), branch("b", 3))

    (job_id,) = still.enqueue(f.build())
    for lap in range(3):
        for name in "ba":
            still.signal(job_id, name, f"signal {name} {lap}")
    for _ in range(14):
        still.drain()
        clock.advance("61m")
    assert still.get(job_id).result == [
        [f"{what} {name} {lap}" for lap in range(3) for what in ("signal", "step", "child")] for name in "ab"
    ]
    assert sorted(ran) == sorted(
        f"{what} {name} {lap}" for what in ("step", "child") for name in "ab" for lap in range(3)
    )
    assert len(still.attempts(job_id)) > 6


def test_children_that_park_all_come_back_to_their_parent(harness: WorkerHarness) -> None:
    @harness.flow
    async def child(flow: Flow, n: int) -> int:
        return n + await flow.receive("add")

    @harness.flow
    async def f(flow: Flow) -> list[int]:
        return await asyncio.gather(*(flow.call(child, n=n) for n in range(20)))

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    children = harness.find(kind="child")
    assert [job.status for job in children] == ["waiting"] * 20
    for job in children[::-1]:
        harness.signal(job.id, "add", 100)
    harness.drain()
    assert harness.get(job_id).result == [100 + n for n in range(20)]


def test_what_wakes_it_twice_runs_it_once(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        return [await flow.receive("a"), await flow.receive("b")]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "b", 2)  # it does not wait for this one yet
    assert harness.get(job_id).status == "waiting"
    harness.signal(job_id, "a", 1)
    harness.signal(job_id, "a", 3)
    harness.drain(queues={"default": 5})
    assert harness.get(job_id).result == [1, 2]
    assert harness.outcomes(job_id) == [("$flow", "park"), ("$flow", "done")]


def test_a_stop_parks_at_once_what_only_waits(
    still: WorkerHarness, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that is too short to leave the worker takes nothing of its grace."""
    monkeypatch.setattr(flow_execution, "IN_MEMORY_S", 600.0)

    @still.flow
    async def f(flow: Flow) -> str:
        await flow.step(str)
        await flow.sleep("9m")
        return "woke"

    (job_id,) = still.enqueue(f.build())

    async def asleep() -> None:
        await still.until(lambda: ("done", "str") in still.journal(job_id))

    still.while_working(still.worker(settings={"grace_ms": 500_000}), asleep)
    assert still.get(job_id).status in ("waiting", "queued")  # queued: it was stopped before it slept
    monkeypatch.undo()
    still.drain()
    assert still.get(job_id).status == "waiting"
    clock.advance("10m")
    still.drain()
    assert still.get(job_id).result == "woke"


@pytest.mark.parametrize("stops", [False, True])
def test_what_replayed_code_logs_is_not_logged_again(harness: WorkerHarness, lines: Any, stops: bool) -> None:
    """A stop of the worker after a wake-up neither: the line that it had not reached is logged, once."""
    began = asyncio.Event()

    async def work() -> None:
        if stops and not began.is_set():
            began.set()
            await asyncio.Event().wait()

    @harness.flow
    async def f(flow: Flow) -> None:
        for lap in range(3):
            flow.log(f"lap {lap}")
            flow.progress(lap / 3, f"lap {lap}")
            await flow.receive("go")
        await flow.step(work)
        flow.log("the end")

    (job_id,) = harness.enqueue(f.build())
    for lap in range(3):
        harness.drain()
        assert harness.get(job_id).progress_note == f"lap {lap}"
        harness.signal(job_id, "go")
    if stops:
        harness.while_working(harness.worker(settings={"grace_ms": 20}), began.wait)
    harness.drain()
    assert harness.get(job_id).status == "succeeded"
    logged = [
        each.getMessage().partition("  ")[0]
        for each in (*lines("lap"), *lines("the end"))
        if each.name == "headway.job"
    ]
    assert logged == ["lap 0", "lap 1", "lap 2", "the end"]


def test_a_flow_that_computes_is_named_and_others_go_on(harness: WorkerHarness, lines: Any) -> None:
    @harness.flow
    async def busy(flow: Flow) -> None:
        time.sleep(0.11)  # instead of a computation
        await flow.step(str)

    @harness.flow
    async def brisk(flow: Flow) -> None:
        await flow.step(str)

    (busy_id, *ids) = harness.enqueue(busy.build(), *(brisk.build() for _ in range(5)))
    harness.drain()
    assert {harness.get(job_id).status for job_id in (busy_id, *ids)} == {"succeeded"}
    (said,) = lines("held up its worker")
    assert busy_id in str(vars(said))


def test_signals_times_and_a_cancel_in_one_wait(still: WorkerHarness, clock: Any) -> None:
    """A loop over whatever comes next, as others write it with select."""

    @still.flow
    async def f(flow: Flow) -> list[Any]:
        log: list[Any] = []
        ticks = asyncio.create_task(flow.sleep("1h"))
        orders = asyncio.create_task(flow.receive(["order", "close"]))
        while True:
            try:
                done, _ = await asyncio.wait({ticks, orders}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                log.append("canceled")
                break
            if ticks in done:
                log.append("tick")
                ticks = asyncio.create_task(flow.sleep("1h"))
            if orders in done:
                name, payload = await orders
                log.append(payload)
                if name == "close":
                    break
                orders = asyncio.create_task(flow.receive(["order", "close"]))
        return [*log, await flow.step(str, "closed")]

    told, canceled = still.enqueue(f.build(), f.build())
    for job_id in (told, canceled):
        still.drain()
        still.signal(job_id, "order", "tea")
        still.signal(job_id, "order", "salt")
    still.drain()
    clock.advance("61m")
    still.drain()
    still.signal(told, "order", "rice")
    still.signal(told, "close", "bye")
    still.cancel(canceled)
    still.drain()
    assert still.get(told).result == ["tea", "salt", "tick", "rice", "bye", "closed"]
    assert still.get(canceled).result == ["tea", "salt", "tick", "canceled", "closed"]


@pytest.mark.parametrize("answers_after", [1, 3, None])
def test_an_approval_is_asked_for_again_and_then_given_up(
    still: WorkerHarness, clock: Any, answers_after: int | None
) -> None:
    mails: list[str] = []

    @still.flow
    async def approval(flow: Flow) -> str:
        for reminder in range(3):
            await flow.step(mails.append, f"mail {reminder}")
            answer = await flow.receive("answer", timeout="2d")
            if answer is not None:
                flow.set(by=answer["by"])
                return "approved" if answer["yes"] else "refused"
        await flow.step(mails.append, "escalated")
        return "given up"

    (job_id,) = still.enqueue(approval.build())
    for day in (1, 3, 5, 7):
        still.drain()
        if day == answers_after:
            still.signal(job_id, "answer", {"yes": day == 1, "by": "ada"})
            break
        clock.advance("49h")
    still.drain()
    expected = {1: ("approved", 1), 3: ("refused", 2), None: ("given up", 4)}
    assert (still.get(job_id).result, len(mails)) == expected[answers_after]
    assert still.get(job_id).state == (None if answers_after is None else {"by": "ada"})


def test_a_job_elsewhere_is_polled_ever_more_rarely(still: WorkerHarness, clock: Any) -> None:
    polls: list[int] = []

    def poll(ctx: Context) -> str:
        polls.append(round((clock.now() - began) / timedelta(minutes=1)))
        return "done" if len(polls) == 6 else "running"

    @still.flow
    async def f(flow: Flow) -> int:
        delay = timedelta(minutes=1)
        while await flow.step(poll) != "done":
            await flow.sleep(delay)
            delay = min(delay * 2, timedelta(minutes=10))
        return len(polls)

    began = clock.now()
    (job_id,) = still.enqueue(f.build())
    while len(polls) < 6:
        still.drain()
        due = still.get(job_id).deadline_at or clock.now()
        clock.advance(due - clock.now() + timedelta(seconds=1))
    assert still.get(job_id).result == 6
    assert polls == [0, 1, 3, 7, 15, 25]


def test_a_schedule_of_flows_starts_one_each_time(app: Headway) -> None:
    @app.schedule(every="1h", overlap="allow")
    @app.flow
    async def report(flow: Flow) -> str:
        await flow.sleep("90m")
        return flow.now().isoformat()

    with held(app, datetime(2026, 5, 17, 12, tzinfo=UTC)) as clock:
        drain(app)
        for _ in range(6):
            clock.advance("61m")
            drain(app)
        statuses = sorted(job.status for job in app.jobs())
    assert statuses.count("succeeded") == 4
    assert statuses.count("waiting") == len(statuses) - 4 == 2


def test_flows_that_sleep_together_wake_within_a_second(
    still: WorkerHarness, clock: Any, request: pytest.FixtureRequest
) -> None:
    many = 10_000 if request.config.option.full else 100

    @still.flow
    async def f(flow: Flow, n: int) -> int:
        await flow.sleep("1h")
        return n

    ids = still.enqueue(*(f.build(n=n) for n in range(many)))
    still.drain(queues={"default": 100})
    assert still.store.run(still.store.ops.counts(tenant_id=None)) == {"waiting": many}
    clock.advance("61m")
    still.drain(queues={"default": 100})
    assert [still.get(job_id).result for job_id in ids[:: many // 100]] == list(range(0, many, many // 100))
    assert still.store.run(still.store.ops.counts(tenant_id=None)) == {"succeeded": many}
