"""What a server or a tenant may try: answers without an end, bombs, smuggled headers, many addresses, a way back."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
import time
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import httpcore2
import pytest

from headway import Headway
from headway.connectors.exchange import Answer, Exchanges, Request
from headway.errors import ArtifactsUnavailable, ConnectorFailed, HeadwayError
from headway.model.http_url import read_url
from tests.connectors.loopback import Asked, answer, serving

KIND = "connector.http.request"
BOMB = gzip.compress(b"0" * 10_000_000)
HEAD = b"HTTP/1.1 200 OK\r\n"
ENDED_BY_TIMEOUT = ("/drip", "/continue")


def _drip() -> Iterator[bytes]:
    yield HEAD + b"content-length: 1000000\r\n\r\n"
    for _ in range(400):
        time.sleep(0.02)
        yield b"x"


def _for_ever(first: bytes, part: bytes) -> Iterator[bytes]:
    yield first
    # far more than any client should read, and an end for a test that fails
    yield from itertools.repeat(part, 2_000)


def test_an_answer_that_never_ends_costs_no_more_than_its_limits() -> None:
    said: dict[str, Any] = {
        "/drip": _drip,
        "/headers": lambda: _for_ever(HEAD, b"x: " + b"a" * 10_000 + b"\r\n"),
        "/one-header": lambda: _for_ever(HEAD + b"x: ", b"a" * 10_000),
        "/status": lambda: _for_ever(b"HTTP/1.1 200 ", b"a" * 10_000),
        "/continue": lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n", 10**9),
        "/chunk": lambda: _for_ever(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1" * 10_000),
        "/lie": lambda: HEAD + b"content-length: 999999999999999999\r\n\r\nabc",
        "/two": lambda: HEAD + b"content-length: 3\r\ncontent-length: 5\r\n\r\nabcde",
        "/body": lambda: _for_ever(HEAD + b"\r\n", b"a" * 10_000),
        "/gzip": lambda: answer(200, BOMB, content_encoding="gzip"),
    }
    exchanges = Exchanges([ip_network("127.0.0.1/32")])

    async def ask_all(url: str) -> dict[str, Answer | ConnectorFailed]:
        async def ask(path: str) -> Answer:
            timeout_s = 0.2 if path in ENDED_BY_TIMEOUT else 60.0
            request = Request(
                method="GET", url=read_url(url + path), headers=lambda *_: [], timeout_s=timeout_s, max_response=5_000
            )
            return await exchanges.send(request)

        found = await asyncio.gather(*map(ask, said), return_exceptions=True)
        return dict(zip(said, found, strict=True))  # type: ignore[arg-type]

    with serving(lambda asked: said[asked.target]()) as server:
        found = asyncio.run(ask_all(server.url))
    for path in ("/drip", "/headers", "/one-header", "/status", "/continue", "/chunk", "/lie", "/two"):
        failed = found.pop(path)
        assert isinstance(failed, ConnectorFailed), path
        assert failed.retry, path
        assert ("did not answer within 0.2 s" in str(failed)) == (path in ENDED_BY_TIMEOUT), (path, failed)
    for path, got in found.items():
        assert isinstance(got, Answer), (path, got)
        assert (len(got.body), got.truncated) == (5_000, True)
    gzipped = found["/gzip"]
    assert isinstance(gzipped, Answer)
    assert gzipped.body == BOMB[:5_000]  # as it came: nothing is unpacked


def test_a_name_with_many_addresses_is_checked_whole_and_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [f"127.0.{n // 250}.{n % 250 + 1}" for n in range(1_000)]
    tried: list[str] = []

    def resolve(host: Any, port: Any, *_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    async def refuse(_: Any, address: str, *__: Any) -> Any:
        tried.append(address)
        raise httpcore2.ConnectError("refused")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", refuse)
    request = Request(method="GET", url=read_url("http://many.test/"), headers=lambda *_: [])
    with pytest.raises(ConnectorFailed, match="failed"):
        asyncio.run(Exchanges([ip_network("127.0.0.0/8")]).send(request))
    assert tried == addresses[:8]
    # the last of a thousand is enough to refuse them all
    addresses[-1] = "10.0.0.1"
    with pytest.raises(ConnectorFailed, match="leads to an address that is private"):
        asyncio.run(Exchanges([ip_network("127.0.0.0/8")]).send(request))
    assert len(tried) == 8


def test_no_header_can_be_smuggled_in(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "one\r\nX-Evil: 1")
    for headers in (
        {"X-A": "a\r\nX-Evil: 1"},
        {"X-A": "a\nX-Evil: 1"},
        {"X-A": ["a", "b\r\nX-Evil: 1"]},
        {"X-A\r\nX-Evil": "1"},
        {"X-A:": "1"},
        {" X-A": "1"},
        {"X-A": "\0"},
        {"Host": "evil.test"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"webhook-signature": "v1,x"},
        {"x-a": "1", "X-A": "2"},
    ):
        with pytest.raises(HeadwayError):
            app.enqueue(KIND, {"url": "https://shop.test", "headers": headers})
        with pytest.raises(HeadwayError):
            app.create_connector("shop", "https://shop.test", headers=headers)
    for field, value in (("idempotency_key", "a\r\nX-Evil: 1"), ("path", "/a\r\nX-Evil: 1"), ("method", "GET /\r\nA:")):
        with pytest.raises(HeadwayError):
            app.enqueue(KIND, {"config": "shop", field: value})
    with serving(lambda asked: answer(200)) as server:
        # a secret of two lines is not sent; nor is a way out of the query or the form
        token = app.enqueue(KIND, {"url": server.url, "headers": {"X-A": {"$secret": "SHOP_TOKEN"}}})
        query = app.enqueue(KIND, {"url": server.url, "query": {"a": "b HTTP/1.1\r\nX-Evil: 1"}})
        app.run(until_idle=True)
        assert [each.target for each in server.asked] == ["/?a=b+HTTP%2F1.1%0D%0AX-Evil%3A+1"]
        assert "x-evil" not in server.asked[0].headers
    assert (app.get(token.id).status, app.get(query.id).status) == ("dead", "succeeded")
    assert "would have more than one line" in str(app.get(token.id).error)


def test_a_way_back_to_the_first_origin_brings_no_secret_back(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret-of-the-shop")

    def back(asked: Asked) -> bytes:
        return answer(307, location=f"{first.url}/back")

    def there(asked: Asked) -> bytes:
        return answer(200, "done") if asked.target == "/back" else answer(307, location=f"{other.url}/")

    with serving(back) as other, serving(there) as first:
        headers = {"X-Key": {"$secret": "SHOP_TOKEN"}}
        job = app.enqueue(KIND, {"url": f"{first.url}/go", "text": "a", "headers": headers, "redirects": 5})
        app.run(until_idle=True)
    assert app.result(job.id).value["status"] == 200
    assert [each.headers.get("x-key") for each in (*first.asked, *other.asked)] == ["s3cret-of-the-shop", None, None]


def test_an_answer_that_cannot_be_stored_sends_nothing_twice(app: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise ArtifactsUnavailable("the bucket is away")

    monkeypatch.setattr(type(app._places.own), "write", away)
    with serving(lambda asked: answer(201, "made")) as server:
        made, read = (
            app.enqueue(KIND, {"url": server.url, "keep": "artifact", **more}) for more in ({"json": {"n": 1}}, {})
        )
        app.run(until_idle=True)
    job = app.get(made.id)
    assert (job.status, job.tries) == ("dead", 1)
    assert "answered 201, but its answer could not be stored: the bucket is away" in str(job.error)
    assert app.get(read.id).status == "scheduled"  # a GET only reads: it may be sent again
