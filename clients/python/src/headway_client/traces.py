"""Traces: the W3C headers by which what is created here belongs to the trace of what created it."""

from __future__ import annotations

import contextvars
import sys

running: contextvars.ContextVar[str | None] = contextvars.ContextVar("headway_traceparent", default=None)
"""The `traceparent` of the job that runs here."""


def trace_headers() -> dict[str, str]:
    """Of OpenTelemetry's current span, if the program uses that; else of the job that runs here, if one does."""
    propagate = sys.modules.get("opentelemetry.propagate")
    if propagate is not None:
        found: dict[str, str] = {}
        propagate.inject(found)
        if "traceparent" in found:
            return {name: found[name] for name in ("traceparent", "tracestate") if name in found}
    traceparent = running.get()
    return {} if traceparent is None else {"traceparent": traceparent}
