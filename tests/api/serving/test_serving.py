"""Where the API answers: under which names and paths, mounted in other applications, and what the log says of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx2 as httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

import headway
from headway import Headway
from headway.api.serving.settings import server_settings
from headway.errors import ConfigError


def ask(app: Any, path: str, *, base: str = "http://127.0.0.1", **headers: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base) as client:
            return await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return asyncio.run(asked())


@pytest.fixture
def app(sqlite_migrated_path: Any) -> Any:
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    yield app
    app.close()


@pytest.fixture
def bearer(app: Headway) -> str:
    return f"Bearer {app.create_api_key('root', 'superadmin').text}"


def test_only_names_on_the_list_are_served(app: Headway, bearer: str) -> None:
    api = headway.asgi(app, hosts=["work.example", "*.inside.example"])
    path = "/api/v1/openapi.json"
    for base in (
        "http://localhost:8420",
        "http://[::1]:1",
        "http://work.example",
        "http://WORK.example:1",
        "http://a.inside.example",
    ):
        assert ask(api, path, base=base, authorization=bearer).status_code == 200, base
    for base in ("http://evil.example", "http://inside.example", "http://work.example.evil.example"):
        said = ask(api, path, base=base, authorization=bearer)
        assert (said.status_code, said.json()["code"]) == (400, "UnknownHost"), base
        assert said.headers["x-request-id"] == said.json()["request_id"]
        assert ask(api, "/healthz", base=base).status_code == 200, "a probe asks by address"
    assert ask(api, "/api/v1/healthz", base="http://evil.example").status_code == 400
    anywhere = headway.asgi(app, hosts=["*"])
    assert ask(anywhere, path, base="http://evil.example", authorization=bearer).status_code == 200


def test_it_answers_below_a_prefix_and_a_mount_and_says_so(app: Headway, bearer: str) -> None:
    def servers(site: Any, path: str) -> Any:
        return ask(site, f"{path}/api/v1/openapi.json", authorization=bearer).json()["servers"]

    assert servers(headway.asgi(app), "") == [{"url": "/"}]
    below = headway.asgi(app, prefix="/work/")
    assert servers(below, "/work") == [{"url": "/work"}]
    assert ask(below, "/work/healthz").status_code == 200
    for path in ("/healthz", "/workhealthz", "/api/v1/openapi.json"):
        assert (ask(below, path).status_code, ask(below, path).json()["code"]) == (404, "NotFound")
    assert ask(below, "/").json()["fix"] == "everything here is below /work/"
    assert ask(below, "/work/api/v1/jobs/").json()["fix"] == "leave out the slash at its end"
    explained = ask(below, "/work/api/v1/jobs").json()["type"]
    assert explained == "/work/api/v1/docs#problem-unauthorized"
    assert 'id="problem-unauthorized"' in ask(below, explained, authorization=bearer).text
    in_starlette = Starlette(routes=[Mount("/tasks", headway.asgi(app))])
    assert servers(in_starlette, "/tasks") == [{"url": "/tasks"}]
    assert ask(in_starlette, "/tasks/api/v1/jobs").status_code == 401
    in_fastapi = FastAPI()
    in_fastapi.mount("/tasks", below)
    assert servers(in_fastapi, "/tasks/work") == [{"url": "/tasks/work"}]
    said = ask(in_fastapi, "/tasks/work/api/v1/jobs")
    assert (said.status_code, said.json()["type"]) == (401, "/tasks/work/api/v1/docs#problem-unauthorized")


def test_the_log_names_key_tenant_and_address_but_no_secret(app: Headway, caplog: Any) -> None:
    made = app.tenant("acme").create_api_key("shop", "viewer")
    api = headway.asgi(app)
    with caplog.at_level(logging.INFO, "headway.api"):
        ask(
            api,
            "/api/v1/jobs?q=hunter2",
            authorization=f"Bearer {made.text}",
            x_request_id="r-1",
            x_forwarded_for="9.9.9.9",
        )
        ask(api, "/nowhere", x_request_id="not an id\x7f")
    text = "\n".join(record.getMessage() for record in caplog.records if record.name == "headway.api")
    assert "r-1" in text
    assert made.key.id in text
    assert made.key.tenant_id in text
    assert "127.0.0.1" in text, "X-Forwarded-For is believed only from a trusted proxy"
    for secret in (made.text, made.text[-49:], "hunter2", "9.9.9.9", "not an id"):
        assert secret not in text
    assert "/nowhere" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"prot": 1}, "did you mean 'port'"),
        ({"port": "eighty"}, "server.port"),
        ({"hosts": ["http://work.example"]}, "neither a name"),
        ({"trusted_proxies": "proxy.example"}, "neither an address nor a network"),
        ({"prefix": "/a b"}, "is not a path"),
        ({"workers": 0}, "from 1"),
        ([], "is a table"),
    ],
)
def test_settings_that_are_refused(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        server_settings(given)


def test_settings_come_from_the_file_and_from_variables(monkeypatch: Any, tmp_path: Any) -> None:
    (tmp_path / "headway.toml").write_text('[server]\nport = 1\nhosts = ["work.example"]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_SERVER_PORT", "2")
    monkeypatch.setenv("HEADWAY_SERVER_TRUSTED_PROXIES", "10.0.0.1, 10.1.0.0/16")
    found = server_settings(Headway()._config["server"])
    assert (found.port, found.hosts, found.trusted_proxies) == (2, ("work.example",), ("10.0.0.1", "10.1.0.0/16"))
