"""Over HTTP beside in process: enqueues, batches, and claims with their settles, with 1, 8 and 64 clients at once; and
what open streams take."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from math import ceil
from typing import Any
from uuid import uuid4

import msgspec
import psutil

from bench.jobs import QUEUE, enqueue, make_app
from headway import Headway

CLIENTS = (1, 8, 64)
WORKERS = "2"
"""Processes of the server: the figures that it is held to are for two cores."""
BATCH = 100
"""Jobs of one batch, and of one claim."""
STREAMS = 500
_LISTEN_S = 5.0
_TRIES = 25

Work = Callable[[int], Awaitable[None]]
"""What one of so many clients does for its share."""


def rates(url: str, *, jobs: int, singles: int) -> Iterator[tuple[str, float]]:
    """Jobs a second of each way, over HTTP and in process, in turns on one database."""
    with closing(make_app(url)) as app:
        app.run(until_idle=True)  # declares the kinds: the server has none of their code
        own = app.tenant("default")
        producer = own.create_api_key("bench", "producer").text
        worker = app.create_api_key("bench", "worker").text
        viewer = own.create_api_key("bench", "viewer").text
        with _served(url) as (port, server):
            for clients in CLIENTS:
                asked = singles * ceil(clients / 4)  # for as long with many clients as with one
                yield f"http.single.own.{clients}", _own(url, clients, asked, _own_single)
                yield f"http.single.{clients}", _asked(port, producer, clients, asked, _single)
                yield f"http.bulk.own.{clients}", _own(url, clients, jobs // BATCH, _own_bulk) * BATCH
                yield f"http.bulk.{clients}", _asked(port, producer, clients, jobs // BATCH, _bulk) * BATCH
                yield f"http.work.{clients}", _worked(app, port, worker, clients, jobs)
            yield "http.streams", _stream_memory(app, port, server, viewer)


def _own(url: str, clients: int, count: int, one: Callable[[Headway, int], Awaitable[None]]) -> float:
    async def run() -> float:
        app = make_app(url)
        await one(app, 0)  # connects
        began = time.perf_counter()
        await asyncio.gather(*(_times(lambda n: one(app, n), share) for share in _shares(count, clients)))
        took = time.perf_counter() - began
        await app.aclose()
        return count / took

    return asyncio.run(run())


async def _own_single(app: Headway, number: int) -> None:
    await app.kinds["noop"].aenqueue(number=number, to="somebody@example.com")


async def _own_bulk(app: Headway, number: int) -> None:
    noop: Any = app.kinds["noop"]
    await app.aenqueue_many([noop.build(number=number, to="somebody@example.com") for _ in range(BATCH)])


async def _times(one: Work, count: int) -> None:
    for number in range(count):
        await one(number)


def _shares(count: int, clients: int) -> list[int]:
    return [count // clients + (place < count % clients) for place in range(clients)]


class _Connection(asyncio.Protocol):
    """HTTP by hand, so that the client takes little of the two cores that it shares with the server."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = (
            f" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._received = b""

    async def __aenter__(self) -> _Connection:
        self._loop = asyncio.get_running_loop()
        transport, _ = await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        self._transport: Any = transport
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if found and len(body) == int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]):
            self._received = b""
            self._answer.set_result((head, body))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    async def ask(self, path: str, body: Any) -> Any:
        said = msgspec.json.encode(body)
        for _ in range(_TRIES):
            self._answer: asyncio.Future[tuple[bytes, bytes]] = self._loop.create_future()
            self._transport.write(f"POST /api/v1{path}{self._head}{len(said)}\r\n\r\n".encode() + said)
            head, answer = await self._answer
            if not head.startswith(b"HTTP/1.1 503"):  # on a machine that others keep busy, it may take a moment
                break
            await asyncio.sleep(0.2)
        assert head.startswith(b"HTTP/1.1 20"), answer
        return msgspec.json.decode(answer)


def _asked(port: int, key: str, clients: int, count: int, one: Callable[[_Connection, int], Awaitable[None]]) -> float:
    async def client(connection: _Connection, share: int) -> None:
        await _times(lambda n: one(connection, n), share)

    async def run() -> float:
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(_Connection(port, key)) for _ in range(clients)]
            await asyncio.gather(*(client(each, 1) for each in opened))  # as many callers in process connect before
            began = time.perf_counter()
            await asyncio.gather(*map(client, opened, _shares(count, clients)))
            return count / (time.perf_counter() - began)

    return asyncio.run(run())


def _job(number: int) -> dict[str, Any]:
    return {"kind": "noop", "payload": {"number": number, "to": "somebody@example.com"}}


async def _single(connection: _Connection, number: int) -> None:
    await connection.ask("/jobs", _job(number))


async def _bulk(connection: _Connection, number: int) -> None:
    await connection.ask("/jobs/batch", {"jobs": [_job(number) for _ in range(BATCH)]})


def _worked(app: Headway, port: int, key: str, clients: int, jobs: int) -> float:
    """Claims of 100 with their settles, until the queue is empty; what was left in it before is not counted."""
    workers = [str(uuid4()) for _ in range(clients)]
    _drain(port, key, workers)  # registers them, too
    enqueue(app, jobs)
    began = time.perf_counter()
    done = _drain(port, key, workers)
    assert done == jobs, f"{done} of {jobs} were done"
    return jobs / (time.perf_counter() - began)


def _drain(port: int, key: str, workers: list[str]) -> int:
    async def client(worker_id: str) -> int:
        done = 0
        async with _Connection(port, key) as connection:
            while True:
                body = {"worker_id": worker_id, "claim_id": str(uuid4()), "queues": [QUEUE], "limit": BATCH}
                found = (await connection.ask("/worker/jobs/claim", body))["jobs"]
                if not found:
                    return done
                ends = [{"id": job["id"], "fence": job["fence"]} for job in found]
                await connection.ask("/worker/settle", {"worker_id": worker_id, "jobs": ends})
                done += len(found)

    async def run() -> int:
        return sum(await asyncio.gather(*map(client, workers)))

    return asyncio.run(run())


def _stream_memory(app: Headway, port: int, server: psutil.Process, key: str) -> float:
    """KiB of the server for each of many streams of one tenant, after some rounds of its pollers."""
    job_id = app.tenant("default").enqueue("noop", {"number": 0, "to": "somebody@example.com"}).id
    head = f"GET /api/v1/jobs/{job_id}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n"

    async def listen() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode())
        said = await reader.readuntil(b"\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200"), said
        return writer

    async def run() -> float:
        writers = [await listen() for _ in range(50)]  # what the first ones load is not theirs
        await asyncio.sleep(_LISTEN_S / 2)
        before = _memory(server)
        writers += [await listen() for _ in range(STREAMS)]
        await asyncio.sleep(_LISTEN_S)
        grown = _memory(server) - before
        for each in writers:
            each.close()
        return grown / STREAMS / 1_024

    return asyncio.run(run())


def _memory(server: psutil.Process) -> int:
    return sum(each.memory_info().rss for each in (server, *server.children(recursive=True)))


@contextmanager
def _served(url: str) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a server with a process for each core, as docs/how-to/serve-http.md has it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "headway", "--url", url, "serve", "--port", str(port), "--workers", WORKERS],
            stderr=log,
        )
        try:
            _until_ready(port, server)
            yield port, psutil.Process(server.pid)
        except BaseException as error:
            log.seek(max(0, log.tell() - 2_000))
            error.add_note(f"the server's log ends with: {log.read().decode(errors='replace')}")
            raise
        finally:
            server.terminate()
            server.wait()


def _until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")
