"""Spans: one for each execution, where the worker is told to make them. OpenTelemetry is imported only then."""

from __future__ import annotations

import logging
from typing import Any

from headway_client.context import Context
from headway_client.errors import ConfigError

try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise ConfigError(
        f"HEADWAY_OTEL needs OpenTelemetry, which is not installed ({missing}): pip install 'headway-client[otel]'"
    ) from None

log = logging.getLogger("headway.worker")
_MOST_LINKS = 32


class Spans:
    """Makes the spans of a worker; the program configures the SDK, and where they go."""

    def __init__(self, worker_id: str, provider: Any = None) -> None:
        self._tracer = trace.get_tracer("headway", tracer_provider=provider)
        self._w3c = TraceContextTextMapPropagator()
        self._worker_id = worker_id

    def begin(self, ctx: Context) -> trace.Span | None:
        """The span of this execution, current in this task from now on, whose context becomes the job's: a child of
        what enqueued it, with links to that and to whatever sent its signals. None if it cannot be made."""
        try:
            return self._begin(ctx)
        except Exception:
            log.warning("a span could not be written: the job is not affected", exc_info=True)
            return None

    def _begin(self, ctx: Context) -> trace.Span:
        attributes: dict[str, Any] = {
            "messaging.system": "headway",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": ctx.queue,
            "messaging.message.id": ctx.job_id,
            "messaging.client.id": self._worker_id,
            "headway.kind": ctx.kind,
            "headway.tenant_id": ctx.tenant_id,
            "headway.attempt": ctx.fence,
            "headway.tries": ctx.tries,
        }
        if ctx.step is not None:
            attributes["headway.step"] = ctx.step
        sent = self._sender(ctx)
        signals = [self._extracted(each.traceparent, each.tracestate) for each in ctx.signals[:_MOST_LINKS]]
        senders = [trace.get_current_span(each).get_span_context() for each in (sent, *signals)]
        span = self._tracer.start_span(
            f"process {ctx.queue}",
            sent,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[trace.Link(sender) for sender in senders if sender.is_valid],
        )
        context.attach(trace.set_span_in_context(span))  # the task ends with its job, and so does its context
        own = span.get_span_context()
        if own.is_valid:
            headers: dict[str, str] = {}
            self._w3c.inject(headers)
            ctx.trace_id, ctx.traceparent = trace.format_trace_id(own.trace_id), headers["traceparent"]
        return span

    def _sender(self, ctx: Context) -> context.Context:
        """Where it was enqueued. For a job that nothing traced the server names a span after the job's id, which does
        not exist: it begins a trace of its own."""
        if ctx.traceparent.split("-")[2] == ctx.job_id.replace("-", "")[16:]:
            return context.Context()
        return self._extracted(ctx.traceparent, ctx.fields.get("tracestate"))

    def _extracted(self, traceparent: str | None, tracestate: str | None) -> context.Context:
        headers = {"traceparent": traceparent or "", "tracestate": tracestate or ""}
        return self._w3c.extract(headers, context.Context())


def end(span: trace.Span, said: dict[str, Any], error: BaseException | None, *, stopped: bool, dropped: bool) -> None:
    """End the span of an execution of which the server is told this; `error` is what its handler raised."""
    try:
        reason = said.get("error") or said.get("outcome", {}).get("stop")
        if dropped:
            outcome = "lost"
        elif stopped:
            outcome = "given back"
        elif reason is not None:
            outcome = "failed"  # the server decides whether it is tried again
            span.set_attribute("error.type", "failed" if error is None else type(error).__qualname__)
            if error is not None:
                span.record_exception(error)
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(error or reason)))
        else:
            outcome = "succeeded" if "result" in said or "done" in said["outcome"] else "stepped"
        span.set_attribute("headway.outcome", outcome)
        span.end()
    except Exception:
        log.warning("a span could not be written: the job is not affected", exc_info=True)
