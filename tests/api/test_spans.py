"""Spans of requests: they continue the caller's trace, what a request creates is below its own, and no other's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headway import Headway
from headway.api import Api
from headway.dashboard.site import Site
from headway.telemetry.tracing import Tracing

JOB = {"kind": "welcome", "payload": {"user_id": 7}}
Found = dict[str, list[ReadableSpan]]


@pytest.fixture
def spans(app: Headway, monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app.configure(otel=True)
    monkeypatch.setitem(app.__dict__, "_tracing", Tracing(provider))
    monkeypatch.setitem(app.__dict__, "_is_observed", True)
    yield exporter
    provider.shutdown()


@pytest.fixture
def api(app: Headway, spans: InMemorySpanExporter) -> Api:
    return Api(app, site=Site)


def test_a_request_continues_its_callers_trace_and_jobs_continue_the_requests(
    app: Headway,
    api: Api,
    loop: asyncio.AbstractEventLoop,
    keys: dict[str, str],
    spans: InMemorySpanExporter,
    caplog: Any,
) -> None:
    caplog.set_level(logging.INFO, "headway.api")
    traces = [f"{n:032x}" for n in range(1, 7)]
    headers = {"Authorization": f"Bearer {keys['producer']}", "User-Agent": "shop/1"}

    async def asks() -> list[httpx.Response]:
        at = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api), base_url="http://127.0.0.1:8420", headers=headers
        )
        async with at as http:
            sent = [{"traceparent": f"00-{trace}-00000000000000aa-01", "tracestate": "shop=1"} for trace in traces]
            made = [http.post("/api/v1/jobs", json=JOB, headers=each) for each in sent]  # these are stored together
            made += [http.post("/api/v1/jobs", json=JOB), http.post("/api/v1/jobs", json=JOB)]
            first = await asyncio.gather(*made)
            again = {**sent[0], "Idempotency-Key": "once"}
            last = [await http.post("/api/v1/jobs", json=JOB, headers=again) for _ in range(2)]
            many = await http.post("/api/v1/jobs/batch", json={"jobs": [JOB, JOB]}, headers=sent[1])
            return [*first, *last, many]

    said = loop.run_until_complete(asks())
    assert [each.status_code for each in said] == [201] * 11
    assert said[8].json()["id"] == said[9].json()["id"]
    found = spans.get_finished_spans()
    servers = {span.context.span_id: span for span in found if span.kind is SpanKind.SERVER}
    producers = [span for span in found if span.kind is SpanKind.PRODUCER]
    assert len(servers) == len(producers) == 11
    below = {servers[span.parent.span_id].context.span_id: span for span in producers if span.parent is not None}
    assert below.keys() == servers.keys(), "each enqueue is below the request that asked for it"
    assert {span.status.status_code for span in found} == {StatusCode.UNSET}, "a repeated request is no failure"
    # the job carries the context of its own request's enqueue, in the caller's trace
    for trace, each in zip(traces, said, strict=False):
        job = app.get(each.json()["id"])
        (sent,) = (
            span for span in producers if span.attributes and span.attributes.get("messaging.message.id") == job.id
        )
        assert (job.trace, job.trace_id) == (trace, f"00-{trace}-{sent.context.span_id:016x}-01 shop=1")
        parent = servers[sent.parent.span_id].parent if sent.parent else None
        assert (sent.context.trace_id, parent and parent.span_id) == (int(trace, 16), 0xAA)
    untraced = {app.get(each.json()["id"]).trace for each in said[6:8]}
    assert len(untraced) == 2
    assert not untraced & set(traces)
    seen = dict(servers[next(iter(servers))].attributes or {})
    assert seen.pop("headway.request_id")
    assert seen.pop("headway.key_id")
    assert seen.pop("headway.tenant_id") == app.get(said[0].json()["id"]).tenant_id
    assert seen == {
        "http.request.method": "POST",
        "http.route": "/api/v1/jobs",
        "http.response.status_code": 201,
        "url.scheme": "http",
        "url.path": "/api/v1/jobs",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
        "server.port": 8420,
        "client.address": "127.0.0.1",
        "user_agent.original": "shop/1",
    }
    ours = [record.headway for record in caplog.records if record.name == "headway.api"]
    logged = [fields["trace_id"] for fields in ours if fields["event"] == "request"]
    assert set(logged) == {f"{span.context.trace_id:032x}" for span in servers.values()}


def test_a_span_has_the_route_and_tells_of_failures(
    app: Headway, client: Any, keys: dict[str, str], spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = client(keys["superadmin"])
    job = app.tenant("acme").enqueue("welcome", {"user_id": 7})
    spans.clear()
    for path in ("/healthz", "/readyz", "/metrics"):
        assert root.get(path).status_code == 200
    assert not spans.get_finished_spans(), "what machines ask all the time has no span"
    root.get(f"/jobs/{job.id}", headers={"Headway-Tenant": "acme"})
    root.get("/nowhere?key=secret")
    root("BREW", "/jobs")
    monkeypatch.setattr(type(app.store.ops), "limits", None)
    root.get("/limits")
    found = spans.get_finished_spans()
    assert [span.name for span in found] == ["GET /api/v1/jobs/{id}", "GET", "HTTP", "GET /api/v1/limits"]
    seen: list[Any] = [dict(span.attributes or {}) for span in found]
    assert [each["http.response.status_code"] for each in seen] == [200, 404, 405, 500]
    assert seen[0]["headway.tenant_id"] == app.get(job.id).tenant_id
    assert [each.get("http.route") for each in seen[1:3]] == [None, None]
    assert seen[2]["http.request.method"] == "_OTHER"
    assert [span.status.status_code for span in found] == [StatusCode.UNSET] * 3 + [StatusCode.ERROR]
    assert seen[3]["error.type"] == "500"
    assert "secret" not in json.dumps(seen)

    def broken(*_: Any) -> Any:
        raise RuntimeError("the exporter is on fire")

    monkeypatch.setattr(Tracing, "request", broken)
    assert root.get(f"/jobs/{job.id}").status_code == 200


def test_pages_have_the_template_of_their_path(
    app: Headway, api: Api, loop: asyncio.AbstractEventLoop, keys: dict[str, str], spans: InMemorySpanExporter
) -> None:
    job = app.tenant("acme").enqueue("welcome", {"user_id": 7})
    spans.clear()

    async def asks() -> None:
        at = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api, root_path="/work"),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {keys['superadmin']}"},
        )
        async with at as http:
            for path in ("/login", f"/t/acme/jobs/{job.id}", "/assets/nothing.css"):
                await http.get(f"/work{path}")

    loop.run_until_complete(asks())
    assert [
        (span.name, (span.attributes or {})["http.response.status_code"]) for span in spans.get_finished_spans()
    ] == [
        ("GET /work/login", 200),
        ("GET /work/t/{tenant}/jobs/{id}", 200),
        ("GET /work/assets/{name}", 404),
    ]


def test_inside_an_application_that_traces_the_request_belongs_to_its_span(
    api: Api, client: Any, keys: dict[str, str], spans: InMemorySpanExporter, loop: asyncio.AbstractEventLoop
) -> None:
    provider: Any = TracerProvider()
    with provider.get_tracer("host").start_as_current_span("GET /work") as host:
        client(keys["superadmin"]).get("/limits", headers={"traceparent": f"00-{7:032x}-00000000000000aa-01"})
    (own,) = spans.get_finished_spans()
    assert own.kind is SpanKind.INTERNAL
    assert own.parent is not None
    assert own.parent.span_id == host.get_span_context().span_id
