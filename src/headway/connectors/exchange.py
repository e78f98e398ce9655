"""Exchange: one HTTP request and its answer, through the guarded network, with redirects followed by hand."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

import httpcore2
import msgspec

from headway.connectors.addresses import Denied, Network
from headway.connectors.guarded_network import GuardedNetwork
from headway.errors import ConnectorFailed, InvalidJob
from headway.model.http_url import HttpUrl
from headway.version import __version__

Headers = list[tuple[str, str]]
_REDIRECTS = (301, 302, 303, 307, 308)
_ABOUT_THE_BODY = frozenset({"content-type", "content-encoding", "content-language"})
_FAULTS = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    OSError,
)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    url: HttpUrl
    headers: Callable[[HttpUrl, bool], Headers]  # by URL, and by whether a redirect left the first origin
    body: bytes | None = None
    has_secret_body: bool = False
    is_foreign: bool = False  # a redirect left the first origin; stays true even if another one leads back
    timeout_s: float = 30.0
    max_response: int = 262_144
    redirects: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    headers: Headers  # names in lower case
    body: bytes
    truncated: bool  # the answer was longer than `max_response`
    url: HttpUrl
    redirects: int
    first_byte_ms: int
    total_ms: int

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)

    def beginning(self, limit: int = 500) -> str:
        """The beginning of the body, for a message."""
        return " ".join(self.body[: 4 * limit].decode("utf-8", "replace").split())[:limit]


class Exchanges:
    """Sends requests, each over a connection of its own: nothing of one tenant is left over for another."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._network = GuardedNetwork(allowed)
        self._tls: ssl.SSLContext | None = None

    async def send(self, request: Request) -> Answer:
        """Raises `ConnectorFailed`: to be tried again, unless the address or a redirect is refused. A cancellation
        closes the socket."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._follow(request, started)
        except TimeoutError:
            raise ConnectorFailed(f"{request.url.authority} did not answer within {request.timeout_s:g} s") from None
        except Denied as error:
            raise ConnectorFailed(str(error), retry=False) from None
        except _FAULTS as error:
            said = str(error) or type(error).__name__
            raise ConnectorFailed(f"the request to {request.url.authority} failed: {said}") from None

    async def _follow(self, request: Request, started: float) -> Answer:
        followed = 0
        while True:
            answer = await self._send_once(request, followed, started)
            location = answer.header("location") if answer.status in _REDIRECTS else None
            if location is None or request.redirects == 0:
                return answer
            if followed == request.redirects:
                _refuse(f"{request.url.authority} redirects more than {request.redirects} times")
            followed += 1
            request = _redirected(request, answer.status, location)

    async def _send_once(self, request: Request, followed: int, started: float) -> Answer:
        url = request.url
        target = httpcore2.URL(
            scheme=url.scheme.encode(), host=url.host.encode(), port=url.port, target=url.target.encode()
        )
        headers = request.headers(url, request.is_foreign)
        given = {name.lower() for name, _ in headers}
        own = [("Host", url.authority), ("Accept-Encoding", "identity"), ("User-Agent", f"headway/{__version__}")]
        if request.body is not None:
            own.append(("Content-Length", str(len(request.body))))
        elif request.method in ("POST", "PUT", "PATCH"):
            own.append(("Content-Length", "0"))
        sent = [*((name, value) for name, value in own if name.lower() not in given), *headers]
        async with (
            httpcore2.AsyncConnectionPool(
                ssl_context=self._tls_context() if url.scheme == "https" else None,
                max_connections=1,
                network_backend=self._network,
            ) as pool,
            pool.stream(
                request.method,
                target,
                headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in sent],
                content=request.body,
            ) as response,
        ):
            first_byte = time.monotonic()
            body, truncated = await _body(response, request.max_response)
            return Answer(
                status=response.status,
                headers=[(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers],
                body=body,
                truncated=truncated,
                url=url,
                redirects=followed,
                first_byte_ms=round((first_byte - started) * 1_000),
                total_ms=round((time.monotonic() - started) * 1_000),
            )

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


async def _body(response: httpcore2.Response, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes, and whether there are more; the rest is not read."""
    read = bytearray()
    async for chunk in response.aiter_stream():
        read += chunk
        if len(read) > limit:
            return bytes(read[:limit]), True
    return bytes(read), False


def _redirected(request: Request, status: int, location: str) -> Request:
    """The next request; its address is checked like the first one's. Raises `ConnectorFailed`."""
    try:
        url = request.url.redirected(location)
    except InvalidJob as error:
        _refuse(f"{request.url.authority} redirects to where no request may go: {error}")
    if request.url.scheme == "https" and url.scheme == "http":
        _refuse(f"{request.url.authority} redirects from https to http")
    moved = msgspec.structs.replace(request, url=url, is_foreign=request.is_foreign or url.origin != request.url.origin)
    if status in (307, 308) or request.method in ("GET", "HEAD"):
        if moved.is_foreign and request.has_secret_body:
            _refuse(f"{request.url.authority} redirects a body that holds a secret to {url.authority}")
        return moved
    headers = request.headers

    def without_body(url: HttpUrl, foreign: bool) -> Headers:
        return [(name, value) for name, value in headers(url, foreign) if name.lower() not in _ABOUT_THE_BODY]

    return msgspec.structs.replace(moved, headers=without_body, method="GET", body=None, has_secret_body=False)


def _refuse(reason: str) -> NoReturn:
    raise ConnectorFailed(reason, retry=False)
