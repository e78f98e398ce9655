"""Which path is answered by what: every route and method, slashes, encoded names, mounts, hosts without a lifespan."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import headway
from headway import Headway
from headway.api import Api
from headway.api.chapters import ROUTES
from headway.errors import ConfigError

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")


@pytest.fixture
def app(sqlite_migrated_path: Any) -> Iterator[Headway]:
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    yield app
    app.close()


def asked(site: Any, *requests: tuple[str, str], key: str = "") -> list[httpx.Response]:
    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=site),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {key}"} if key else {},
        ) as client:
            return [await client.request(method, path) for method, path in requests]

    return asyncio.run(ask())


def test_each_path_answers_its_methods_and_names_them_to_others(app: Headway) -> None:
    of_path: dict[str, set[str]] = {"/healthz": {"GET"}, "/readyz": {"GET"}, "/metrics": {"GET"}}
    for path in ("/openapi.json", "/docs"):
        of_path[f"/api/v1{path}"] = {"GET"}
    for route in ROUTES:
        of_path.setdefault(f"/api/v1{route.path}", set()).add(route.method)
    requests = [(method, re.sub(r"{\w+}", "x", path)) for path in of_path for method in METHODS]
    answers = iter(asked(Api(app), *requests))
    for path, methods in of_path.items():
        methods |= {"HEAD"} if "GET" in methods else set()
        for method in METHODS:
            said = next(answers)
            if method in methods:
                assert said.status_code == (200 if path in ("/healthz", "/readyz") else 401), (method, path)
            else:
                assert said.status_code == 405, (method, path)
                assert said.headers["allow"] == ", ".join(sorted(methods)), path
                assert said.headers["content-type"] == "application/problem+json"
                assert method == "HEAD" or said.json()["code"] == "MethodNotAllowed"


def test_no_other_path_is_there(app: Headway) -> None:
    paths = (
        "/", "//", "/api", "/api/v1", "/api/v1/", "/api/v1/jobs/", "/api/v1//jobs", "/API/v1/jobs", "/api/v1/jobs/x/",
        "/api/v1/jobs/x/attempts/", "/api/v1/jobs/x/y/attempts", "/api/v1/jobs/%2e%2e/x/y", "/api/v1/trains/",
        "/healthz/", "/api/v1/queues/a/b", "/api/v1/jobs%2Fsummary", "/api%2Fv1/jobs", "/api/v1/jobs/x%0A/attempts/",
    )  # fmt: skip
    for path, said in zip(paths, asked(Api(app), *(("GET", path) for path in paths)), strict=True):
        assert (said.status_code, said.json()["code"]) == (404, "NotFound"), path
        assert ("slash" in said.json().get("fix", "")) == path.endswith("/"), path


def test_names_with_slashes_are_sent_encoded_and_found(app: Headway) -> None:
    app.pause("mail/bulk:x")
    key = app.create_api_key("root", "superadmin").text
    api = Api(app)
    for site, below in ((api, ""), (Starlette(routes=[Mount("/tasks", api)]), "/tasks")):
        for name in ("mail%2Fbulk%3Ax", "mail%2fbulk:x"):
            (said,) = asked(site, ("GET", f"{below}/api/v1/queues/{name}"), key=key)
            assert (said.status_code, said.json().get("name")) == (200, "mail/bulk:x"), (below, name)
    acme = app.tenant("acme")
    for train in ("a/b", "a/hold"):
        acme.hold_train(train)
    of_acme = acme.create_api_key("viewer", "viewer").text
    for sent, train in (("a/b", "a/b"), ("a%2Fb", "a/b"), ("a%2Fhold", "a/hold")):
        (said,) = asked(api, ("GET", f"/api/v1/trains/{sent}"), key=of_acme)
        assert (said.status_code, train in said.text) == (200, True), sent
    for path in ("/queues/mail/bulk:x", "/queues/%ff%2F", "/queues/%EF%B7%90", "/queues/%00%2F"):
        (said,) = asked(api, ("GET", f"/api/v1{path}"), key=key)
        assert said.status_code == 404, path


def test_a_host_may_run_its_lifespan_or_not_and_has_no_websockets_here(app: Headway) -> None:
    api = headway.asgi(app)

    async def run() -> None:
        sent: list[Any] = []
        messages = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))

        async def receive() -> Any:
            return next(messages)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await api({"type": "lifespan"}, receive, send)
        await api({"type": "websocket", "path": "/api/v1/jobs"}, receive, send)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete", "websocket.close"]

    asyncio.run(run())
    (said,) = asked(api, ("GET", "/readyz"))  # a new loop, and no lifespan
    assert said.status_code == 200


def test_a_server_in_another_program_ticks_where_it_is_told_to(app: Headway) -> None:
    async def run(api: Any) -> list[Any]:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        sent: asyncio.Queue[Any] = asyncio.Queue()
        serving = asyncio.create_task(api({"type": "lifespan"}, messages.get, sent.put))
        await messages.put({"type": "lifespan.startup"})
        await sent.get()
        tending = [task for task in asyncio.all_tasks() if "tend" in str(task.get_coro())]
        async with asyncio.timeout(60):
            await asyncio.gather(*tending)
        found = await app.aworkers()
        await messages.put({"type": "lifespan.shutdown"})
        await serving
        return found

    assert asyncio.run(run(headway.asgi(app))) == []
    (worker,) = asyncio.run(run(headway.asgi(app, tick=True)))
    assert (worker.metadata["serves"], app.workers()) == ("http", [])
    with pytest.raises(ConfigError, match=r"server.tick='maybe' must be true or false"):
        headway.asgi(app, tick="maybe")  # type: ignore[arg-type]
