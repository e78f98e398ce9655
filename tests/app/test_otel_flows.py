"""OpenTelemetry: a span for each operation of a flow, below that of the execution that carried it out."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace import StatusCode

from headway import Flow, Headway
from headway.testing import drain
from tests.app.test_otel import Spans, own, parent, spans  # noqa: F401 a fixture


def test_each_operation_has_a_span(app: Headway, spans: Spans) -> None:  # noqa: F811
    inside: list[int] = []

    @app.job
    def pack(order: int) -> str:
        return f"parcel {order}"

    async def reserve(order: int) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    def refuse() -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)
        raise ValueError("no")

    @app.flow
    async def f(flow: Flow) -> Any:
        await flow.step(reserve, 1)
        await flow.step(reserve, 2)
        await flow.call(pack, order=1)
        await flow.receive("payment")
        await flow.sleep(0.01)
        await flow.using(max_attempts=2, backoff=lambda _: 0.0).step(refuse)

    job = f.enqueue()
    app.signal(job.id, "payment")
    drain(app)
    assert app.get(job.id).status == "dead"
    found = spans.take()
    runs = {own(span): span for span in found if span.name == "process default"}
    operations = [span for span in found if "headway.operation" in (span.attributes or {})]
    assert [(span.name, (span.attributes or {})["headway.place"]) for span in operations] == [
        ("step reserve", "reserve"),
        ("step reserve", "reserve#2"),
        ("call pack", "call:pack"),
        ("receive payment", "receive:payment"),
        ("sleep", "sleep"),
        ("step refuse", "refuse"),
        ("step refuse", "refuse"),
    ]
    assert {parent(span) for span in operations} <= set(runs)
    steps = [span for span in operations if span.name.startswith("step")]
    assert inside == [own(span) for span in steps]
    assert [span.status.status_code for span in operations] == [StatusCode.UNSET] * 5 + [StatusCode.ERROR] * 2
    assert (operations[-1].attributes or {})["error.type"] == "ValueError"
    assert operations[-1].status.description == "no"


def test_a_replay_makes_no_spans(app: Headway, spans: Spans) -> None:  # noqa: F811
    @app.flow
    async def f(flow: Flow) -> None:
        await flow.step(str, "one")
        await flow.receive("go")
        await flow.step(str, "two")

    job = f.enqueue()
    drain(app)
    app.signal(job.id, "go")
    drain(app)
    assert app.get(job.id).status == "succeeded"
    names = [span.name for span in spans.take() if "headway.operation" in (span.attributes or {})]
    assert names == ["step str", "receive go", "step str"]
