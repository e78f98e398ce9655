"""The span of a request, where traces are on: telemetry that fails must not fail a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.types import Scope

from headway.api.wire.exchange import Exchange
from headway.logs import Seldom, get_logger

if TYPE_CHECKING:
    from headway.telemetry.request_span import RequestSpan
    from headway.telemetry.tracing import Tracing

_log = get_logger("headway.api")
_says = Seldom(60)


def begin_span(tracing: Tracing, scope: Scope, exchange: Exchange) -> RequestSpan | None:
    """Begin it; from now on it is the current one. What the request creates is below it."""
    try:
        span = tracing.request(scope, exchange.sent)
    except Exception as error:
        _tell(error)
        return None
    exchange.trace_id = span.trace_id
    return span


def end_span(span: RequestSpan, exchange: Exchange) -> None:
    try:
        span.end(
            route=exchange.route,
            status=exchange.status,
            request_id=exchange.request_id,
            tenant_id=exchange.tenant_id,
            key_id=exchange.key_id,
        )
    except Exception as error:
        _tell(error)


def _tell(error: Exception) -> None:
    if _says():
        _log.warning("a span could not be written: the request is not affected", exc_info=error)
