"""Handlers that misbehave: each costs its own job only, and the reason can be read from it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headway import Context, Headway, Job
from headway.testing import drain
from headway.worker import watchdog


def ran(app: Headway, job_id: str) -> Job:
    drain(app, concurrency=20)
    return app.get(job_id)


@pytest.fixture
def neighbours(app: Headway) -> Iterator[None]:
    """Innocent jobs around the one of the test, which all succeed."""

    @app.job
    async def innocent(number: int) -> int:
        return number

    jobs = [innocent.enqueue(number) for number in range(10)]
    yield
    assert {app.get(job.id).status for job in jobs} == {"succeeded"}


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda: object(), "the result cannot be stored: $ is a object"),
        (lambda: [float("nan")], "the result cannot be stored: $[0] is nan"),
        (lambda: {"a": "x\0"}, "the result cannot be stored: $.a holds a NUL character"),
        (lambda: "\ud800", "the result cannot be stored: $ holds the lone surrogate"),
        (lambda: 2**64, "the result cannot be stored: $ is an integer beyond 64 bits"),
        (lambda: "x" * 1_048_577, "the result is 1,048,579 bytes of JSON, over the limit of 1,048,576"),
    ],
)
def test_a_result_that_cannot_be_stored_ends_the_job(app: Headway, neighbours: None, result: Any, reason: str) -> None:
    @app.job
    def works() -> Any:
        return result()

    job = ran(app, works.enqueue().id)
    assert job.error is not None
    assert (job.status, job.error[: len(reason)]) == ("dead", reason)
    assert [attempt.status for attempt in app.attempts(job.id)] == ["failed"]


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (BaseException("odd"), "BaseException: odd"),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError("own"), "CancelledError: own"),
        (ValueError("NUL \0 and \ud800"), "ValueError: NUL \\x00 and \\ud800"),
        (ValueError("x" * 100_000), "ValueError: xxx"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_is_raised_is_a_failed_attempt(
    app: Headway, neighbours: None, colour: str, error: BaseException, reason: str
) -> None:
    if colour == "sync":

        @app.job(max_attempts=1)
        def works() -> None:
            raise error
    else:

        @app.job(max_attempts=1)
        async def works() -> None:
            raise error

    job = ran(app, works.enqueue().id)
    assert job.status == "dead"
    assert job.error is not None
    assert job.error.startswith(reason)
    assert len(job.error.encode()) <= 16_384


def test_a_stop_iteration_keeps_its_name(app: Headway, neighbours: None) -> None:
    @app.job(discard_on=StopIteration)
    def works() -> None:
        next(iter(()))

    assert ran(app, works.enqueue().id).status == "dead"


def test_sys_exit_is_a_failure_and_the_worker_goes_on(app: Headway, neighbours: None) -> None:
    @app.job(max_attempts=2, backoff="1h")
    def leaves() -> None:
        sys.exit("I am done here")

    job = ran(app, leaves.enqueue().id)
    assert (job.status, job.tries) == ("scheduled", 1)


def test_an_exception_that_cannot_be_shown_is_still_a_failure(app: Headway, neighbours: None) -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even its message")

    @app.job(max_attempts=1)
    def works() -> None:
        raise Nasty

    job = ran(app, works.enqueue().id)
    assert job.status == "dead"
    assert job.error is not None
    assert "Nasty" in job.error.splitlines()[0]


def test_a_payload_that_the_handler_no_longer_takes_waits_for_one_that_does(app: Headway, neighbours: None) -> None:
    producer = Headway(app.url)
    job = producer.enqueue("renamed", {"before": 1})
    producer.close()

    @app.job
    def renamed(after: int) -> None: ...

    waits = ran(app, job.id)
    assert (waits.status, waits.tries, app.attempts(job.id)) == ("scheduled", 0, [])


def test_endless_logging_keeps_the_last_of_it(app: Headway, neighbours: None) -> None:
    @app.job
    def talks(ctx: Context) -> None:
        for number in range(3_000):
            ctx.log(f"{number} " + "x" * 100)
        ctx.log("the \0 end")
        ctx.progress(1, "y" * 10_000)

    job = ran(app, talks.enqueue().id)
    assert job.log_tail is not None
    assert len(job.log_tail.encode()) <= 65_536
    assert "2999 x" in job.log_tail
    assert "\0" not in job.log_tail
    assert job.progress_note is not None
    assert len(job.progress_note) <= 512


def test_a_handler_that_blocks_the_event_loop_is_named(
    app: Headway, monkeypatch: pytest.MonkeyPatch, neighbours: None
) -> None:
    monkeypatch.setattr(watchdog, "TICK_S", 0.01)
    monkeypatch.setattr(watchdog, "BLOCKED_S", 0.03)
    warned = threading.Event()
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "the event loop has been blocked" in record.getMessage() and "kind=blocks" in record.getMessage():
                lines.append(record.getMessage())
                warned.set()

    @app.job
    async def blocks() -> bool:
        return warned.wait(60)  # holds the loop until the warning is there

    listener = Listener()
    logging.getLogger("headway").addHandler(listener)
    try:
        job = ran(app, blocks.enqueue().id)
    finally:
        logging.getLogger("headway").removeHandler(listener)
    assert job.result is True
    assert "make it a plain def" in lines[0]
    assert "in wait" in lines[0]
    assert len(lines) == 1
