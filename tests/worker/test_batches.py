"""Batches: calls that run together, each with an outcome of its own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headway.define import Call, Cancel, Context, Retry, Snooze
from headway.model.outcome import Done
from headway.secrets import Grant, Vault
from headway.worker import Summary
from tests.worker_harness import WorkerHarness

Lines = Callable[[str], list[logging.LogRecord]]


class Document(msgspec.Struct):
    number: int
    title: str = "untitled"


def test_calls_run_together_and_each_has_its_own_outcome(harness: WorkerHarness) -> None:
    seen: list[list[int]] = []

    @harness.job(batch=4, max_attempts=2, backoff=lambda tries: 3_600)
    async def index(calls: list[Call[Document]]) -> list[Any]:
        seen.append([call.args.number for call in calls])
        assert len({call.job_id for call in calls} | {call.ctx.fence for call in calls}) == len(calls) + 1
        assert {call.attempt for call in calls} == {1}
        answers: dict[int, Any] = {
            0: "kept",
            1: Done({"done": True}),
            2: ValueError("not this one"),
            3: Retry("2h", "later"),
            4: Snooze("1h"),
            5: Cancel("no need"),
            6: None,
        }
        return [answers[call.args.number] for call in calls]

    ids = harness.enqueue(*(index.build(number=number) for number in range(7)))
    summary = harness.drain()
    assert summary == Summary(succeeded=3, retried=2, snoozed=1, canceled=1)
    assert seen == [[0, 1, 2, 3], [4, 5, 6]]
    jobs = [harness.get(job_id) for job_id in ids]
    assert [job.status for job in jobs] == [
        *("succeeded", "succeeded", "scheduled", "scheduled", "scheduled", "canceled", "succeeded")
    ]
    assert [job.result for job in jobs] == ["kept", {"done": True}, None, None, None, None, None]
    assert [harness.last(job_id).status for job_id in ids] == [
        *("succeeded", "succeeded", "failed", "failed", "snoozed", "canceled", "succeeded")
    ]
    assert (harness.last(ids[2]).error or "").startswith("ValueError: not this one")
    assert harness.last(ids[3]).error == "later"
    assert [job.tries for job in jobs] == [0, 0, 1, 1, 0, 0, 0]


def test_an_error_of_the_whole_fails_each_by_its_own_policy(harness: WorkerHarness) -> None:
    @harness.job(batch=10, backoff=lambda tries: 3_600)
    def index(calls: list[Call]) -> None:
        raise OSError("the index is away")

    once, twice = harness.enqueue(index.using(max_attempts=1).build(number=1), index.build(number=2))
    assert harness.drain(middleware=[_through]) == Summary(dead=1, retried=1)
    assert [harness.get(each).status for each in (once, twice)] == ["dead", "scheduled"]
    for each in (once, twice):
        error = harness.last(each).error or ""
        assert error.startswith("OSError: the index is away")
        assert error.count("in index") == 1
        assert error.count("in _through") <= 1, "it has the frames of another call"


async def _through(ctx: Context, call_next: Callable[..., Any]) -> Any:
    return await call_next(ctx)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda calls: [1], "returned 1 answers for 2 calls: return one for each call"),
        (lambda calls: {"a": 1}, "returned dict, and it takes a batch: return a list with one answer for each call"),
    ],
)
def test_a_wrong_answer_is_a_failed_try_of_each(harness: WorkerHarness, answer: Any, words: str) -> None:
    @harness.job(batch=10, retry_on=KeyError, backoff=lambda tries: 3_600)
    async def index(calls: list[Call]) -> Any:
        return answer(calls)

    ids = harness.enqueue(index.build(number=1), index.build(number=2))
    assert harness.drain() == Summary(retried=2)
    assert all(words in (harness.last(each).error or "") for each in ids)


def test_a_full_batch_starts_at_once_and_others_wait_for_their_time(harness: WorkerHarness) -> None:
    seen: list[int] = []
    first = threading.Event()

    @harness.job(batch=3, batch_wait="1m")
    def index(calls: list[Call]) -> None:
        seen.append(len(calls))
        first.set()

    async def run() -> None:
        worker = harness.worker()
        running = asyncio.create_task(worker.run())
        harness.enqueue(index.build(number=1))
        while not harness.find(status="running"):
            await asyncio.sleep(0.005)
        harness.enqueue(*(index.build(number=number) for number in range(2, 5)))  # another claim, which makes it full
        await asyncio.to_thread(first.wait)
        assert seen == [3]
        worker.stop()  # what waits runs before it ends
        await running

    harness.run(run())
    assert seen == [3, 1]
    assert {job.status for job in harness.find()} == {"succeeded"}


def test_a_batch_starts_when_the_wait_of_its_first_call_is_over(harness: WorkerHarness) -> None:
    # its timeout starts with the batch, not with the wait
    @harness.job(batch=3, batch_wait="2200ms", timeout="2s", max_attempts=1)
    async def index(calls: list[Call]) -> list[int]:
        worker.stop()
        return [len(calls)]

    worker = harness.worker()
    (job_id,) = harness.enqueue(index.build(number=1))
    harness.run(worker.run())
    assert harness.get(job_id).result == 1


def test_a_drain_waits_for_nobody_else(harness: WorkerHarness) -> None:
    seen: list[int] = []

    @harness.job(batch=100, batch_wait="1m")
    async def index(calls: list[Call]) -> None:
        seen.append(len(calls))

    @harness.job
    async def plain() -> None:
        harness.enqueue(index.build(number=2))

    harness.enqueue(index.build(number=1), plain.build())
    assert harness.drain() == Summary(succeeded=3)
    assert seen == [2]


def test_a_batch_has_at_most_the_free_slots(harness: WorkerHarness, lines: Lines) -> None:
    seen: list[int] = []

    @harness.job(batch=100, batch_wait="1m")
    async def index(calls: list[Call]) -> None:
        seen.append(len(calls))
        if len(seen) == 2:
            worker.stop()

    worker = harness.worker(queues={"default": 4}, middleware=[_slowly])
    harness.enqueue(*(index.build(number=number) for number in range(8)))
    harness.run(worker.run())
    assert seen == [4, 4]
    assert lines("index takes batches of up to 100 calls, and this worker has 4 slots for their queue")


async def _slowly(ctx: Context, call_next: Callable[..., Any]) -> Any:
    await asyncio.sleep(0.001 * ctx.fence)
    return await call_next()


def test_tenants_timeouts_and_lost_calls_are_not_mixed(harness: WorkerHarness) -> None:
    seen: list[set[Any]] = []

    @harness.job(batch=10)
    async def index(calls: list[Call]) -> None:
        seen.append({call.args["number"] for call in calls})

    harness.enqueue(index.build(number=1), index.build(number=2))
    harness.enqueue(index.using(timeout="1m").build(number=3), index.using(tenant="acme").build(number=4))
    lost = harness.enqueue(index.build(number=5), index.build(number=6))
    for job_id in lost:
        harness.sql("update {}jobs set losses = 1 where id = ?", job_id)
    assert harness.drain() == Summary(succeeded=6)
    assert sorted(map(sorted, seen)) == [[1, 2], [3], [4], [5], [6]]


def test_middleware_wraps_each_call_and_its_variables_stay_there(harness: WorkerHarness) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    told: list[tuple[int, Any]] = []

    async def middleware(ctx: Context, call_next: Callable[..., Any]) -> Any:
        variable.set(ctx.job_id)
        try:
            value = await call_next()
        except ValueError as error:
            told.append((ctx.meta["number"], str(error)))
            raise
        told.append((ctx.meta["number"], value))
        return value

    @harness.job(batch=10, max_attempts=1)
    async def index(calls: list[Call]) -> list[Any]:
        assert variable.get() == "unset"
        return ["fine", ValueError("bad")]

    harness.enqueue(*(index.using(meta={"number": number}).build() for number in (1, 2)))
    assert harness.drain(middleware=[middleware]) == Summary(succeeded=1, dead=1)
    assert told == [(1, "fine"), (2, "bad")]


@pytest.mark.parametrize("in_thread", [False, True])
def test_the_timeout_covers_the_batch(harness: WorkerHarness, in_thread: bool) -> None:
    ended = threading.Event()

    async def slow(calls: list[Call]) -> None:
        await asyncio.sleep(60)

    def slow_thread(calls: list[Call]) -> None:
        while not all(call.ctx.canceled for call in calls):
            ended.wait(0.005)

    index = harness.job(name="index", batch=3, timeout="80ms", backoff=lambda tries: 3_600)(
        slow_thread if in_thread else slow
    )
    ids = harness.enqueue(*(index.build(number=number) for number in range(2)))
    assert harness.drain() == Summary(retried=2)
    assert [(harness.last(each).status, harness.last(each).error) for each in ids] == [
        ("timeout", "timed out after 80ms")
    ] * 2


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_canceled_call_sees_it_and_the_others_go_on(harness: WorkerHarness, in_thread: bool) -> None:
    started = threading.Event()

    def answers(calls: list[Call]) -> list[Any]:
        return [Cancel("skipped") if call.ctx.canceled else call.args["number"] for call in calls]

    async def index_async(calls: list[Call]) -> list[Any]:
        started.set()
        while not any(call.ctx.canceled for call in calls):
            await asyncio.sleep(0.005)
        return answers(calls)

    def index_thread(calls: list[Call]) -> list[Any]:
        started.set()
        while not any(call.ctx.canceled for call in calls):
            threading.Event().wait(0.005)
        return answers(calls)

    index = harness.job(name="index", batch=2)(index_thread if in_thread else index_async)
    ids = harness.enqueue(index.build(number=1), index.build(number=2))

    async def run() -> None:
        worker = harness.worker()
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(started.wait)
        harness.store.run(harness.store.ops.cancel([ids[0]], tenant_id=None, reason=None, actor=None))
        while harness.find(status="running"):
            await asyncio.sleep(0.005)
        worker.stop()
        await running

    harness.run(run())
    assert [harness.get(each).status for each in ids] == ["canceled", "succeeded"]


def test_a_call_that_is_canceled_while_it_waits_leaves_its_batch(harness: WorkerHarness) -> None:
    seen: list[int] = []

    @harness.job(batch=3, batch_wait="1m")
    async def index(calls: list[Call]) -> None:
        seen.extend(call.args["number"] for call in calls)

    ids = harness.enqueue(index.build(number=1), index.build(number=2))

    async def run() -> None:
        worker = harness.worker()
        running = asyncio.create_task(worker.run())
        while len(harness.find(status="running")) < 2:
            await asyncio.sleep(0.005)
        harness.store.run(harness.store.ops.cancel([ids[0]], tenant_id=None, reason=None, actor=None))
        while not harness.find(status="canceled"):
            await asyncio.sleep(0.005)
        worker.stop()
        await running

    harness.run(run())
    assert seen == [2]
    assert [harness.get(each).status for each in ids] == ["canceled", "succeeded"]


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_worker_that_stops_gives_the_whole_batch_back(harness: WorkerHarness, in_thread: bool) -> None:
    started = threading.Event()

    async def index_async(calls: list[Call]) -> None:
        started.set()
        await asyncio.sleep(60)

    def index_thread(calls: list[Call]) -> None:
        started.set()
        while not all(call.ctx.canceled for call in calls):
            threading.Event().wait(0.005)

    index = harness.job(name="index", batch=2)(index_thread if in_thread else index_async)
    ids = harness.enqueue(index.build(number=1), index.build(number=2))

    async def run() -> None:
        worker = harness.worker(settings={"grace_ms": 20})
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(started.wait)
        worker.stop()
        await running

    harness.run(run())
    assert [harness.get(each).status for each in ids] == ["queued", "queued"]
    assert [harness.last(each).status for each in ids] == ["released", "released"]
    assert {harness.get(each).tries for each in ids} == {0}


def test_a_secret_of_one_call_is_kept_out_of_the_results_of_all(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX_TOKEN", "hush-hush-hush")
    harness.vault = Vault({"INDEX_TOKEN": Grant(kinds=("index",), tenants=("*",))})

    @harness.job(batch=2, max_attempts=1)
    async def index(calls: list[Call]) -> list[str]:
        return ["fine", calls[0].ctx.secret("INDEX_TOKEN")]

    ids = harness.enqueue(index.build(number=1), index.build(number=2))
    harness.drain()
    assert [harness.get(each).status for each in ids] == ["succeeded", "dead"]
    assert "hush" not in (harness.get(ids[1]).error or "")
