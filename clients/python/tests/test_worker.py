"""The client's worker against a real server: jobs, machines, cancel, grace, a server that goes away."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from headway_client import (
    Artifact,
    Await,
    Client,
    ConfigError,
    Context,
    Done,
    Fatal,
    HeadwayError,
    Invalid,
    LeaseLost,
    Next,
    NotAllowed,
    Retry,
    Spawn,
    Worker,
)
from headway_client.lease import beat_after
from headway_client.logs import JsonFormatter, job
from pydantic import BaseModel

from headway import Headway


@dataclasses.dataclass
class Person:
    name: str
    age: int = 0


class Letter(BaseModel):
    to: str


class Parcel(TypedDict):
    weight: int


def _until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.01)


def test_handlers_get_what_they_ask_for(client: Client, working: Any) -> None:
    worker = working.new()

    @worker.handler("welcome")
    def welcome(user_id: int, ctx: Context, lang: str = "en") -> str:
        ctx.log("one")
        assert ctx.traceparent.startswith(f"00-{ctx.trace_id}-")
        assert ctx.trace_id == ctx.job_id.replace("-", "")
        assert (ctx.meta, ctx.correlation_id, ctx.losses, ctx.state) == ({"from": "test"}, "c-1", 0, None)
        return f"{user_id} {lang} {ctx.kind} {ctx.fence}"

    @worker.handler("report")
    async def report(person: Person) -> Person:
        await asyncio.sleep(0)
        return Person(person.name.upper(), person.age + 1)

    @worker.handler("order")
    def order(payload: dict[str, Any]) -> Letter:
        return Letter(to=payload["x"])

    working(worker)
    jobs = [
        client.enqueue("welcome", {"user_id": 7}, meta={"from": "test"}, correlation_id="c-1"),
        client.enqueue("report", Person("ada", 36)),
        client.enqueue("order", {"x": "y"}),
    ]
    found = [client.result(job.id, wait=30).unwrap() for job in jobs]
    assert found == ["7 en welcome 1", {"name": "ADA", "age": 37}, {"to": "y"}]
    # what does not fit is dead at once, with the reason
    bad = client.result(client.enqueue("welcome", {"user": 7}).id, wait=30)
    assert (bad.status, "does not fit" in (bad.error or "")) == ("dead", True)


def test_files_of_handlers_become_artifacts(app: Headway, client: Client, working: Any, tmp_path: Path) -> None:
    worker = working.new()
    (tmp_path / "own.bin").write_bytes(bytes(range(256)) * 2_000)
    kept: dict[str, list[Artifact]] = {}

    def broken() -> Any:
        yield "half of "
        raise ZeroDivisionError

    async def pieces(*texts: str) -> Any:
        for text in texts:
            await asyncio.sleep(0)
            yield text

    @worker.handler("welcome")
    def welcome(ctx: Context) -> None:
        with (tmp_path / "own.bin").open("rb") as file:
            kept["sync"] = [
                ctx.artifact("text.csv", "grüße", content_type="text/csv"),
                ctx.artifact("bytes", b"\0\1"),
                ctx.artifact("path.bin", tmp_path / "own.bin"),
                ctx.artifact("file.bin", file),
                ctx.artifact("pieces.txt", (piece for piece in ("a", "", b"b"))),
                ctx.artifact("empty.txt", ""),
            ]
        for error, name, data in (
            (ZeroDivisionError, "broken", broken()),
            (Invalid, "../x", b""),
            (NotAllowed, "bytes", b"again"),
            (HeadwayError, "wrong", 7),
            (HeadwayError, "wrong", ["a", 7]),
            (HeadwayError, "wrong", pieces("a")),
        ):
            with pytest.raises(error):
                ctx.artifact(name, data)

    @worker.handler("report")
    async def report(ctx: Context) -> None:
        kept["async"] = [
            await ctx.aartifact("text.csv", "grüße", content_type="text/csv"),
            await ctx.aartifact("path.bin", tmp_path / "own.bin"),
            await ctx.aartifact("pieces.txt", pieces("a", "", "b")),
        ]
        with pytest.raises(HeadwayError, match="would block the event loop"):
            ctx.artifact("x", b"")
        with pytest.raises(ZeroDivisionError):
            await ctx.aartifact("broken", broken())
        stale = Context({**ctx.fields, "fence": 7}, ctx._uploads)
        with pytest.raises(LeaseLost):
            await stale.aartifact("stale", b"")

    working(worker)
    jobs = [client.enqueue(kind) for kind in ("welcome", "report")]
    for enqueued in jobs:
        client.result(enqueued.id, wait=30).unwrap()
    own = (tmp_path / "own.bin").read_bytes()
    expected = {
        "sync": ["grüße".encode(), b"\0\1", own, own, b"ab", b""],
        "async": ["grüße".encode(), own, b"ab"],
    }
    for (side, files), enqueued in zip(expected.items(), jobs, strict=True):
        for artifact, data in zip(kept[side], files, strict=True):
            assert (artifact.job_id, artifact.size) == (enqueued.id, len(data))
            with app.open_artifact(artifact.id) as stored:
                assert stored.read() == data
        assert {each.id for each in app.artifacts(enqueued.id)} == {each.id for each in kept[side]}
    assert kept["sync"][0].content_type == "text/csv"
    assert kept["sync"][0].created_at is not None
    with pytest.raises(HeadwayError, match="no worker runs this job"):
        Context(_claimed()).artifact("x", b"")


def _claimed() -> dict[str, Any]:
    names = ("id", "kind", "queue", "tenant_id", "trace_id", "traceparent", "step", "timed_out")
    return {**dict.fromkeys(names, ""), "fence": 1, "tries": 0, "signals": [], "awaiting": [], "children": []}


def test_failures_follow_the_policy(client: Client, working: Any) -> None:
    worker = working.new()
    tries: list[int] = []

    @worker.handler("welcome")
    def welcome(how: str, ctx: Context) -> int:
        tries.append(ctx.tries)
        if how == "fatal":
            raise Fatal("no use")
        if ctx.tries == 0:
            raise Retry(0, "busy") if how == "retry" else ValueError("boom")
        return ctx.tries

    working(worker)
    again = client.enqueue("welcome", {"how": "retry"})
    assert client.result(again.id, wait=30).unwrap() == 1
    assert [(each.status, each.error) for each in client.attempts(again.id)] == [
        ("failed", "busy"),
        ("succeeded", None),
    ]
    assert client.result(client.enqueue("welcome", {"how": "fatal"}).id, wait=30).error == "no use"
    failed = client.enqueue("welcome", {"how": "raise"}, max_attempts=1)
    assert "ValueError: boom" in (client.result(failed.id, wait=30).error or "")
    slow = client.enqueue("welcome", {"how": "retry"}, max_attempts=1)
    assert client.result(slow.id, wait=30).status == "dead"


def test_a_machine(client: Client, working: Any) -> None:
    worker = working.new()

    @worker.handler("order", step="start")
    def start(state: dict[str, Any]) -> Next:
        return Next("pay", {"n": state["n"] + 1})

    @worker.handler("order", step="pay")
    async def pay(n: int, ctx: Context) -> Await:
        return Await("paid", then="ship")

    @worker.handler("order", step="ship")
    def ship(n: int, ctx: Context) -> Spawn:
        children = [{"kind": "welcome", "payload": {"user_id": ctx.signals[0].payload}} for _ in range(n)]
        return Spawn(children, then="end")

    @worker.handler("order", step="end")
    def end(n: int, ctx: Context) -> Done:
        return Done([child.result for child in ctx.children])

    @worker.handler("welcome")
    def welcome(user_id: int) -> int:
        return user_id

    working(worker)
    made = client.enqueue("order", {"n": 1})
    _until(lambda: client.get(made.id).status == "waiting")
    client.signal(made.id, "paid", 5)
    assert client.result(made.id, wait=30).unwrap() == [5, 5]
    assert [each.fields["outcome"] for each in client.attempts(made.id)] == ["next", "await", "spawn", "done"]


def test_a_machine_goes_on_in_its_slot(client: Client, working: Any) -> None:
    worker = working.new(queues={"mail": 1})
    other_began = asyncio.Event()

    @worker.handler("order", step="start")
    async def start(payload: dict[str, Any]) -> Next:
        return Next("pay")

    @worker.handler("order", step="pay")
    async def pay(payload: dict[str, Any]) -> Done:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await other_began.wait()
        return Done(other_began.is_set())

    @worker.handler("welcome")
    async def welcome() -> None:
        other_began.set()

    order, other = client.enqueue("order"), client.enqueue("welcome")
    working(worker)
    assert client.result(order.id, wait=30).unwrap() is False
    assert client.result(other.id, wait=30).status == "succeeded"


def test_cancel_timeout_and_a_lost_lease(app: Headway, client: Client, working: Any) -> None:
    worker = working.new(heartbeat=0.05)
    stopped: list[str] = []

    @worker.handler("welcome")
    async def welcome(user_id: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append("async")

    @worker.handler("report")
    def report(ctx: Context) -> None:
        assert ctx.wait_canceled(60)
        stopped.append("sync")

    working(worker)
    jobs = [client.enqueue("welcome", {"user_id": 1}), client.enqueue("report")]
    for each in jobs:
        _until(lambda each=each: client.get(each.id).status == "running")
        client.cancel(each.id, reason="enough")
    assert [client.result(each.id, wait=30).status for each in jobs] == ["canceled", "canceled"]
    assert sorted(stopped) == ["async", "sync"]
    slow = app.enqueue("welcome", {"user_id": 1}, max_attempts=1, timeout="50ms")
    assert client.result(slow.id, wait=30).error == "timed out after 0.05 s"
    lost = client.enqueue("welcome", {"user_id": 1}, max_attempts=1)
    _until(lambda: client.get(lost.id).status == "running")
    app.declare_dead(client.get(lost.id).fields["worker_id"])
    _until(lambda: stopped.count("async") == 3)  # its next heartbeat tells it so
    assert client.get(lost.id).fields["losses"] == 1


def test_an_execution_that_is_not_its_workers_any_more_is_stopped(app: Headway, client: Client, working: Any) -> None:
    """Its lease goes on: only that job went elsewhere."""
    worker = working.new(heartbeat=0.05)
    stopped = asyncio.Event()

    @worker.handler("welcome")
    async def welcome(ctx: Context) -> bool:
        if ctx.fence == 1:
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()
        async with asyncio.timeout(10):
            return await stopped.wait()

    working(worker)
    made = client.enqueue("welcome")
    _until(lambda: client.get(made.id).status == "running")
    app.store.run(app.store.ops.release([(made.id, 1)], delay_ms=0))
    assert client.result(made.id, wait=30).unwrap() is True


def test_what_no_json_can_hold_harms_only_its_own_job(client: Client, working: Any) -> None:
    worker = working.new(heartbeat=0.05)
    go_on = threading.Event()

    @worker.handler("welcome")
    def welcome(user_id: int, ctx: Context) -> float:
        ctx.progress(float("nan"), note=user_id)  # type: ignore[arg-type]
        ctx.log("x" * (17 << 20))  # more than a request may have
        assert go_on.wait(60)
        return float("nan")

    @worker.handler("report")
    def report(ctx: Context) -> Done:
        ctx.progress(0.5)
        assert ctx.wait_canceled(60)
        return Done("canceled")

    working(worker)
    odd, other = client.enqueue("welcome", {"user_id": 7}, max_attempts=1), client.enqueue("report")
    for each in (odd, other):
        _until(lambda each=each: client.get(each.id).status == "running")
    # heartbeats go on, though what one of the jobs said was refused
    client.cancel(other.id)
    assert client.result(other.id, wait=30).value == "canceled"
    go_on.set()
    ended = client.result(odd.id, wait=30)
    assert (ended.status, "nan has no JSON" in str(ended.error)) == ("dead", True), ended


def test_a_function_that_raises_stop_iteration_fails(client: Client, working: Any) -> None:
    worker = working.new()

    @worker.handler("welcome")
    def welcome() -> str:
        empty: list[str] = []
        return next(iter(empty))

    working(worker)
    job = client.enqueue("welcome", max_attempts=1)
    ended = client.result(job.id, wait=30)
    assert (ended.status, "StopIteration" in str(ended.error)) == ("dead", True)


def test_heartbeats_follow_the_clock_of_the_server() -> None:
    date = "Sat, 03 Feb 2001 04:05:06 GMT"  # a server whose clock is decades behind
    assert beat_after("2001-02-03T04:05:16Z", date, 20.0) == 3
    assert beat_after("2001-02-03T04:06:16Z", date, 20.0) == 20
    assert beat_after("2001-02-03T04:05:01Z", date, 20.0) == 0.1
    assert beat_after((datetime.now(UTC) + timedelta(hours=1)).isoformat(), None, 20.0) == 20


def test_logs_are_json() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "hello %s", ("you",), None)
    record.queue = "mail"
    token = job.set({"job_id": "j", "fence": 1})
    try:
        said = json.loads(JsonFormatter().format(record))
    finally:
        job.reset(token)
    assert (said["message"], said["job_id"], said["queue"], said["level"]) == ("hello you", "j", "mail", "info")


def test_what_cannot_be_a_worker_is_refused() -> None:
    client = Client(key="hw_x")
    for queues in ({}, {"mail": 0}, {"mail": True}):
        with pytest.raises(ConfigError, match="queues="):
            Worker(client, queues=queues)
    for wrong in ({"grace": "soon"}, {"heartbeat": -1}):
        with pytest.raises(ConfigError, match="is not a duration"):
            Worker(client, queues={"mail": 1}, **wrong)
    worker = Worker(client, queues={"mail": 1}, grace="5s", heartbeat=timedelta(seconds=2))
    with pytest.raises(ConfigError, match="no handlers"):
        worker.run()
    with pytest.raises(ConfigError, match="by names"):
        worker.handler("x")(lambda *args: None)
    with pytest.raises(ConfigError, match="twice"):

        @worker.handler("x")
        def twice(one: Person, two: Parcel) -> None: ...


def test_what_a_handler_enqueues_belongs_to_its_trace(
    app: Headway, client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as in a program without OpenTelemetry
    monkeypatch.delitem(sys.modules, "opentelemetry.propagate", raising=False)
    worker = working.new()

    @worker.handler("welcome")
    def welcome(user_id: int) -> str:
        return client.enqueue("order", {"x": user_id}).id

    @worker.handler("order")
    async def order() -> None: ...

    working(worker)
    first = client.enqueue("welcome", {"user_id": 7})
    second = client.result(first.id, wait=30).unwrap()
    assert app.get(second).trace == app.get(first.id).trace == first.id.replace("-", "")
    from opentelemetry import context, propagate, trace  # and with it

    monkeypatch.setitem(sys.modules, "opentelemetry.propagate", propagate)
    span = trace.NonRecordingSpan(trace.SpanContext(7, 9, is_remote=False, trace_flags=trace.TraceFlags(1)))
    token = context.attach(trace.set_span_in_context(span))
    try:
        third = client.enqueue("order", {"x": 1})
    finally:
        context.detach(token)
    assert app.get(third.id).trace == f"{7:032x}"


def test_each_execution_has_a_span_below_its_enqueue(client: Client, server: Any, working: Any) -> None:
    from headway_client.spans import Spans
    from opentelemetry import propagate, trace  # noqa: F401 - the client looks whether the program has loaded it
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from headway.telemetry.tracing import Tracing

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    untraced = client.enqueue("report", {})
    server._app.__dict__["_tracing"] = Tracing(provider)
    worker = working.new()
    assert worker._spans is None
    worker._spans = Spans(worker.worker_id, provider)
    inside: dict[str, tuple[int, str, str]] = {}

    @worker.handler("welcome")
    def welcome(ctx: Context) -> str:
        span = trace.get_current_span().get_span_context()
        inside["welcome"] = span.span_id, ctx.trace_id, ctx.traceparent
        return client.enqueue("order", {}, max_attempts=1).id

    @worker.handler("order")
    async def order(ctx: Context) -> None:
        raise ValueError("boom")

    @worker.handler("report")
    async def report(ctx: Context) -> Await | Done:
        return Await("go", then="end") if ctx.step != "end" else Done()

    working(worker)
    caller = f"00-{7:032x}-00000000000000aa-01"
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(7, 0xAA, True, trace.TraceFlags(1)))):
        first = client.enqueue("welcome", {})
    second = client.result(first.id, wait=30).unwrap()
    assert client.result(second, wait=30).status == "dead"
    _until(lambda: client.get(untraced.id).status == "waiting")
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(8, 0xBB, True, trace.TraceFlags(1)))):
        client.signal(untraced.id, "go")
    client.result(untraced.id, wait=30)
    _until(lambda: [each.name for each in exporter.get_finished_spans()].count("process mail") == 4)
    spans = [(span, dict(span.attributes or {})) for span in exporter.get_finished_spans()]
    ran = {seen["messaging.message.id"]: (span, seen) for span, seen in spans if span.name == "process mail"}
    sent = {seen["messaging.message.id"]: span for span, seen in spans if span.name == "enqueue mail"}
    for job_id, outcome in ((first.id, "succeeded"), (second, "failed")):
        span, seen = ran[job_id]
        assert (span.kind, span.context.trace_id) == (trace.SpanKind.CONSUMER, 7)
        assert span.parent is not None
        assert span.parent.span_id == sent[job_id].context.span_id
        assert [link.context.span_id for link in span.links] == [sent[job_id].context.span_id]
        assert (seen["headway.outcome"], seen["messaging.client.id"]) == (outcome, worker.worker_id)
        assert (seen["headway.kind"], seen["headway.attempt"]) == ("welcome" if job_id == first.id else "order", 1)
    # what the handler sees and hands on is its own span, in the trace of whoever asked for the first job
    own = ran[first.id][0].context.span_id
    assert inside["welcome"] == (own, caller[3:35], f"00-{7:032x}-{own:016x}-01")
    failed, seen = ran[second]
    assert (failed.status.status_code, failed.status.description) == (trace.StatusCode.ERROR, "boom")
    assert (seen["error.type"], failed.events[0].name) == ("ValueError", "exception")
    # one that nothing traced begins a trace of its own; the step that a signal woke has a link to what sent that
    (signal,) = (span for span, _ in spans if span.name == "signal")
    began, woken = (span for span, seen in spans if seen.get("messaging.message.id") == untraced.id)
    assert (began.parent, began.links, woken.parent) == (None, (), None)
    assert [(link.context.trace_id, link.context.span_id) for link in woken.links] == [(8, signal.context.span_id)]


def test_a_result_too_large_for_a_row_comes_as_the_value(app: Headway, client: Client, working: Any) -> None:
    worker, large = working.new(), ["grüße"] * 150_000

    @worker.handler("survey")
    def survey() -> Any:
        return large

    working(worker)
    job = client.enqueue("survey", {})
    found = client.result(job.id, wait=20)
    assert (found.status, found.unwrap() == large) == ("succeeded", True)
    assert found.artifact is not None
    assert client.get(job.id).result == {"$artifact": found.artifact.id}
    assert app.artifact(found.artifact.id).name == ".result.json"
