"""why() of flows: what they wait for, that they are set aside, that they undo what they did, how they ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway import Flow, Headway
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.testing import drain

NOBODY = "no worker listens to queue orders: start one with headway worker module:app --queues orders"


def charge() -> str:
    return "ch_1"


def tax() -> str:
    return "taxed"


def declined() -> None:
    raise ValueError("declined")


class Ways:
    def __init__(self, app: Headway) -> None:
        self.second: Any = charge

        @app.job(queue="packing")
        def pack(order: int) -> None: ...

        @app.flow(queue="orders", max_attempts=1, version=3, since=2)
        async def checkout(flow: Flow, way: str) -> Any:
            match way:
                case "signal":
                    return await flow.receive(["payment", "refund"], timeout="3d")
                case "given up":
                    try:
                        async with asyncio.timeout(0.01):
                            await flow.receive("payment", timeout="3d")
                    except TimeoutError:
                        return await flow.receive("refund")
                case "timer":
                    async with asyncio.timeout(100):
                        await flow.step(charge)
                    async with asyncio.timeout(7_200):
                        return await flow.receive("refund")
                case "calls":
                    return await asyncio.gather(*(flow.call(pack, order=n) for n in range(2)), flow.sleep("1d"))
                case "code":
                    await flow.step(self.second)
                    return await flow.receive("go")
                case "again":
                    return await flow.using(max_attempts=3, backoff=60).step(declined)
                case "saga":
                    async with flow.saga() as saga:
                        saga.undo(self.second)
                        await flow.receive("go")
                case "undoing":
                    try:
                        await flow.receive("go")
                    except asyncio.CancelledError:
                        await flow.sleep("1m")
                        raise
                case "dead":
                    return await flow.step(declined)
                case "fail":
                    flow.fail("never paid")
            return None

        self.flow = checkout

    def waiting(self, app: Headway, way: str) -> str:
        job = self.flow.enqueue(way=way)
        drain(app, "orders")
        return job.id


@pytest.fixture
def ways(app: Headway) -> Ways:
    return Ways(app)


def test_waiting_for_one_of_some_signals(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "signal")
    waits, nobody = app.why(job_id).reasons
    until = app.journal(job_id)[-1].due_at
    assert until is not None
    assert waits.startswith("it waits for signals payment or refund since ")
    assert waits.endswith(
        f", until {until.isoformat(timespec='seconds')} (in 2d 23h): headway machines signal {job_id} payment"
    )
    assert nobody == NOBODY
    app.signal(job_id, "other")
    assert app.why(job_id).reasons[1] == (
        f"its inbox has signals that it does not wait for now (other): headway machines inbox {job_id}"
    )


def test_what_was_given_up_is_not_waited_for(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "given up")
    first, *_ = app.why(job_id).reasons
    assert first.startswith("it waits for signal refund since ")
    assert ", without a timeout: headway machines signal" in first
    assert "payment" not in " ".join(app.why(job_id).reasons)


def test_a_timer_that_wakes_it(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "timer")
    waits, timer, nobody = app.why(job_id).reasons
    assert waits.startswith("it waits for signal refund since ")
    assert timer.startswith("a timer of it is over at ")
    assert timer.endswith("(in 1h 59m)")
    assert nobody == NOBODY


def test_waiting_for_jobs_and_times(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "calls")
    one, two = app.children(job_id)
    calls, sleeps, nobody = app.why(job_id).reasons
    assert calls == (
        f"it waits for 2 jobs that it called: {one.id} (pack, queued), {two.id} (pack, queued): "
        f"headway jobs why {one.id}"
    )
    assert sleeps.startswith("it sleeps until ")
    assert nobody == NOBODY
    drain(app, "packing")
    if app.store.dialect == "sqlite":
        drain(app, "orders")
        assert app.why(job_id).reasons[0].startswith("it sleeps until ")


def test_a_step_that_is_tried_again(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "again")
    assert app.get(job_id).status == "waiting"
    first, *_ = app.why(job_id).reasons
    assert first.startswith("step declined is tried again at ")
    assert "), after 1 failed try: " in first
    assert first.endswith("ValueError: declined")


def test_changed_code(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "code")
    ways.second = tax
    app.signal(job_id, "go")
    drain(app, "orders")
    aside, out, nobody = app.why(job_id).reasons
    assert aside.startswith(
        "it is set aside: its code does not fit what it has recorded (recorded charge, asked for tax); nothing runs. "
        "It is looked at again at "
    )
    assert aside.endswith(f", at once by headway jobs retry {job_id}")
    assert out == (
        "two ways out: start a worker whose code fits (as it was, or with if flow.version), or headway flows accept "
        f"{job_id}, which forgets charge and what was recorded behind it: these operations run again"
    )
    assert nobody == NOBODY


def test_a_cancel_that_is_being_undone(app: Headway, ways: Ways) -> None:
    job_id = ways.waiting(app, "undoing")
    app.cancel(job_id)
    if app.get(job_id).status == "waiting":  # a claim wakes it
        assert app.why(job_id).reasons[0].startswith("it was asked to cancel at ")
    drain(app, "orders")
    canceled, sleeps, _ = app.why(job_id).reasons
    assert canceled.startswith("it was canceled at ")
    assert canceled.endswith(
        ", and may undo what it did: its cancel_grace counts from then (5 minutes unless its code says otherwise); "
        f"headway jobs cancel {job_id} --now ends it at once"
    )
    assert sleeps.startswith("it sleeps until ")


def test_ended(app: Headway, ways: Ways) -> None:
    dead, failed = ways.waiting(app, "dead"), ways.waiting(app, "fail")
    died, on, fork = app.why(dead).reasons
    assert died.startswith("dead since ")
    assert "step declined failed: ValueError: declined" in died
    assert on == f"to go on behind what it has recorded: headway jobs retry {dead}"
    assert fork == (
        f"to start another flow from an earlier operation: headway flows fork {dead} --before PLACE "
        f"(headway flows show {dead})"
    )
    said, again, _ = app.why(failed).reasons
    assert said.startswith("it ended failed at ")
    assert said.endswith(": never paid")
    assert again == f"to run it again: headway jobs retry {failed}"


def test_a_version_that_no_worker_runs(app: Headway, ways: Ways) -> None:
    job = ways.flow.enqueue(way="signal")

    def on_queue(*kinds: str) -> None:
        worker = NewWorker(
            id=new_id(), hostname="elsewhere", pid=7, machine=None, process_started=None, version="1",
            queues={"orders": 5}, kinds=kinds, concurrency=5, lease_ms=600_000,
        )  # fmt: skip
        app.store.run(app.store.ops.register(worker))

    on_queue("checkout", "checkout@1", "checkout@2")
    assert app.why(job.id).reasons[0] == (
        "no worker on queue orders runs version 3 of flow checkout (known there: 1, 2): start one whose code has it, "
        "or give a newer version since="
    )
    on_queue("checkout", "checkout@2", "checkout@5")
    assert not any("version" in reason for reason in app.why(job.id).reasons)
