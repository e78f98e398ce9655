"""What arrives on a connection: old versions, several requests at once, heads that come slowly or never end."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

import pytest
import uvicorn
from uvicorn.server import ServerState

from headway import Headway
from headway.api import Api, streams
from headway.api.serving import connection


@pytest.fixture
def port(sqlite_migrated_path: Any, monkeypatch: Any) -> Iterator[int]:
    monkeypatch.setattr(connection, "HEAD_S", 0.3)
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    with serving(Api(app)) as port:
        yield port
    app.close()


@contextmanager
def serving(api: Any) -> Iterator[int]:
    """The port of a server of this application, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(api, http=connection.Connection, log_config=None, access_log=False, timeout_keep_alive=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)


def said(port: int, *pieces: bytes) -> bytes:
    """All that is answered until the server closes the connection."""

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    return asyncio.run(ask())


def test_an_answer_says_when_its_request_came(port: int, monkeypatch: Any) -> None:
    """Not when the server last looked, as uvicorn does once a second: workers measure their lease from it."""
    old = "Sat, 03 Feb 2001 04:05:06 GMT"
    looked = threading.Event()
    monkeypatch.setattr("uvicorn.server.formatdate", lambda *_, **__: (looked.set(), old)[1])
    assert looked.wait(20)
    before = int(time.time())
    answer = said(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    (date,) = (line.split(b": ", 1)[1] for line in answer.split(b"\r\n") if line.lower().startswith(b"date:"))
    assert before <= parsedate_to_datetime(date.decode()).timestamp() <= time.time()


def test_the_connection_of_a_dropped_reader_is_closed(
    port: int, sqlite_migrated_path: Any, monkeypatch: Any, caplog: Any
) -> None:
    for name, to in {"EVERY_S": 0.01, "_CHECK_S": 0.05, "_MOST_EVENTS": 3}.items():
        monkeypatch.setattr(streams, name, to)
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    job_id = app.enqueue("any", {"x": "x" * 900_000}).id
    key = app.tenant("default").create_api_key("viewer", "viewer").text
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        reader.connect(("127.0.0.1", port))
        head = f"GET /api/v1/jobs/{job_id}/stream HTTP/1.1\r\nAuthorization: Bearer {key}\r\n".encode()
        reader.sendall(head + HOST + b"\r\n")
        reset = select.poll()
        reset.register(reader, 0)  # errors alone: what there is to read waits
        for priority in range(1, 300):
            app.change(job_id, priority=priority)
            if reset.poll(20):
                break
        else:
            pytest.fail("it is still open")
    app.close()
    assert "without completing" not in caplog.text


HOST = b"Host: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n"


def test_old_versions_and_several_requests_at_once_are_answered_in_order(port: int) -> None:
    assert said(port, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    three = [b"GET /%s HTTP/1.1\r\n" % path + HOST for path in (b"healthz", b"nowhere", b"readyz")]
    answers = said(port, b"\r\n".join([*three[:2], three[2] + CLOSE]) + b"\r\n").split(b"HTTP/1.1 ")
    assert [each[:3] for each in answers[1:]] == [b"200", b"404", b"200"]
    answer = said(port, b"HEAD /healthz HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")


def test_requests_before_what_is_not_http_are_answered(port: int) -> None:
    asked = [b"GET /%s HTTP/1.1\r\n" % path + HOST for path in (b"nowhere", b"healthz", b"readyz")]
    for count in (1, 3):
        answers = said(port, b"\r\n".join([*asked[:count], b"NOT HTTP\r\n\r\n"])).split(b"HTTP/1.1 ")
        assert [each[:3] for each in answers[1:]] == [b"404", b"200", b"200"][:count], "and the connection ends"


def test_what_is_not_http_is_a_problem_too(port: int) -> None:
    get = b"GET /healthz HTTP/1.1\r\n"
    two_hosts = get + HOST + b"host: other.example\r\n\r\n"
    for sent in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", get + b"no colon\r\n\r\n", two_hosts):
        answer = said(port, sent)
        assert answer.startswith(b"HTTP/1.1 400"), sent
        assert b"application/problem+json" in answer
        assert b'"code":"BadRequest"' in answer


def test_a_head_arrives_in_time_and_is_not_too_long(port: int) -> None:
    assert said(port) == b"", "it sends nothing"
    assert said(port, b"GET /healthz HTTP/1.1\r\nX: ") == b"", "its head never ends"
    first = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    answer = said(port, first, b"GET /healthz HT")
    assert answer.startswith(b"HTTP/1.1 200"), "the first request is answered, the second one is not waited for"
    long = said(port, b"GET /healthz HTTP/1.1\r\nX: ", b"x" * 70_000)
    assert (long[:12], b"longer than 65,536" in long) == (b"HTTP/1.1 400", True)
    rest = b"Host: 127.0.0.1\r\n\r\n"
    for head in (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000, b"GET /healthz?" + b"x" * 70_000 + b" HTTP/1.1"):
        whole = said(port, head + b"\r\n" + rest)
        assert (whole.count(b"HTTP/1.1 400"), b"longer than 65,536" in whole) == (1, True), "all of it at once"
    many = first * 2_000 + first.replace(HOST, HOST + CLOSE)
    assert said(port, many).count(b"HTTP/1.1 200") == 2_001, "many short heads at once are not one long head"


def test_of_an_endless_head_behind_a_request_under_way_little_is_read() -> None:
    read: list[int] = []

    class Counting(connection.Connection):
        arrived = 0

        def _parse(self, data: bytes) -> None:
            read.append(len(data))
            super()._parse(data)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            Counting.arrived += len(data)

    async def ask() -> bytes:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def slow(_scope: Any, _receive: Any, send: Any) -> None:
            asked.set()
            await may_answer.wait()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
            await send({"type": "http.response.body", "body": b"done"})

        config = uvicorn.Config(slow, lifespan="off", log_config=None, access_log=False)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: Counting(config, state, {}), "127.0.0.1")
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        await asked.wait()
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(50):
            writer.write(b"x" * 100_000)
            await writer.drain()
        while Counting.arrived < 5_000_000:
            await asyncio.sleep(0.001)
        may_answer.set()
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        server.close()
        return answer

    answer = asyncio.run(ask())
    assert (answer[:12], answer[-4:], answer.count(b"HTTP/1.1")) == (b"HTTP/1.1 200", b"done", 1)
    assert 0 < sum(read) < 1_000_000


def test_a_request_notices_that_its_client_has_gone_though_another_came_after_it() -> None:
    begun, noticed = threading.Event(), threading.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            begun.set()
            while (await receive())["type"] != "http.disconnect":
                pass
            noticed.set()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    with serving(waits) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall((b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * 2)
        assert begun.wait(10)
        time.sleep(0.05)  # for the second one to arrive, if it came apart
        client.close()
        assert noticed.wait(5)


def test_a_request_that_offers_another_protocol_is_read_as_any_other(port: int) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    inner = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    last = b"GET /readyz HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
    post = b"POST /nowhere HTTP/1.1\r\n" + HOST + offer
    for sent in (
        (post + b"Content-Length: %d\r\n\r\n" % len(inner) + inner + last,),
        (post + b"Content-Length: %d\r\n\r\n" % len(inner), inner, last),
        (post + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner), last),
    ):
        answers = said(port, *sent).split(b"HTTP/1.1 ")
        assert [each[:3] for each in answers[1:]] == [b"404", b"200"], "the body is not a request of its own"
    assert said(port, b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n").startswith(b"HTTP/1.1 400")
    websocket = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    both = said(port, b"GET /nowhere HTTP/1.1\r\n" + HOST + websocket + b"\r\n" + last).split(b"HTTP/1.1 ")
    assert [each[:3] for each in both[1:]] == [b"404", b"200"]


def test_a_body_that_was_refused_is_not_read_to_its_end(port: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(connection, "MOST_DISCARDED", 2**20)
    head = b"POST /api/v1/jobs HTTP/1.1\r\n" + HOST

    def sent_until_closed(head: bytes, piece: bytes, pause_s: float) -> tuple[bytes, int]:
        """The answer, and how much of the body was taken; at most 64 MiB, or for five seconds."""
        taken = 0
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(5)
            client.sendall(head)
            answer = client.recv(65_536)
            until = time.monotonic() + 5
            with suppress(ConnectionError):
                while taken < 2**26 and time.monotonic() < until:
                    client.sendall(piece)
                    taken += len(piece)
                    time.sleep(pause_s)
                return answer, -1
        return answer, taken

    for framing, piece in (
        (b"Content-Length: 10000000000\r\n\r\n", bytes(65_536)),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n%s\r\n" % bytes(65_536)),
    ):
        answer, taken = sent_until_closed(head + framing, piece, 0)
        assert (answer[:12], 0 <= taken < 2**25) == (b"HTTP/1.1 401", True), "sent without a pause"
        answer, taken = sent_until_closed(head + framing, b"1" if b"Length" in framing else b"1\r\nx\r\n", 0.05)
        assert (answer[:12], taken >= 0) == (b"HTTP/1.1 401", True), "sent bit by bit"


def test_the_rest_of_a_refused_body_is_read_slowly(port: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 20)
    monkeypatch.setattr(connection, "DISCARDED_PER_S", 4 * 2**20)
    head = b"POST /api/v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % 2**23
    last = b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    began = time.monotonic()
    both = said(port, head, bytes(2**23), last).split(b"HTTP/1.1 ")
    assert [each[:3] for each in both[1:]] == [b"401", b"200"]
    assert 1.5 < time.monotonic() - began < 15


def test_a_connection_goes_on_after_a_refused_body_and_ends_when_nothing_comes(port: int) -> None:
    head = b"POST /api/v1/jobs HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n"
    for rest in (bytes(1_000), b"", b"1"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(10)
            client.sendall(head)
            assert client.recv(65_536).startswith(b"HTTP/1.1 401")
            client.sendall(rest)
            if len(rest) == 1_000:
                client.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
                assert client.recv(65_536).startswith(b"HTTP/1.1 200"), "the connection is used again"
                client.sendall(b"\r\n")
            assert client.recv(65_536) == b"", "it is closed in time"


def test_an_answer_is_one_write() -> None:
    class Wire:
        sent: ClassVar[list[Any]] = []

        def write(self, part: bytes) -> None:
            self.sent.append(part)

        def close(self) -> None:
            self.sent.append("closed")

        def is_closing(self) -> bool:
            return "closed" in self.sent

    async def answer() -> None:
        joined = connection._JoinedWrites(Wire(), asyncio.get_running_loop())
        joined.write(b"head,")
        joined.write(b"body")
        assert Wire.sent == []
        await asyncio.sleep(0)
        assert Wire.sent == [b"head,body"]
        joined.write(bytes(65_537))
        assert len(Wire.sent) == 2, "a large part is not kept in memory: its reader may be slow"
        joined.write(b"end")
        joined.close()
        assert Wire.sent[2:] == [b"end", "closed"]
        assert joined.is_closing()

    asyncio.run(answer())
