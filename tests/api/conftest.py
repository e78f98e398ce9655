"""A server on either store, asked in process; and keys of every role."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn

from headway import Headway, Registry
from headway.api import Api
from headway.model.access import ROLES
from headway.store import migrate
from headway.store.postgres.store import PostgresStore
from tests.postgres_databases import Databases, ReusedDatabases


class Client:
    """Asks an API in process, as the holder of a key."""

    def __init__(self, api: Api, loop: asyncio.AbstractEventLoop, key: str | None) -> None:
        self._api, self._loop = api, loop
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self._headers, **options.pop("headers", {})}
        path = path if path.startswith(("/healthz", "/readyz", "/metrics")) else f"/api/v1{path}"
        if path.endswith("/stream") or "event-stream" in headers.get("Accept", ""):
            return self._loop.run_until_complete(self._begin(path, headers))
        return self._loop.run_until_complete(self._ask(method, path, headers, options))

    async def _begin(self, path: str, headers: dict[str, str]) -> httpx.Response:
        """The beginning of an answer that may have no end."""
        async with Stream(self._api, path, headers) as stream:
            text = await stream.next()
            return httpx.Response(stream.status, headers=stream.headers, content=text)

    async def _ask(self, method: str, path: str, headers: dict[str, str], options: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self("POST", path, **options)


class Stream:
    """An open stream, read piece by piece."""

    def __init__(self, api: Api, path: str, headers: dict[str, str]) -> None:
        self._sent: asyncio.Queue[Any] = asyncio.Queue(1)  # it takes no more than is read
        self._gone = asyncio.Event()
        host = [(b"host", b"127.0.0.1")]
        self._scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": host + [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
        }
        self._api = api

    async def __aenter__(self) -> Stream:
        self.task = asyncio.create_task(self._api(self._scope, self._receive, self._sent.put))
        start = await self._sent.get()
        self.status = start["status"]
        self.headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._gone.set()
        while not self.task.done():
            await asyncio.wait({self.task, asyncio.ensure_future(self._sent.get())}, return_when="FIRST_COMPLETED")
        await self.task

    async def next(self) -> str:
        return (await self._sent.get())["body"].decode()

    async def _receive(self) -> dict[str, Any]:
        if self._scope.pop("unread", True):
            self._scope["unread"] = False
            return {"type": "http.request", "body": b""}
        await self._gone.wait()
        return {"type": "http.disconnect"}


def _declare(url: str) -> None:
    """Have a worker declare some kinds in this database, which it does when it starts."""
    code = Headway(url)

    @code.job(queue="mail", schema={"properties": {"user_id": {"type": "integer"}}})
    async def welcome(user_id: int) -> str:
        return f"hello {user_id}"

    @code.job
    async def report() -> None: ...

    @code.job
    async def order(n: int) -> None: ...

    code.run(until_idle=True)
    code.close()


@pytest.fixture(scope="session")
def sqlite_with_kinds(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "kinds.db"
    shutil.copyfile(sqlite_template, path)
    _declare(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_with_kinds(databases: Databases, postgres_template: str) -> Iterator[ReusedDatabases]:
    def prepare(url: str) -> None:
        migrate.roles(PostgresStore(url))
        _declare(url)

    reused = ReusedDatabases(databases, postgres_template, prepare)
    yield reused
    reused.close()


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Headway]:
    """An app on an empty database, with a definition that some worker has declared."""
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("sqlite_with_kinds"), sqlite_path)
        app = Headway(f"sqlite:///{sqlite_path}")
        yield app
        app.close()
    else:
        reused = request.getfixturevalue("postgres_with_kinds")
        app = Headway(reused.lend())
        yield app
        app.close()
        reused.give_back(app.url)


@pytest.fixture
def loop(app: Headway, api: Api) -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(api.aclose())
    loop.run_until_complete(app.aclose())
    loop.close()


@pytest.fixture
def api(app: Headway) -> Api:
    return Api(app)


@pytest.fixture
def client(api: Api, loop: asyncio.AbstractEventLoop) -> Callable[[str | None], Client]:
    return lambda key: Client(api, loop, key)


@pytest.fixture
def code() -> Registry:
    """The application's code that a server has: none."""
    return Registry()


@pytest.fixture
def served(app: Headway, code: Registry) -> Iterator[str]:
    """The address of a server of this app's database, in a thread of this process."""
    own = Headway(app.url)
    own.include(code)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(Api(own), log_config=None, access_log=False, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    own.close()


@pytest.fixture
def keys(app: Headway) -> dict[str, str]:
    """A key of each role; those of a tenant are acme's."""
    acme = app.tenant("acme")
    made = {role: acme.create_api_key(role, role).text for role in ROLES if role != "superadmin"}
    return made | {"superadmin": app.create_api_key("root", "superadmin").text}
