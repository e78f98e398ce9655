"""The client's worker against a real server: jobs, machines, cancel, grace, a server that goes away."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import httpx2
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
    Unauthorized,
    Worker,
)
from headway_client.logs import JsonFormatter, job
from headway_client.worker import beat_after
from pydantic import BaseModel

from headway import Headway
from tests.connectors.loopback import answer, serving


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
    assert [client.result(each.id, wait=30).status for each in jobs] == ["canceled", "succeeded"]
    assert sorted(stopped) == ["async", "sync"]
    slow = app.enqueue("welcome", {"user_id": 1}, max_attempts=1, timeout="50ms")
    assert client.result(slow.id, wait=30).error == "timed out after 0.05 s"
    lost = client.enqueue("welcome", {"user_id": 1}, max_attempts=1)
    _until(lambda: client.get(lost.id).status == "running")
    app.declare_dead(client.get(lost.id).fields["worker_id"])
    _until(lambda: stopped.count("async") == 3)  # its next heartbeat tells it so
    assert client.get(lost.id).fields["losses"] == 1


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
    def report(ctx: Context) -> str:
        ctx.progress(0.5)
        assert ctx.wait_canceled(60)
        return "canceled"

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


def test_a_worker_that_stops_gives_its_jobs_back(app: Headway, client: Client, working: Any) -> None:
    worker = working.new(grace=0.1)
    release = threading.Event()

    @worker.handler("welcome")
    async def welcome(user_id: int) -> None:
        await asyncio.sleep(60)

    @worker.handler("report")
    def report() -> str:
        release.wait(30)
        return "done"

    working(worker)
    left, ends = client.enqueue("welcome", {"user_id": 1}), client.enqueue("report")
    _until(lambda: {client.get(each.id).status for each in (left, ends)} == {"running"})
    time.sleep(0.01)
    release.set()
    worker.stop()
    _until(lambda: worker.worker_id not in [each.id for each in app.workers()])
    job = client.get(left.id)
    assert (job.status, job.tries, job.fields["losses"]) == ("queued", 0, 0)
    assert client.result(ends.id).unwrap() == "done"


def test_a_handler_that_gives_way_to_a_stopping_worker_runs_again(client: Client, working: Any) -> None:
    worker = working.new(grace=30.0)
    began = threading.Semaphore(0)

    def wait(ctx: Context) -> None:
        assert (ctx.canceled, ctx.stopping) == (False, False)
        began.release()
        _until(lambda: ctx.stopping)
        assert not ctx.canceled  # the grace period is not over

    @worker.handler("welcome")
    def welcome(ctx: Context) -> str:
        wait(ctx)
        return "half of it"

    @worker.handler("report")
    def report(ctx: Context) -> Done:
        wait(ctx)
        return Done("all of it")

    @worker.handler("order", step="start")
    def order(ctx: Context) -> Next:
        wait(ctx)
        return Next("ship")

    working(worker)
    jobs = [client.enqueue(kind) for kind in ("welcome", "report", "order")]
    for _ in jobs:
        assert began.acquire(timeout=30)
    worker.stop()
    half, whole, step = jobs
    _until(lambda: client.get(half.id).status == "queued")
    assert [each.status for each in client.attempts(half.id)] == ["released"]
    assert client.get(half.id).tries == 0
    assert client.result(whole.id).unwrap() == "all of it"
    assert (client.get(step.id).status, client.get(step.id).fields["step"]) == ("queued", "ship")


_DEAF = """
import sys, time
from headway_client import Worker

worker = Worker(queues={"mail": 1})

@worker.handler("welcome")
def welcome():
    print("began", flush=True)
    time.sleep(600)

worker.run()
"""


@pytest.mark.parametrize(("grace", "signals"), [("100ms", 1), ("10m", 2)])
def test_a_function_that_does_not_end_does_not_keep_the_worker(
    grace: str, signals: int, app: Headway, server: Any, client: Client
) -> None:
    key = app.create_api_key("worker", "worker").text
    job = client.enqueue("welcome")
    environ = os.environ | {"HEADWAY_API": server.address, "HEADWAY_KEY": key, "HEADWAY_GRACE": grace}
    with subprocess.Popen([sys.executable, "-c", _DEAF], env=environ, stdout=-1, stderr=-1, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stderr is not None
            assert worker.stdout.readline() == "began\n"
            worker.terminate()
            if signals == 2:
                while "stopping" not in worker.stderr.readline():
                    assert worker.poll() is None
                worker.terminate()
            assert worker.wait(30) == 0
        finally:
            worker.kill()
    given_back = client.get(job.id)
    assert (given_back.status, given_back.tries, given_back.fields["losses"]) == ("queued", 0, 0)


def test_a_function_that_outlives_the_grace_of_an_embedded_worker_is_named(
    client: Client, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = working.new(grace=0.05)
    began, end = threading.Event(), threading.Event()

    @worker.handler("welcome")
    def welcome() -> None:
        began.set()
        end.wait(60)

    working(worker)
    job = client.enqueue("welcome")
    assert began.wait(30)
    worker.stop()
    _until(lambda: "worker stopped" in caplog.text)
    end.set()
    said = [each for each in caplog.records if "runs on" in each.message]
    assert [each.__dict__["job_id"] for each in said] == [job.id]
    assert "after its job was given back" in said[0].message
    assert client.get(job.id).status == "queued"


def test_a_worker_whose_key_is_refused_from_the_start_ends(
    app: Headway, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    narrow = app.create_api_key("other", "worker", queues=["other"]).text
    for key, error in (("hw_live_wrong", Unauthorized), (narrow, NotAllowed)):
        caplog.clear()
        worker = Worker(Client(server.address, key=key), queues={"mail": 1})
        worker.handler("welcome")(lambda: None)
        with pytest.raises(error):
            asyncio.run(worker.arun())
        (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert "headway keys create" in said.message


def test_a_worker_whose_key_is_refused_later_asks_again_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    problem = '{"code": "Unauthorized", "detail": "no such key", "fix": "make one"}'
    claims: list[float] = []

    def server(asked: Any) -> bytes:
        if not asked.target.endswith("/claim"):
            return answer(401, problem, content_type="application/problem+json", connection="close")
        claims.append(time.monotonic())
        if len(claims) in (1, 5):
            return answer(200, '{"jobs": [], "lease_expires_at": "2099-01-02T03:04:05Z"}', connection="close")
        return answer(401, problem, content_type="application/problem+json", connection="close")

    with serving(server) as front:
        worker = Worker(Client(front.url, key="hw_x"), queues={"mail": 1})
        worker.handler("welcome")(lambda: None)
        thread = threading.Thread(target=lambda: asyncio.run(worker.arun()), daemon=True)
        thread.start()
        _until(lambda: len(claims) >= 6)
        worker.stop()
        thread.join(30)
    pauses = [after - before for before, after in itertools.pairwise(claims[1:5])]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 1.5
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 2  # one each time that it begins


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


def test_a_server_that_goes_away_loses_nothing(app: Headway, server: Any, client: Client, working: Any) -> None:
    worker = working.new()
    began, go = threading.Event(), threading.Event()

    @worker.handler("welcome")
    def welcome(user_id: int) -> int:
        began.set()
        assert go.wait(30)
        return user_id

    working(worker)
    made = app.tenant("default").enqueue("welcome", {"user_id": 7})
    assert began.wait(30)
    server.stop()
    go.set()
    time.sleep(0.1)
    server.start()
    assert client.result(made.id, wait=30).unwrap() == 7
    assert len(client.attempts(made.id)) == 1


def test_a_worker_outlasts_a_proxy_that_knows_no_server(
    app: Headway, server: Any, client: Client, working: Any
) -> None:
    """Its 404 refuses neither a claim nor an outcome; its 413 refuses what is too large, and only that."""
    page = {"content_type": "text/html", "connection": "close"}
    unknown = ["/worker/jobs/claim", "/worker/settle"]

    def proxy(asked: Any) -> bytes:
        path = asked.target.removeprefix("/api/v1")
        if path in unknown:
            unknown.remove(path)
            return answer(404, "<html>", **page)
        if len(asked.body) > 20_000:
            return answer(413, "<html>", **page)
        headers = {name: asked.headers[name] for name in ("authorization", "content-type") if name in asked.headers}
        said = httpx2.request(
            asked.method, server.address + asked.target, content=asked.body, headers=headers, timeout=60
        )
        kept = {"content_type": said.headers.get("content-type", ""), "date": said.headers["date"]}
        return answer(said.status_code, said.content, connection="close", **kept)

    with serving(proxy) as front:
        worker = Worker(
            Client(front.url, key=app.create_api_key("proxied", "worker").text), queues={"mail": 4}, heartbeat=0.1
        )

        @worker.handler("welcome")
        async def welcome(size: int, ctx: Context) -> str:
            if size:
                ctx.log("y" * 30_000)
                await asyncio.sleep(0.5)
            return "x" * size

        working(worker)
        small = client.enqueue("welcome", {"size": 0})
        assert client.result(small.id, wait=30).unwrap() == ""
        assert (unknown, len(client.attempts(small.id))) == ([], 1)
        large = client.result(client.enqueue("welcome", {"size": 30_000}).id, wait=30)
        assert (large.status, "its outcome was refused" in (large.error or "")) == ("dead", True)
        worker.stop()


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


def test_a_worker_outlasts_answers_of_another_program(app: Headway, server: Any, client: Client, working: Any) -> None:
    """Such as a page "we will be back soon" that is JSON and says 200."""
    strange = {"/worker/jobs/claim": 1, "/worker/settle": 1, "/worker/heartbeat": 2}

    def proxy(asked: Any) -> bytes:
        path = asked.target.removeprefix("/api/v1")
        if strange.get(path):
            strange[path] -= 1
            return answer(200, '{"status": "maintenance"}', content_type="application/json", connection="close")
        headers = {name: asked.headers[name] for name in ("authorization", "content-type") if name in asked.headers}
        said = httpx2.request(
            asked.method, server.address + asked.target, content=asked.body, headers=headers, timeout=60
        )
        kept = {"content_type": said.headers.get("content-type", ""), "date": said.headers["date"]}
        return answer(said.status_code, said.content, connection="close", **kept)

    with serving(proxy) as front:
        key = app.create_api_key("proxied", "worker").text
        worker = Worker(Client(front.url, key=key), queues={"mail": 4}, heartbeat=0.05)

        @worker.handler("welcome")
        async def welcome() -> None:
            await asyncio.sleep(60)

        @worker.handler("report")
        async def report() -> str:
            return "done"

        working(worker)
        canceled, ends = client.enqueue("welcome"), client.enqueue("report")
        assert client.result(ends.id, wait=20).unwrap() == "done"
        _until(lambda: not any(strange.values()))
        client.cancel(canceled.id)  # heartbeats go on
        assert client.result(canceled.id, wait=20).status == "canceled"
        worker.stop()
