"""How flows end before their end: canceled, with what a saga has to undo; changed code; versions; workers that stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway import Context, Flow
from headway.errors import InvalidJob
from tests.worker_harness import WorkerHarness


def test_a_cancel_before_it_began_is_a_cancel(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> None: ...

    (job_id,) = harness.enqueue(f.build())
    harness.cancel(job_id)
    assert harness.get(job_id).status == "canceled"


def test_a_canceled_flow_undoes_what_it_did_last_first(harness: WorkerHarness) -> None:
    did: list[str] = []

    def do(what: str) -> None:
        did.append(what)

    def undo(what: str) -> None:
        did.append(f"not {what}")

    @harness.flow
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            for what in ("stock", "money"):
                await flow.step(do, what)
                saga.undo(undo, what)
            await flow.receive("never")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    harness.cancel(job_id)
    harness.drain()
    assert harness.get(job_id).status == "canceled"
    assert did == ["stock", "money", "not money", "not stock"]


def test_a_second_cancel_ends_it_at_once(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> None:
        async with flow.saga() as saga:
            saga.undo(int)
            await flow.receive("never")

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.cancel(job_id)
    harness.cancel(job_id)
    assert harness.get(job_id).status == "canceled"


def test_a_cancel_that_is_caught_is_not_raised_again(harness: WorkerHarness) -> None:
    @harness.flow
    async def f(flow: Flow) -> Any:
        try:
            await flow.receive("never")
        except asyncio.CancelledError:
            return [await flow.step(str, "tidied"), await flow.receive("late", timeout=0.01)]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.cancel(job_id)
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.result) == ("succeeded", ["tidied", None])


def test_a_running_step_is_canceled_with_its_flow(harness: WorkerHarness) -> None:
    ended: list[str] = []

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("canceled")
            raise

    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.step(long)

    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await harness.until_status(job_id, "running")
        await asyncio.sleep(0.05)
        harness.cancel(job_id)
        await harness.until_status(job_id, "canceled")

    harness.while_working(harness.worker(), story)
    assert ended == ["canceled"]


def test_a_failed_saga_ends_failed_and_a_retry_begins_anew(harness: WorkerHarness) -> None:
    did: list[str] = []
    broken = [True]

    def do() -> None:
        did.append("do")

    def undo() -> None:
        did.append("undo")

    def fail() -> None:
        if broken[0]:
            raise ValueError("no")

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> str:
        async with flow.saga() as saga:
            await flow.step(do)
            saga.undo(undo)
            await flow.step(fail)
        return "done"

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).status == "failed"
    broken[0] = False
    harness.retry(job_id)
    harness.drain()
    assert harness.get(job_id).result == "done"
    assert did == ["do", "undo", "do"]


def test_children_end_with_their_flow(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def slow() -> None: ...

    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.call(slow)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.cancel(job_id)
    harness.drain()
    harness.drain()
    assert harness.get(job_id).status == "canceled"
    (child,) = harness.find(kind="slow")
    assert child.status == "canceled"


def test_a_call_that_is_given_up_cancels_the_job(harness: WorkerHarness) -> None:
    @harness.job(queue="elsewhere")
    def slow() -> None: ...

    @harness.flow
    async def f(flow: Flow) -> str:
        try:
            async with asyncio.timeout(0.02):
                await flow.call(slow)
        except TimeoutError:
            pass
        await flow.receive("go")
        return "on"

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    (child,) = harness.find(kind="slow")
    assert child.status == "canceled"


def test_changed_code_sets_a_flow_aside_until_it_fits_again(harness: WorkerHarness, lines: Any) -> None:
    code = ["charge"]

    def charge() -> str:
        return "charged"

    def tax() -> str:
        return "taxed"

    @harness.flow
    async def f(flow: Flow) -> str:
        got = await flow.step({"charge": charge, "tax": tax}[code[0]])
        await flow.receive("go")
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    code[0] = "tax"
    harness.signal(job_id, "go")
    harness.drain()
    job = harness.get(job_id)
    assert job.status == "scheduled"
    assert "recorded charge, asked for tax" in (harness.last(job_id).error or "")
    assert lines("is set aside")
    code[0] = "charge"
    harness.make_due(job_id)
    harness.drain()
    assert harness.get(job_id).result == "charged"


def test_runs_of_older_versions_are_run_by_who_may(harness: WorkerHarness) -> None:
    @harness.flow(name="f", version=1)
    async def old(flow: Flow) -> list[Any]:
        return ["old", flow.version, await flow.receive("go")]

    (first,) = harness.enqueue(old.build())
    harness.drain()

    @harness.flow(name="f", version=3, since=2)
    async def new(flow: Flow) -> list[Any]:
        return ["new", flow.version, await flow.receive("go")]

    (second,) = harness.enqueue(harness.registry["f"].build())
    harness.drain()
    for job_id in (first, second):
        harness.signal(job_id, "go", 1)
    harness.drain()
    assert harness.get(first).result == ["old", 1, 1]
    assert harness.get(second).result == ["new", 3, 1]
    with pytest.raises(InvalidJob, match="two functions for one version"):

        @harness.flow(name="f", version=4, since=3)
        async def newer(flow: Flow) -> None: ...


def test_a_worker_that_stops_parks_what_waits_and_keeps_what_is_done(harness: WorkerHarness) -> None:
    began = asyncio.Event()
    ran: list[str] = []

    async def short() -> str:
        ran.append("short")
        began.set()
        await asyncio.sleep(0.1)
        return "short"

    async def after() -> str:
        ran.append("after")
        return "after"

    @harness.flow
    async def f(flow: Flow) -> list[str]:
        return [await flow.step(short), await flow.step(after)]

    (job_id,) = harness.enqueue(f.build())
    harness.while_working(harness.worker(), began.wait)
    job = harness.get(job_id)
    assert job.status == "queued"
    assert ran == ["short"]
    harness.drain()
    assert harness.get(job_id).result == ["short", "after"]
    assert ran == ["short", "after"]


def test_a_step_that_may_run_once_is_lost_with_its_worker(harness: WorkerHarness) -> None:
    ran: list[int] = []

    async def ship(ctx: Context) -> str:
        ran.append(ctx.fence)
        if ctx.fence == 1:
            harness.sql("update {}jobs set status = 'queued', worker_id = null, attempt_started_at = null")
        return "shipped"

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> str:
        return await flow.using(delivery="at_most_once").step(ship)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, ran) == ("dead", [1])
    assert "whether it happened is not known" in (job.error or "")
    # an operator who has looked says so
    harness.retry(job_id)
    harness.drain()
    assert (harness.get(job_id).result, len(ran)) == ("shipped", 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delivery": "at_most_once"}, "cannot run at most once"),
        ({"batch": 3}, "takes no batch"),
        ({"version": 1, "since": 2}, "since=2 is after version=1"),
    ],
)
def test_what_a_flow_cannot_be_is_refused(harness: WorkerHarness, options: Any, says: str) -> None:
    async def f(flow: Flow) -> None: ...

    with pytest.raises(InvalidJob, match=says):
        harness.flow(**options)(f)


def test_bad_use_gets_a_line_that_says_what_to_do(harness: WorkerHarness) -> None:
    async def inside(flow: Flow) -> None:
        await flow.step(int)

    @harness.flow(max_attempts=1)
    async def socket(flow: Flow) -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    @harness.flow(max_attempts=1)
    async def nested(flow: Flow) -> None:
        await flow.step(inside, flow)

    @harness.flow(max_attempts=1)
    async def unstorable(flow: Flow) -> None:
        await flow.step(object)

    @harness.flow(max_attempts=1)
    async def for_ever(flow: Flow) -> None:
        await asyncio.get_running_loop().create_future()

    @harness.flow(max_attempts=1)
    async def stranger(flow: Flow) -> None:
        await flow.call(unstorable.using(tenant="other"))

    @harness.flow(max_attempts=1)
    async def unnamed(flow: Flow) -> None:
        await flow.step(lambda: 1)

    says = {
        socket: "put that into a step",
        nested: "an operation belongs into the function itself",
        unstorable: "result of step object",
        for_ever: "no operation of its flow can give",
        unnamed: "a lambda has no name",
        stranger: "a flow enqueues for its own tenant",
    }
    ids = {kind: harness.enqueue(kind.build())[0] for kind in says}
    harness.drain()
    for kind, words in says.items():
        job = harness.get(ids[kind])
        assert job.status == "dead", kind
        assert words in (job.error or ""), job.error
