"""result(): the end of a job for any number of waiters, who share one query, and what a timeout gives."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headway import Await, Cancel, Context, Done, Headway, Machine, Outcome, step
from headway.errors import InvalidJob, NotFound
from headway.testing import drain

Call = Callable[..., Any]


@pytest.fixture
def queries(app: Headway, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, set[str]]]]:
    """The reads of results: the thread that made each, and the jobs that it asked for."""
    seen: list[tuple[str, set[str]]] = []
    results = app.store.ops.results

    def watched(ids: Any, **options: Any) -> Any:
        seen.append((threading.current_thread().name, set(ids)))
        return results(ids, **options)

    monkeypatch.setattr(app.store.ops, "results", watched)
    return seen


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so; the limit is only for a test that fails."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def ends(app: Headway) -> Any:
    @app.job(max_attempts=1)
    def ends(how: str) -> list[str]:
        match how:
            case "well":
                return ["fine"]
            case "badly":
                raise LookupError("no such user")
            case _:
                raise Cancel("not needed")

    return ends


def test_an_end_has_its_status_value_and_error(app: Headway, ends: Any, call: Call) -> None:
    well, badly, neither = (ends.enqueue(how) for how in ("well", "badly", "neither"))
    drain(app)
    assert call(app, "result", well.id) == Outcome("succeeded", ["fine"], None)
    dead = call(app, "result", badly.id, timeout="5s")
    assert (dead.status, dead.value) == ("dead", None)
    assert dead.error.startswith("LookupError: no such user")
    assert call(app, "result", neither.id) == Outcome("canceled", None, "not needed")


def test_a_timeout_gives_where_the_job_is(app: Headway, ends: Any, call: Call) -> None:
    queued = ends.enqueue("well")
    later = ends.using(delay="1h").enqueue("well")
    assert call(app, "result", queued.id, timeout=0) == Outcome("queued")
    assert call(app, "result", queued.id, timeout="30ms") == Outcome("queued")
    assert call(app, "result", later.id, timeout=0.03) == Outcome("scheduled")
    with pytest.raises(InvalidJob, match="timeout=-1 is out of range"):
        call(app, "result", queued.id, timeout=-1)


def test_a_waiter_gets_the_end_when_it_comes(app: Headway, ends: Any, queries: list[Any]) -> None:
    job = ends.enqueue("well")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(app.result, job.id, 30)
        until(lambda: any(thread == "headway-results" for thread, _ in queries))
        drain(app)
        assert waiting.result(30).value == ["fine"]


def test_many_waiters_share_one_query(app: Headway, ends: Any, queries: list[tuple[str, set[str]]]) -> None:
    jobs = app.enqueue_many(ends.build("well") for _ in range(40))
    ids = {job.id for job in jobs}
    with ThreadPoolExecutor(80) as threads:
        waiting = [threads.submit(app.result, job.id, 60) for job in jobs for _ in range(2)]
        until(lambda: any(asked == ids for _, asked in queries))
        looks = [thread for thread, _ in queries if thread != "headway-results"]
        drain(app)
        assert {future.result(60).status for future in waiting} == {"succeeded"}
    assert len(looks) <= 80  # each looks once; from then on one thread asks for all
    assert {thread for thread, asked in queries if len(asked) > 1} == {"headway-results"}
    until(lambda: not any(thread.name == "headway-results" for thread in threading.enumerate()))


def test_async_waiters_share_it_too(app: Headway, ends: Any, queries: list[tuple[str, set[str]]]) -> None:
    jobs = app.enqueue_many(ends.build("well") for _ in range(20))
    ids = {job.id for job in jobs}

    async def wait() -> list[Outcome]:
        waiting = asyncio.gather(*(app.aresult(job.id, timeout=60) for job in jobs))
        await asyncio.to_thread(until, lambda: any(asked == ids for _, asked in queries))
        await asyncio.to_thread(drain, app)
        try:
            return await waiting
        finally:
            await app.aclose()

    assert {outcome.status for outcome in asyncio.run(wait())} == {"succeeded"}


def test_a_waiter_that_gave_up_leaves_nothing_behind(app: Headway, ends: Any) -> None:
    job = ends.enqueue("well")

    async def give_up() -> None:
        task = asyncio.create_task(app.aresult(job.id))
        while not any(thread.name == "headway-results" for thread in threading.enumerate()):
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await app.aclose()

    asyncio.run(give_up())
    until(lambda: not any(thread.name == "headway-results" for thread in threading.enumerate()))
    assert app.result(job.id, timeout=0).status == "queued"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wait_ends_with_its_status_the_job_or_the_time(app: Headway, is_async: bool) -> None:
    def wait(on: Any, *args: Any, **options: Any) -> Outcome:
        async def awaited() -> Outcome:
            try:
                return await on.await_(*args, **options)
            finally:
                await app.store.leave_loop()

        return asyncio.run(awaited()) if is_async else on.wait(*args, **options)

    @app.machine
    class Asks(Machine):
        @step
        def start(self, ctx: Context) -> Any:
            return Await("answer", then=self.end)

        @step
        def end(self, ctx: Context) -> Any:
            return Done("heard")

    job = Asks.enqueue()
    assert wait(app, job.id, status=("waiting", "queued")) == Outcome("queued")
    assert wait(app, job.id, status="waiting", timeout="20ms") == Outcome("queued")
    with ThreadPoolExecutor(3) as threads:
        waiters = [threads.submit(wait, app, job.id, status=status) for status in ("waiting", ["dead"])]
        waiters.append(threads.submit(wait, app, job.id))
        drain(app)
        assert waiters[0].result() == Outcome("waiting")
        assert not waiters[1].done()
        assert not waiters[2].done()
        app.signal(job.id, "answer")
        drain(app)
        # it ended, if not as one of them expected
        assert [waiter.result() for waiter in waiters[1:]] == [Outcome("succeeded", "heard")] * 2
    for wrong in ("ended", ["waiting", "ended"], ()):
        with pytest.raises(InvalidJob, match=r"status=.* (does not exist|is empty)"):
            wait(app, job.id, status=wrong)
    with pytest.raises(NotFound):
        wait(app.tenant("acme"), job.id, status="waiting")


def test_waiters_for_statuses_share_the_query_of_the_others(app: Headway, ends: Any, queries: list[Any]) -> None:
    jobs = [ends.using(delay="1h").enqueue("well") for _ in range(3)]
    with ThreadPoolExecutor(6) as threads:
        waiters = [threads.submit(app.wait, job.id, status="canceled") for job in jobs]
        waiters += [threads.submit(app.result, job.id) for job in jobs]
        until(lambda: any(len(ids) == 3 for _, ids in queries))
        for job in jobs:
            app.cancel(job.id)
        assert {waiter.result().status for waiter in waiters} == {"canceled"}
    assert {thread for thread, ids in queries if len(ids) > 1} == {"headway-results"}
