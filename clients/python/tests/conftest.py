"""A Headway server on a SQLite file, in a thread of this process, and keys for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from headway_client import Client, Worker

from headway import Headway
from headway.api import Api


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Headway]:
    """The same database in process, to look at it from the other side."""
    url = f"sqlite:///{tmp_path / 'headway.db'}"
    code = Headway(url)
    for kind in ("welcome", "order", "report"):
        code.job(name=kind, queue="mail", max_attempts=3)(_nothing(kind))
    code.job(name="survey", queue="mail", spill=True)(_nothing("survey"))
    code.run(until_idle=True)  # a worker declares its kinds
    code.close()
    app = Headway(url)
    yield app
    app.close()


def _nothing(kind: str) -> Callable[..., Any]:
    async def nothing(**payload: Any) -> None: ...

    nothing.__name__ = kind
    return nothing


class Server:
    """Serves until stopped; can be started again on the same port."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.port = 0

    def start(self) -> None:
        self._app = Headway(self._url)
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(Api(self._app), log_config=None, access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._app.close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def server(app: Headway) -> Iterator[Server]:
    server = Server(app.url)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(app: Headway, server: Server) -> Iterator[Client]:
    with Client(server.address, key=app.tenant("default").create_api_key("app", "operator").text) as client:
        yield client


@pytest.fixture
def working(app: Headway, server: Server) -> Iterator[Callable[..., Worker]]:
    """Runs workers in threads, and ends them with the test."""
    began: list[tuple[Worker, threading.Thread]] = []
    key = app.create_api_key("worker", "worker").text

    def run(worker: Worker) -> Worker:
        import asyncio

        thread = threading.Thread(target=lambda: asyncio.run(worker.arun()), daemon=True)
        thread.start()
        began.append((worker, thread))
        return worker

    run.new = lambda **options: Worker(  # type: ignore[attr-defined]
        Client(server.address, key=key), **{"queues": {"mail": 4}, "grace": 5.0, **options}
    )
    yield run
    for worker, thread in began:
        worker.stop()
        thread.join(30)
