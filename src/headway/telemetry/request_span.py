"""The span of an HTTP request, by OpenTelemetry's semantic conventions for HTTP servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import context, trace

_METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})


class RequestSpan:
    """Current from its making until `end`, in the same task."""

    __slots__ = ("_method", "_span", "_token", "trace_id")

    def __init__(self, span: trace.Span, method: str) -> None:
        self._span = span
        self._method = method
        self._token = context.attach(trace.set_span_in_context(span))
        found = span.get_span_context()
        self.trace_id = trace.format_trace_id(found.trace_id) if found.is_valid else None

    def end(
        self, *, route: str | None, status: int, request_id: str, tenant_id: str | None, key_id: str | None
    ) -> None:
        """End it. `route` is the template that matched, None if none did; `status` is 0 if nothing was answered."""
        span = self._span
        if route is not None:
            span.update_name(f"{self._method} {route}")
        known = {
            "http.route": route,
            "http.response.status_code": status or None,
            "headway.request_id": request_id,
            "headway.tenant_id": tenant_id,
            "headway.key_id": key_id,
        }
        span.set_attributes({name: value for name, value in known.items() if value is not None})
        if status >= 500:  # a refused request is the client's failure, not the server's
            span.set_attribute("error.type", str(status))
            span.set_status(trace.Status(trace.StatusCode.ERROR))
        span.end()
        context.detach(self._token)


def method_of(scope: Mapping[str, Any]) -> str:
    """The method, or "HTTP" for one that HTTP does not define: the names of spans must stay few."""
    return scope["method"] if scope["method"] in _METHODS else "HTTP"


def attributes_of(scope: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """What is known when it begins, so that samplers see it. Without the query, which may hold a login token."""
    host, colon, port = headers.get("host", "").rpartition(":")
    if not colon or not port.isdigit():
        host, port = headers.get("host", ""), ""
    client = scope.get("client")
    known = {
        "http.request.method": scope["method"] if scope["method"] in _METHODS else "_OTHER",
        "url.scheme": scope.get("scheme"),
        "url.path": scope["path"],
        "network.protocol.version": scope.get("http_version"),
        "server.address": host.strip("[]"),
        "server.port": int(port) if port else None,
        "client.address": client[0] if client else None,
        "user_agent.original": headers.get("user-agent"),
    }
    return {name: value for name, value in known.items() if value not in (None, "")}
