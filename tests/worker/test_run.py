"""One job's life: what handlers return and raise, and what becomes of their jobs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headway.define import Cancel, Context, Retry, Snooze
from headway.model.ids import new_id
from headway.model.job import NewJob
from headway.worker import Summary, run_worker
from headway.worker.run import Runner
from tests.worker_harness import WorkerHarness


def test_async_and_sync_handlers_run_and_their_results_are_kept(harness: WorkerHarness) -> None:
    @harness.job
    async def plus(a: int, b: int) -> int:
        return a + b

    @harness.job
    def thread_name(greeting: str) -> list[str]:
        return [greeting, threading.current_thread().name]

    jobs = [plus.build(a=i, b=1) for i in range(25)] + [thread_name.build("hi")]
    ids = harness.enqueue(*jobs)
    assert harness.drain() == Summary(succeeded=26)
    assert [harness.get(job_id).result for job_id in ids[:25]] == list(range(1, 26))
    greeting, thread = harness.get(ids[25]).result
    assert greeting == "hi"
    assert thread.startswith("headway-")


def test_a_failed_job_is_tried_again_later_with_its_error_kept(harness: WorkerHarness) -> None:
    @harness.job(backoff="5m", max_attempts=2)
    async def fails() -> None:
        raise ValueError("no such \0 thing \ud800")

    (job_id,) = harness.enqueue(fails.build())
    assert harness.drain() == Summary(retried=1)
    job, attempt = harness.get(job_id), harness.last(job_id)
    assert (job.status, job.tries, attempt.status) == ("scheduled", 1, "failed")
    assert job.scheduled_for is not None
    assert timedelta(minutes=3) < job.scheduled_for - job.created_at < timedelta(minutes=7)
    assert attempt.error is not None
    assert attempt.error.startswith("ValueError: no such \\x00 thing \\ud800\n")
    assert "in fails" in attempt.error
    assert "worker/run.py" not in attempt.error


def test_a_job_out_of_tries_is_dead(harness: WorkerHarness) -> None:
    calls = []

    @harness.job(backoff=lambda tries: 0, max_attempts=3)
    def fails() -> None:
        calls.append(1)
        raise OSError("still broken")

    (job_id,) = harness.enqueue(fails.build())
    assert harness.drain() == Summary(retried=2, dead=1)
    assert len(calls) == 3
    assert [attempt.status for attempt in harness.attempts(job_id)] == ["failed"] * 3
    assert harness.get(job_id).status == "dead"


def test_a_huge_error_is_trimmed_to_its_beginning_and_its_end(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("é" * 1_000_000)

    (job_id,) = harness.enqueue(fails.build())
    harness.drain()
    error = harness.get(job_id).error
    assert error is not None
    assert error.startswith("ValueError: éé")
    assert len(error.encode()) <= 16_384


def test_retry_says_when(harness: WorkerHarness) -> None:
    @harness.job(backoff=lambda tries: 0)
    async def limited() -> None:
        raise Retry("2h", "rate limited")

    (job_id,) = harness.enqueue(limited.build())
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.tries) == ("scheduled", 1)
    assert job.scheduled_for is not None
    assert job.scheduled_for - job.created_at > timedelta(hours=1, minutes=59)
    assert harness.last(job_id).error == "rate limited"


def test_snooze_charges_nothing(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    async def not_yet() -> None:
        raise Snooze("10m")

    (job_id,) = harness.enqueue(not_yet.build())
    assert harness.drain() == Summary(snoozed=1)
    job = harness.get(job_id)
    assert (job.status, job.tries, harness.last(job_id).status) == ("scheduled", 0, "snoozed")


def test_an_at_most_once_job_that_snoozes_goes_on_as_a_new_job(harness: WorkerHarness) -> None:
    @harness.job(delivery="at_most_once", max_attempts=1)
    async def not_yet() -> None:
        raise Snooze("10m")

    (job_id,) = harness.enqueue(not_yet.build())
    harness.drain()
    assert harness.get(job_id).status == "failed"
    from headway.model.listing import Filter

    (again,) = harness.store.run(harness.store.ops.find(Filter(retry_of=job_id), limit=5))
    assert (again.status, again.tries) == ("scheduled", 0)


def test_cancel_ends_the_job_canceled(harness: WorkerHarness) -> None:
    @harness.job
    def pointless() -> None:
        raise Cancel("the user is gone")

    (job_id,) = harness.enqueue(pointless.build())
    assert harness.drain() == Summary(canceled=1)
    assert (harness.get(job_id).status, harness.get(job_id).error) == ("canceled", "the user is gone")


def test_discard_on_and_retry_on_decide_which_errors_are_tried_again(harness: WorkerHarness) -> None:
    @harness.job(discard_on=KeyError)
    async def discards(name: str) -> None:
        raise {"key": KeyError, "value": ValueError}[name]("x")

    @harness.job(retry_on=(OSError,))
    async def picky(name: str) -> None:
        raise {"os": ConnectionError, "value": ValueError}[name]("x")

    ids = harness.enqueue(discards.build("key"), discards.build("value"), picky.build("os"), picky.build("value"))
    harness.drain()
    assert [harness.get(job_id).status for job_id in ids] == ["dead", "scheduled", "scheduled", "dead"]


@pytest.mark.parametrize("rubbish", [lambda tries: 1 / 0, lambda tries: "soon", lambda tries: -5])
def test_a_backoff_function_that_fails_falls_back_to_the_default(
    harness: WorkerHarness, rubbish: Callable[[int], Any], lines: Any
) -> None:
    @harness.job(backoff=rubbish, max_attempts=2)
    async def fails() -> None:
        raise ValueError("x")

    harness.enqueue(fails.build())
    assert harness.drain().retried == 1  # a second later, and dead then if the worker is still there
    assert len(lines("backoff function")) == 1


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration(1), asyncio.CancelledError(), Odd()],
)
def test_whatever_a_handler_raises_is_a_failure_and_the_worker_survives(
    harness: WorkerHarness, error: BaseException
) -> None:
    @harness.job(backoff="1h")
    async def raises() -> None:
        raise error

    @harness.job(backoff="1h")
    def raises_in_thread() -> None:
        raise error

    @harness.job
    async def fine() -> None:
        pass

    ids = harness.enqueue(raises.build(), raises_in_thread.build(), *[fine.build() for _ in range(20)])
    assert harness.drain(concurrency=2) == Summary(succeeded=20, retried=2)
    assert [harness.last(job_id).status for job_id in ids[:2]] == ["failed", "failed"]


def test_sys_exit_is_a_failure(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    def leaves() -> None:
        sys.exit("good bye")

    (job_id,) = harness.enqueue(leaves.build())
    assert harness.drain() == Summary(dead=1)
    assert (harness.get(job_id).error or "").startswith("SystemExit: good bye")


def test_a_result_that_cannot_be_stored_ends_its_job_and_no_other(harness: WorkerHarness) -> None:
    @harness.job
    async def gives(what: str) -> Any:
        return {"object": object(), "nan": float("nan"), "nul": "a\0b", "fine": [1]}[what]

    ids = harness.enqueue(*(gives.build(what) for what in ("object", "fine", "nan", "nul", "fine")))
    assert harness.drain() == Summary(succeeded=2, dead=3)
    jobs = [harness.get(job_id) for job_id in ids]
    assert [job.status for job in jobs] == ["dead", "succeeded", "dead", "dead", "succeeded"]
    assert "the result cannot be stored" in (jobs[0].error or "")


def test_a_payload_that_the_handler_cannot_take_ends_the_job_at_once(harness: WorkerHarness) -> None:
    @harness.job
    async def takes(number: int) -> None:
        pass

    (job_id,) = harness.enqueue(NewJob(id=new_id(), kind="takes", payload='{"number":"seven"}'))
    assert harness.drain() == Summary(dead=1)
    assert "number" in (harness.get(job_id).error or "")


def test_an_async_handler_past_its_timeout_is_cancelled(harness: WorkerHarness) -> None:
    ended = []

    @harness.job(timeout="20ms", backoff="1h", max_attempts=2)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    (job_id,) = harness.enqueue(slow.build())
    assert harness.drain() == Summary(retried=1)
    attempt = harness.last(job_id)
    assert (attempt.status, attempt.error, ended) == ("timeout", "timed out after 20ms", [True])


def test_a_timeout_error_of_the_handlers_own_is_a_failure(harness: WorkerHarness) -> None:
    @harness.job(timeout="1h")
    async def impatient() -> None:
        raise TimeoutError("the other side")

    (job_id,) = harness.enqueue(impatient.build())
    harness.drain()
    assert harness.last(job_id).status == "failed"


def test_a_sync_handler_past_its_timeout_is_settled_but_keeps_its_slot(
    harness: WorkerHarness, lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[Runner.__module__], "STUBBORN_S", 0.02)
    go_on = threading.Event()

    @harness.job(timeout="20ms", max_attempts=1)
    def stuck() -> None:
        go_on.wait(60)

    @harness.job
    async def waits_for_slot() -> None:
        pass

    async def story() -> None:
        (first,) = harness.enqueue(stuck.build())
        assert (await harness.until_status(first, "dead")).error == "timed out after 20ms"
        assert harness.last(first).status == "timeout"
        (second,) = harness.enqueue(waits_for_slot.build())
        await harness.until(lambda: bool(lines("keeps its slot")))
        # a worker with one slot cannot have claimed it: the thread is still there
        assert harness.get(second).status == "queued"
        go_on.set()
        await harness.until_status(second, "succeeded")

    harness.while_working(harness.worker(queues={"default": 1}), story)
    assert lines("a thread that outlived its execution has ended")


def test_an_async_handler_that_ignores_its_timeout_is_settled_without_it(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[Runner.__module__], "STUBBORN_S", 0.02)
    settled = asyncio.Event()

    @harness.job(timeout="20ms", max_attempts=1)
    async def stubborn() -> None:
        while not settled.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await settled.wait()

    async def story() -> None:
        (job_id,) = harness.enqueue(stubborn.build())
        await harness.until_status(job_id, "dead")
        assert harness.last(job_id).status == "timeout"
        settled.set()

    harness.while_working(harness.worker(), story)


def test_the_context_shows_the_job_and_its_reports_are_stored_even_of_a_short_job(harness: WorkerHarness) -> None:
    @harness.job
    async def talks(ctx: Context, word: str) -> dict[str, Any]:
        ctx.progress(0.5, "half")
        ctx.log(word)
        return {"id": ctx.job_id, "tenant": ctx.tenant, "fence": ctx.fence, "kind": ctx.kind}

    (job_id,) = harness.enqueue(talks.using(tenant="acme").build(word="hello"))
    harness.drain()
    job = harness.get(job_id)
    assert job.result == {"id": job_id, "tenant": "acme", "fence": 1, "kind": "talks"}
    assert (job.progress, job.progress_note, job.log_tail) == (0.5, "half", "hello")


def test_middleware_wraps_async_and_sync_handlers_outermost_first(harness: WorkerHarness) -> None:
    seen: list[str] = []

    async def outer(ctx: Context, call_next: Any) -> Any:
        seen.append(f"outer {ctx.kind}")
        try:
            return await call_next(ctx)
        except ValueError as error:
            seen.append(f"outer saw {error}")
            return "mended"

    async def inner(ctx: Context, call_next: Any) -> Any:
        seen.append("inner")
        return await call_next()

    @harness.job
    async def a() -> None:
        raise ValueError("a")

    @harness.job
    def b() -> str:
        return "b"

    ids = harness.enqueue(a.build())
    harness.drain(middleware=[outer, inner])
    ids += harness.enqueue(b.build())
    harness.drain(middleware=[outer, inner])
    assert seen == ["outer a", "inner", "outer saw a", "outer b", "inner"]
    assert [harness.get(job_id).result for job_id in ids] == ["mended", "b"]


def test_an_unknown_kind_is_given_back_unattempted_with_one_warning(harness: WorkerHarness, lines: Any) -> None:
    ids = harness.enqueue(*(NewJob(id=new_id(), kind="of_tomorrow") for _ in range(30)))
    assert harness.drain() == Summary()
    for job_id in ids:
        job = harness.get(job_id)
        assert (job.status, job.tries, job.losses, harness.attempts(job_id)) == ("scheduled", 0, 0, [])
    (warning,) = lines('"of_tomorrow"')
    assert warning.levelname == "WARNING"


def test_an_execution_leaves_nothing_for_the_garbage_collector(harness: WorkerHarness) -> None:
    tasks: list[weakref.ref[Any]] = []

    @harness.job
    async def noted() -> None:
        tasks.append(weakref.ref(asyncio.current_task()))

    harness.enqueue(*(noted.build() for _ in range(5)))
    gc.collect()
    gc.disable()
    try:
        assert harness.drain() == Summary(succeeded=5)
        assert [task() for task in tasks] == [None] * 5
    finally:
        gc.enable()


@pytest.mark.parametrize("own", [(700, 10, 10), (5_000, 7, 7), (50_000, 5, 5)], ids=["default", "own", "higher"])
def test_the_collector_looks_less_often_while_a_process_is_a_worker(harness: WorkerHarness, own: Any) -> None:
    seen: list[int] = []

    @harness.job
    async def look() -> None:
        seen.append(gc.get_threshold()[0])

    harness.enqueue(look.build())
    before = gc.get_threshold()
    gc.unfreeze()  # a process that froze its objects chose for itself
    gc.set_threshold(*own)
    try:
        assert run_worker(harness.worker(), until_idle=True) == Summary(succeeded=1)
        assert (gc.get_threshold(), gc.get_freeze_count()) == (own, 0)
    finally:
        gc.set_threshold(*before)
        gc.freeze()
    assert seen == [max(own[0], 10_000)]
