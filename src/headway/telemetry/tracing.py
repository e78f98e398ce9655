"""Tracing: OpenTelemetry spans for what sends work, one for each execution, and one for each HTTP request.

Only the API of OpenTelemetry is used; the program that Headway runs in configures the SDK. The names are those of its
semantic conventions: for messaging, a queue is the destination and a job the message; for HTTP, see `request_span.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from headway.errors import ConfigError, Replayed
from headway.model.event import NewEvent
from headway.model.job import Claim, NewJob, Settlement
from headway.model.signal import NewSignal, Received
from headway.model.trace import carried, is_traceparent, trace_id, traceparent, tracestate

try:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from headway.telemetry.request_span import RequestSpan, attributes_of, method_of
except ImportError as error:
    raise ConfigError(
        f"otel=True needs OpenTelemetry, which is not installed ({error}): pip install 'headway-engine[otel]'"
    ) from None

SYSTEM = "headway"
_FAILED = frozenset({"failed", "timeout", "lost"})
_MOST_LINKS = 32
_HAS_SPANS = context.create_key("headway-has-spans")

Sent = TypeVar("Sent", NewJob, NewEvent, NewSignal)


class Tracing:
    """Makes spans and carries their context, as one text, on jobs, events and signals."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("headway", tracer_provider=provider)
        self._w3c = TraceContextTextMapPropagator()

    @contextmanager
    def sending(self, verb: str, destination: str | None, batch: Sequence[Sent]) -> Iterator[list[Sent]]:
        """One span for one call, however many it sends; gives the batch with the span's context on each of them.

        What came with a `traceparent` of its own keeps it, unless all of the batch have the same: then the span is its
        child. An id of another form stays as it is.
        """
        if context.get_value(_HAS_SPANS):
            yield list(batch)
            return
        first = batch[0] if batch else None
        given = {each.trace_id for each in batch}
        shared = first.trace_id if first is not None and len(given) == 1 and is_traceparent(first.trace_id) else None
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": verb,
            "messaging.operation.type": "send",
        }
        if destination is not None:
            attributes["messaging.destination.name"] = destination
        if len(batch) == 1 and first is not None:
            attributes["messaging.message.id"] = first.id
            attributes |= _of_sent(first)
        else:
            attributes["messaging.batch.message_count"] = len(batch)
        name = verb if destination is None else f"{verb} {destination}"
        replayed: Replayed | None = None
        with self._tracer.start_as_current_span(
            name, self._parent(shared), kind=trace.SpanKind.PRODUCER, attributes=attributes
        ) as span:
            carries = self._carried(span)
            try:
                yield [
                    msgspec.structs.replace(each, trace_id=carries)
                    if carries is not None and (each.trace_id is None or each.trace_id == shared)
                    else each
                    for each in batch
                ]
            except Replayed as done:  # an answer, not a failure
                replayed = done
        if replayed is not None:
            raise replayed

    @contextmanager
    def sent_already(self) -> Iterator[None]:
        """For storing what callers have sent in spans of their own: `sending` makes none meanwhile."""
        token = context.attach(context.set_value(_HAS_SPANS, True))
        try:
            yield
        finally:
            context.detach(token)

    def request(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> RequestSpan:
        """The span of an HTTP request, current in this task until it ends: a child of the request's `traceparent`, or
        of the span that a surrounding application already has for it."""
        inside = trace.get_current_span().get_span_context().is_valid
        span = self._tracer.start_span(
            method_of(scope),
            None if inside else self._context(carried(headers.get("traceparent"), headers.get("tracestate"))),
            kind=trace.SpanKind.INTERNAL if inside else trace.SpanKind.SERVER,
            attributes=attributes_of(scope, headers),
        )
        return RequestSpan(span, method_of(scope))

    def begin(self, claim: Claim, *, step: str | None, worker_id: str, signals: Sequence[Received] = ()) -> Attempt:
        """The span of an execution, current in this task from now on. It is a child of the span that sent the job, and
        links to that one and to those that sent its signals."""
        sent = self._context(claim.trace_id)
        links = [self._context(each.trace_id) for each in signals[:_MOST_LINKS] if each.trace_id is not None]
        found = [trace.get_current_span(each).get_span_context() for each in (sent, *links) if each is not None]
        attributes: dict[str, Any] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": claim.queue,
            "messaging.message.id": claim.id,
            "messaging.client.id": worker_id,
            "headway.kind": claim.kind,
            "headway.tenant_id": claim.tenant_id,
            "headway.attempt": claim.fence,
            "headway.tries": claim.tries,
        }
        if step is not None:
            attributes["headway.step"] = step
        if claim.correlation_id is not None:
            attributes["messaging.message.conversation_id"] = claim.correlation_id
        span = self._tracer.start_span(
            f"process {claim.queue}",
            sent or context.Context(),  # a worker's own span is no job's parent
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=[trace.Link(each) for each in found if each.is_valid],
        )
        context.attach(trace.set_span_in_context(span))  # the task ends with its job, and so does its context
        carries = self._carried(span) if span.get_span_context().is_valid else None
        return Attempt(span, claim if carries is None else msgspec.structs.replace(claim, trace_id=carries))

    def operation(self, kind: str, place: str, *, began_ns: int | None = None) -> trace.Span:
        """The span of one operation of a flow, below its execution's."""
        name = place.partition("#")[0].removeprefix(f"{kind}:")
        many = kind in ("send", "cancel") or name == kind  # a name for each job would be one for each span
        return self._tracer.start_span(
            kind if many else f"{kind} {name}",
            attributes={"headway.operation": kind, "headway.place": place},
            start_time=began_ns,
        )

    @staticmethod
    def make_current(span: trace.Span) -> None:
        """For the rest of this task."""
        context.attach(trace.set_span_in_context(span))

    @staticmethod
    def end_operation(span: trace.Span, *, error: str | None, error_type: str | None) -> None:
        """`error` as it is stored: without secrets."""
        if error_type is not None:
            span.set_attribute("error.type", error_type)
            span.set_status(trace.Status(trace.StatusCode.ERROR, error))
        span.end()

    def _parent(self, shared: str | None) -> context.Context | None:
        """None: whatever is current. A `traceparent` that the batch brought is the parent, unless the current span is
        of that trace already."""
        if shared is None:
            return None
        current = trace.get_current_span().get_span_context()
        if current.is_valid and trace.format_trace_id(current.trace_id) == trace_id(shared, ""):
            return None
        return self._context(shared)

    def _context(self, text: str | None) -> context.Context | None:
        if not is_traceparent(text):
            return None
        headers = {"traceparent": traceparent(text, ""), "tracestate": tracestate(text) or ""}
        return self._w3c.extract(headers, context.Context())

    def _carried(self, span: trace.Span) -> str | None:
        headers: dict[str, str] = {}
        self._w3c.inject(headers, trace.set_span_in_context(span, context.Context()))
        return carried(headers.get("traceparent"), headers.get("tracestate"))


class Attempt:
    """The open span of an execution. `claim` is the execution's, with the span's context as its trace: its log lines,
    programs and children belong to that."""

    __slots__ = ("_span", "claim", "error")

    def __init__(self, span: trace.Span, claim: Claim) -> None:
        self._span = span
        self.claim = claim
        self.error: BaseException | None = None  # what the handler raised

    def end(self, settlement: Settlement | None, outcome: str) -> None:
        """End the span. The error is recorded as it is stored: without secrets."""
        span = self._span
        span.set_attribute("headway.outcome", outcome)
        if settlement is None:
            span.end()
            return
        if settlement.exit_code is not None:
            span.set_attribute("process.exit.code", settlement.exit_code)
        if settlement.status in _FAILED:
            text = settlement.error or settlement.status
            head, _, stack = text.partition("\n")
            kind = _type(self.error, settlement.status)
            span.set_attribute("error.type", kind)
            recorded = {"exception.type": kind, "exception.message": head, "exception.stacktrace": stack.strip()}
            span.add_event("exception", {name: value for name, value in recorded.items() if value})
            span.set_status(trace.Status(trace.StatusCode.ERROR, head))
        span.end()


def _of_sent(sent: NewJob | NewEvent | NewSignal) -> dict[str, Any]:
    match sent:
        case NewJob():
            return {"headway.kind": sent.kind}
        case NewEvent():
            return {"headway.event": sent.name}
        case NewSignal():
            return {"headway.signal": sent.name}


def _type(error: BaseException | None, status: str) -> str:
    if error is None or status == "timeout":
        return status
    made_in = type(error).__module__
    return type(error).__qualname__ if made_in == "builtins" else f"{made_in}.{type(error).__qualname__}"
