"""Requests as values: what both clients send, how an answer is read, and when to try again."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import uuid4

import httpx2

from headway_client.errors import ApiError, Unavailable, UnexpectedAnswer, error_of
from headway_client.settings import Settings
from headway_client.traces import trace_headers

T = TypeVar("T")

_AWAY = frozenset({502, 503, 504})  # what a proxy answers while the server is away
_AGAIN = _AWAY | {429}
_PROBLEM = "application/problem+json"
_LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request; `read` makes its answer of the body."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, Any] | None = None
    creates: bool = False  # the server does it once, however often it is sent
    repeatable: bool = True
    wait_s: float = 0.0
    dated: bool = False  # `read` finds the server's time in the body, as `date`
    headers: dict[str, str] = field(default_factory=dict)
    upload: Iterable[bytes] | AsyncIterable[bytes] | None = None  # a body that is a file

    def keyed(self) -> Request[T]:
        """The same with an Idempotency-Key and the trace that it belongs to, if it creates something."""
        if not self.creates:
            return self
        return Request(
            self.method,
            self.path,
            self.read,
            self.body,
            self.query,
            wait_s=self.wait_s,
            headers={"Idempotency-Key": str(uuid4()), **trace_headers()},
        )


def options(settings: Settings) -> dict[str, Any]:
    """Of an httpx2 client."""
    headers = {"Authorization": f"Bearer {settings.key}", "User-Agent": "headway-client"}
    if settings.tenant is not None:
        headers["Headway-Tenant"] = settings.tenant
    return {"base_url": f"{settings.api}/api/v1", "headers": headers, "timeout": settings.timeout}


def sent(request: Request[T], settings: Settings) -> dict[str, Any]:
    """What httpx2's `request` takes."""
    given: dict[str, Any] = {
        "method": request.method,
        "url": request.path,
        "timeout": settings.timeout + request.wait_s,
        "headers": dict(request.headers),
    }
    if request.query:
        given["params"] = {name: value for name, value in request.query.items() if value is not None}
    if request.body is not None:
        given["content"] = json.dumps(request.body, separators=(",", ":"), allow_nan=False)
        given["headers"]["Content-Type"] = "application/json"
    elif request.upload is not None:
        given["content"] = request.upload
        given["headers"]["Content-Type"] = "application/octet-stream"
    return given


def answered(request: Request[T], response: httpx2.Response) -> T:
    """Raises the error that the answer means, whatever it looks like: a proxy's page, or a redirect, which is not
    followed."""
    if response.status_code >= 300:
        raise _refusal(request, response)
    try:
        body: Any = json.loads(response.content) if response.content else None
    except ValueError as error:
        raise _unexpected(request, "it is not JSON") from error
    try:
        if request.dated:
            body["date"] = response.headers.get("Date")
        return request.read(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unexpected(request, repr(error)) from error


def _refusal(request: Request[Any], response: httpx2.Response) -> ApiError | UnexpectedAnswer:
    """Only a problem document with a code is the API's: another program's 404 does not say that there is no such
    job."""
    status = response.status_code
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type == _PROBLEM:
        try:
            problem = json.loads(response.content)
        except ValueError:
            problem = None
        if isinstance(problem, dict) and isinstance(problem.get("code"), str) and problem["code"]:
            return error_of(status, problem)
    if status in _AWAY:
        return error_of(status, {})
    reason = f"{status} with {media_type or 'no content type'}, but no {_PROBLEM} with a code"
    return _unexpected(request, f"{reason}; check that HEADWAY_API is the address of headway serve", status)


def _unexpected(request: Request[Any], reason: str, status: int | None = None) -> UnexpectedAnswer:
    said = f"the answer to {request.method} {request.path} is not as promised: {reason}"
    return UnexpectedAnswer(said, status=status)


def pause_s(request: Request[Any], settings: Settings, tries: int, response: httpx2.Response | None) -> float | None:
    """How long to wait before the next try; None: no other."""
    if response is not None and response.status_code not in _AGAIN:
        return None
    if not request.repeatable or tries > settings.retries:
        return None
    if response is not None and response.headers.get("Retry-After", "").isdigit():
        return min(float(response.headers["Retry-After"]), _LONGEST_PAUSE_S)
    return min(0.1 * (1 << min(tries - 1, 10)), _LONGEST_PAUSE_S) * (0.75 + random.random() / 2)


def unreachable(settings: Settings, error: Exception, tries: int) -> Unavailable:
    times = "" if tries == 1 else f", {tries} times"
    return Unavailable(f"{settings.api} could not be reached{times}: {type(error).__name__}: {error}")
