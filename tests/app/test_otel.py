"""OpenTelemetry: what sends work has a span, each execution has one that is its child, and nothing is paid when off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headway import Await, Context, Done, Headway, Machine, Next, Snooze, Spawn, step
from headway.telemetry.tracing import Tracing
from headway.testing import drain


class Spans:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def take(self) -> list[ReadableSpan]:
        """The finished spans since the last call, in the order in which they began."""
        found = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        self.exporter.clear()
        return found


@pytest.fixture
def spans(app: Headway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    spans = Spans()
    app.configure(otel=True)
    monkeypatch.setitem(app.__dict__, "_tracing", Tracing(spans.provider))
    yield spans
    spans.provider.shutdown()


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def own(span: ReadableSpan) -> int:
    return span.context.span_id


def test_an_execution_is_the_child_of_its_enqueue(app: Headway, spans: Spans) -> None:
    inside: list[tuple[int, str, str]] = []

    @app.job(queue="mail", max_attempts=1)
    async def sends(ctx: Context) -> None:
        inside.append((trace.get_current_span().get_span_context().span_id, ctx.trace_id, ctx.traceparent))
        in_a_thread.enqueue()

    @app.job(queue="mail", max_attempts=1)
    def in_a_thread(ctx: Context) -> None:
        inside.append((trace.get_current_span().get_span_context().span_id, ctx.trace_id, ctx.traceparent))
        raise ValueError("no\nat all")

    with spans.provider.get_tracer("test").start_as_current_span("request"):
        job = app.tenant("default").enqueue("sends")
    drain(app)
    request, sent, ran, sent_again, failed = spans.take()
    assert [span.name for span in (sent, ran)] == ["enqueue mail", "process mail"]
    assert [span.kind for span in (sent, ran)] == [SpanKind.PRODUCER, SpanKind.CONSUMER]
    assert len({span.context.trace_id for span in (request, sent, ran, sent_again, failed)}) == 1
    assert [parent(span) for span in (request, sent, ran)] == [None, own(request), own(sent)]
    assert [parent(span) for span in (sent_again, failed)] == [own(ran), own(sent_again)]
    assert [link.context.span_id for link in ran.links] == [own(sent)]
    assert sent.attributes == {
        "messaging.system": "headway",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "headway.kind": "sends",
    }
    seen = dict(ran.attributes or {})
    assert seen.pop("messaging.client.id")
    assert seen == {
        "messaging.system": "headway",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "headway.kind": "sends",
        "headway.tenant_id": app.get(job.id).tenant_id,
        "headway.attempt": 1,
        "headway.tries": 0,
        "headway.outcome": "succeeded",
    }
    # what the function sees and hands on is its own span
    assert [(span_id, trace_id) for span_id, trace_id, _ in inside] == [
        (own(span), f"{span.context.trace_id:032x}") for span in (ran, failed)
    ]
    assert [text for _, _, text in inside] == [
        f"00-{span.context.trace_id:032x}-{own(span):016x}-{span.context.trace_flags:02x}" for span in (ran, failed)
    ]
    assert ran.status.status_code is StatusCode.UNSET
    (event,) = failed.events
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "ValueError: no")
    assert failed.attributes is not None
    assert (failed.attributes["error.type"], failed.attributes["headway.outcome"]) == ("ValueError", "dead")
    assert event.attributes is not None
    assert (event.name, event.attributes["exception.type"]) == ("exception", "ValueError")
    assert "in_a_thread" in str(event.attributes["exception.stacktrace"])


def test_batches_and_contexts_that_came_with_the_jobs(app: Headway, spans: Spans) -> None:
    @app.job(max_attempts=2)
    async def work() -> None:
        raise Snooze("1h")

    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    many = app.enqueue_many([work.build(), work.build(), work.using(trace_id="request 7").build()])
    one = work.using(trace_id=f"{given} vendor=1").enqueue()
    drain(app)
    batch, single, *ran = spans.take()
    assert batch.attributes is not None
    assert batch.attributes["messaging.batch.message_count"] == 3
    assert parent(batch) is None
    assert (single.context.trace_id, parent(single)) == (int(given[3:35], 16), int(given[36:52], 16))
    by_job = {span.attributes["messaging.message.id"]: span for span in ran if span.attributes}
    assert {by_job[each.id].attributes["headway.outcome"] for each in (*many, one)} == {"snoozed"}  # type: ignore[index]
    assert [parent(by_job[each.id]) for each in (*many, one)] == [own(batch), own(batch), None, own(single)]
    assert app.get(many[2].id).trace_id == "request 7"
    assert app.get(one.id).trace_id == f"00-{single.context.trace_id:032x}-{own(single):016x}-01 vendor=1"
    assert {span.status.status_code for span in ran} == {StatusCode.UNSET}


def test_the_context_goes_on_to_children_events_and_signals(app: Headway, spans: Spans) -> None:
    @app.job
    async def child() -> None: ...

    @app.job
    async def reacts() -> None: ...

    @app.machine
    class Order(Machine):
        @step
        async def start(self, ctx: Context) -> Any:
            return Spawn([child.build()], then=self.wait)

        @step
        async def wait(self, ctx: Context) -> Any:
            return Await("paid", then=self.paid)

        @step
        async def paid(self, ctx: Context) -> Any:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Any:
            return Done()

    app.create_trigger("react", "order.paid", kind="reacts")
    order = Order.enqueue()
    drain(app)
    sent, start, spawned, wait = spans.take()
    assert [span.attributes["headway.step"] for span in (start, wait) if span.attributes] == ["start", "wait"]
    assert [parent(span) for span in (start, spawned, wait)] == [own(sent), own(start), own(sent)]
    app.signal(order.id, "paid")
    event_id = app.emit("order.paid", {"order": 7})
    drain(app)
    found = {(span.attributes or {}).get("headway.step") or span.name: span for span in spans.take()}
    signal, emitted, reacted = (found[name] for name in ("signal", "emit order.paid", "process default"))
    assert [link.context.span_id for link in found["paid"].links] == [own(sent), own(signal)]
    assert [link.context.span_id for link in found["end"].links] == [own(sent)]
    assert (parent(reacted), reacted.context.trace_id) == (own(emitted), emitted.context.trace_id)
    (stored,) = (event for event in app.events() if event.id == event_id)
    assert (stored.trace_id or "").startswith(f"00-{emitted.context.trace_id:032x}-")


def test_spans_hold_no_secrets_and_a_broken_provider_fails_no_job(
    app: Headway, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "xyzzy-98765-plugh")

    @app.job(max_attempts=1)
    def leaks(token: str) -> None:
        raise ValueError(f"the token {token} is wrong")

    leaks.enqueue(token={"$secret": "API_TOKEN"})
    drain(app)
    *_, failed = spans.take()
    assert "the token" in str(failed.status.description)
    assert "xyzzy" not in failed.to_json()

    @app.job
    async def fine() -> None: ...

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the exporter is on fire")

    fine.enqueue()
    monkeypatch.setattr(Tracing, "begin", broken)
    assert drain(app).succeeded == 1


def test_nothing_of_opentelemetry_is_imported_unless_it_is_on() -> None:
    text = """
import sys
from headway import Headway
from headway.testing import drain
app = Headway(sys.argv[1])
@app.job
def work(): ...
work.enqueue()
assert drain(app).succeeded == 1
import asyncio, httpx2
from headway.api import Api
from headway_client import Client, Worker
key = app.create_api_key("root", "superadmin").text
async def ask():
    at = {"transport": httpx2.ASGITransport(app=Api(app)), "base_url": "http://127.0.0.1"}
    async with httpx2.AsyncClient(**at, headers={"Authorization": f"Bearer {key}"}) as http:
        assert (await http.post("/api/v1/jobs", json={"kind": "work"})).status_code == 201
    await app.aclose()
asyncio.run(ask())
Worker(Client(key=key), queues={"default": 1})
found = {name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client", "headway.telemetry"))}
# the list of our metrics: the server counts from its first request on, without any library
assert found <= {"headway.telemetry", "headway.telemetry.metrics"}, found
"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", text, f"sqlite:///{folder}/work.db"], check=True, timeout=60)
