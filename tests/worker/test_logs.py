"""Logs: every line about a job says which, whoever wrote it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from headway import Context, logs
from headway.cli.program.click_classes import FIELD_NAMES
from headway.worker import success_lines
from tests.worker_harness import WorkerHarness


@pytest.fixture
def log_stream() -> Iterator[Callable[..., io.StringIO]]:
    """Configures logging as the command line does, and gives what is written; undone afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def configure(*args: Any, **options: Any) -> io.StringIO:
        stream = io.StringIO()
        logs.configure(*args, stream=stream, **options)
        return stream

    yield configure
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def configured(log_stream: Callable[..., io.StringIO]) -> io.StringIO:
    return log_stream("info", json=True)


def test_lines_of_any_library_carry_the_fields_of_their_job(harness: WorkerHarness, configured: io.StringIO) -> None:
    @harness.job
    async def through_stdlib() -> None:
        logging.getLogger("some.library").warning("from %s", "stdlib")

    @harness.job
    def through_structlog_in_a_thread() -> None:
        structlog.get_logger("other.library").info("from structlog", flavour="plain")

    @harness.job(max_attempts=1)
    async def dies() -> None:
        raise ValueError("the reason")

    jobs = [
        through_stdlib.using(trace_id="t1", tenant="acme").build(),
        through_structlog_in_a_thread.build(),
        dies.build(),
    ]
    harness.enqueue(*jobs)
    harness.drain()
    lines = [json.loads(line) for line in configured.getvalue().splitlines()]

    def line(event: str) -> dict[str, Any]:
        (found,) = [line for line in lines if line["event"].startswith(event)]
        return found

    worker_id = line("worker started")["worker_id"]
    stdlib = line("from stdlib")
    assert {key: stdlib[key] for key in ("job_id", "kind", "attempt", "worker_id", "tenant_id", "trace_id")} == {
        "job_id": jobs[0].id,
        "kind": "through_stdlib",
        "attempt": 1,
        "worker_id": worker_id,
        "tenant_id": harness.get(jobs[0].id).tenant_id,
        "trace_id": "t1",
    }
    assert (stdlib["level"], stdlib["logger"]) == ("warning", "some.library")
    other = line("from structlog")
    assert (other["job_id"], other["flavour"], other["level"]) == (jobs[1].id, "plain", "info")
    assert other["trace_id"] == jobs[1].id.replace("-", "")
    failed = line("attempt failed: the job is dead")
    assert (failed["job_id"], failed["level"]) == (jobs[2].id, "warning")
    assert failed["duration_ms"] >= 0
    done = {line["job_id"]: line for line in lines if line["event"] == "job succeeded"}
    assert done.keys() == {jobs[0].id, jobs[1].id}
    assert (done[jobs[0].id]["level"], done[jobs[0].id]["trace_id"]) == ("info", "t1")
    assert all(line["duration_ms"] >= 0 for line in done.values())
    assert "ValueError: the reason" in failed["exception"]
    assert "job_id" not in line("worker stopped")


@pytest.mark.parametrize("json_lines", [True, False])
def test_extra_fields_of_stdlib_loggers_are_shown(
    harness: WorkerHarness, log_stream: Callable[..., io.StringIO], json_lines: bool
) -> None:
    """But they change none of the line's own, and show no secret."""
    stream = log_stream("info", json=json_lines)

    @harness.job
    async def paid(ctx: Context) -> None:
        extra = {"order": 42, "by": {"name": "Ada"}, "odd": object, "event": "no", "level": "no", "job_id": "no"}
        logging.getLogger("shop").info("paid %d", 3, extra=extra)

    harness.enqueue(paid.build())
    harness.drain()
    (found,) = [line for line in stream.getvalue().splitlines() if "paid 3" in line]
    if json_lines:
        line = json.loads(found)
        assert (line["order"], line["by"], line["level"]) == (42, {"name": "Ada"}, "info")
        assert "object" in line["odd"]
        assert line["job_id"] != "no"
    else:
        assert "order=42" in found


def test_unconfigured_lines_are_plain_stdlib_records(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logs.get_logger("headway.test").info("100 % done", jobs=3)
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("headway.test", "100 % done  jobs=3")


def test_our_own_lines_are_written_as_structlog_writes_them(configured: io.StringIO) -> None:
    formatter = logging.getLogger().handlers[0].formatter
    assert isinstance(formatter, logs._OurLines)
    said: list[dict[str, Any]] = []
    seen = logging.Handler()
    seen.emit = lambda record: said.append(json.loads(formatter._others.format(record)))  # type: ignore[method-assign]
    logger = logs.get_logger("headway.some")
    logger._inner.addHandler(seen)
    logger.info("it is ü", number=7, text='a "b"\n', nothing=None, kept=[1, {"a": 2.5}], path="/x?token=abcdef")
    logger.info("others", strange=object)
    structlog.contextvars.bind_contextvars(site="here")
    logger.info("bound", number=8)
    structlog.contextvars.clear_contextvars()
    logger._inner.removeHandler(seen)
    lines = [json.loads(line) for line in configured.getvalue().splitlines()]
    assert [list(line) for line in lines] == [list(line) for line in said]
    times = [line.pop("timestamp") for line in lines]
    assert [len(at) for at in times] == [len(line.pop("timestamp")) for line in said]
    assert lines == said
    assert (lines[0]["path"], lines[2]["site"]) == ("/x?token=[redacted]", "here")


def test_a_terminal_line_is_short(harness: WorkerHarness) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = Terminal()
    logs.configure("info", stream=stream)
    try:
        logs.get_logger("headway.test").info("hello", jobs=3, worker_id="w" * 36)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
    assert "hello" in stream.getvalue()
    assert "www" not in stream.getvalue()


def test_seldom_says_yes_once_per_key() -> None:
    says = logs.Seldom(3_600)
    assert [says("a"), says("a"), says("b"), says("b")] == [True, False, True, False]


def test_successes_beyond_a_rate_are_counted_and_failures_never_left_out(
    harness: WorkerHarness, configured: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(success_lines, "RATE", 3)

    @harness.job
    async def works() -> None: ...

    @harness.job(max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    harness.enqueue(*(works.build() for _ in range(40)), *(fails.build() for _ in range(8)))
    harness.drain()
    lines = [json.loads(line) for line in configured.getvalue().splitlines()]
    said = sum(line["event"] == "job succeeded" for line in lines)
    left_out = sum(line.get("left_out", 0) for line in lines)
    assert 3 <= said < 40
    assert said + left_out == 40
    assert sum(line["event"].startswith("attempt failed") for line in lines) == 8


@pytest.mark.parametrize(
    ("fields", "kind", "attempt", "text"),
    [
        ("headway", "kind", "attempt", "event"),
        ("jobforge", "job_type", "attempt_no", "message"),
        ("zoltag", "definition_key", "attempt_no", "event"),
    ],
)
def test_fields_have_the_names_that_were_asked_for(
    log_stream: Callable[..., io.StringIO], fields: str, kind: str, attempt: str, text: str
) -> None:
    ids = {"tenant_id": "t", "job_id": "j", "worker_id": "w", "trace_id": "x"}
    log = logs.get_logger("headway.test")
    stream = log_stream("info", json=True, fields=fields)
    log.info("job succeeded", kind="mail", attempt=2, duration_ms=1.5, **ids)
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    own = {kind: "mail", attempt: 2, text: "job succeeded", "duration_ms": 1.5}
    assert line == {**ids, **own, "level": "info", "logger": "headway.test"}
    stream = log_stream("info", json=False, fields=fields)
    log.info("job succeeded", kind="mail", attempt=2, message="the line's own")
    assert f"{kind}=mail" in stream.getvalue()
    assert f"{attempt}=2" in stream.getvalue()
    assert "message" in stream.getvalue()
    assert set(FIELD_NAMES) == set(logs.FIELDS)


def test_a_server_writes_the_lines_of_a_turn_together(log_stream: Callable[..., io.StringIO]) -> None:
    stream = log_stream("info", json=True)
    logs.join_lines()
    log = logs.get_logger("headway.test")

    async def turn() -> None:
        log.info("one")
        log.info("two")
        assert stream.getvalue() == ""
        await asyncio.sleep(0)
        assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["one", "two"]
        log.info("three")
        log.error("four")
        assert len(stream.getvalue().splitlines()) == 4, "an error is written at once, after what came before it"
        log.info("five")

        log._inner.addFilter(is_wanted)
        log.info("unwanted")
        log.info("five and a half")

    def is_wanted(record: logging.LogRecord) -> bool:
        return "unwanted" not in record.getMessage()

    asyncio.run(turn())
    log._inner.removeFilter(is_wanted)
    log.info("six")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()][3:] == [
        *("four", "five", "five and a half", "six")
    ]


@pytest.mark.parametrize("silenced", ["the handler's level", "the logger", "all of ours"])
def test_a_server_writes_no_line_that_the_application_silenced(
    log_stream: Callable[..., io.StringIO], monkeypatch: pytest.MonkeyPatch, silenced: str
) -> None:
    stream = log_stream("info", json=True)
    logs.join_lines()
    log = logs.get_logger("headway.test")
    match silenced:
        case "the handler's level":
            logging.root.handlers[0].setLevel(logging.WARNING)
        case "the logger":
            monkeypatch.setattr(log._inner, "propagate", False)
        case _:
            monkeypatch.setattr(logging.getLogger("headway"), "propagate", False)

    async def turn() -> None:
        log.info("request")
        await asyncio.sleep(0)

    asyncio.run(turn())
    assert stream.getvalue() == ""
