"""Sessions of browsers: begun with a key, as good as it, and of no use to other sites."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import headway
from headway import Headway
from headway.api import Api
from headway.api.access.sessions import _hash
from headway.clock import from_micros
from headway.errors import ConfigError, StoreUnavailable
from tests.api.conftest import Client


class Browser(Client):
    """Keeps no key: sends what it was told to."""

    def __init__(self, api: Api, loop: Any, cookie: str = "", **headers: str) -> None:
        super().__init__(api, loop, None)
        self._headers = {"Cookie": cookie} if cookie else {}
        self._headers |= {name.replace("_", "-"): value for name, value in headers.items()}


def cookie_of(said: Any) -> str:
    return str(said.headers["set-cookie"].partition(";")[0])


def test_a_session_is_as_good_as_its_key(app: Headway, api: Api, loop: Any, client: Any, keys: dict[str, str]) -> None:
    said = client(keys["viewer"]).post("/session")
    assert said.status_code == 201
    assert said.headers["set-cookie"].endswith("; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax")
    cookie = cookie_of(said)
    assert cookie.removeprefix("headway=") not in said.text
    browser = Browser(api, loop, cookie)
    assert browser.get("/jobs").status_code == 200
    assert browser.get("/session").json()["key"]["id"] == keys["viewer"].split("_")[2]
    assert browser.get("/keys").status_code == 403
    assert browser.get("/jobs", headers={"Headway-Tenant": "other"}).status_code == 404
    assert Browser(api, loop, "headway=x").get("/jobs").status_code == 401
    assert Browser(api, loop, "__Host-" + cookie).get("/jobs").status_code == 401, "that name is for TLS"
    assert browser.get("/jobs", headers={"Authorization": "Bearer nonsense"}).status_code == 401, "the header wins"
    mine = Browser(api, loop, cookie, sec_fetch_site="same-origin")
    assert mine.post("/session").status_code == 422, "a session begins with a key"
    gone = mine("DELETE", "/session")
    assert (gone.status_code, "Max-Age=0" in gone.headers["set-cookie"]) == (204, True)
    assert browser.get("/jobs").status_code == 401


def test_other_sites_change_nothing(api: Api, loop: Any, client: Any, keys: dict[str, str]) -> None:
    cookie = cookie_of(client(keys["operator"]).post("/session"))
    cases: list[tuple[dict[str, str], int]] = [
        ({}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "same-origin"}, 201),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://127.0.0.1"}, 403),
        ({"origin": "http://127.0.0.1"}, 201),
        ({"origin": "http://127.0.0.1", "sec_fetch_site": "cross-site"}, 403),
    ]
    for headers, status in cases:
        browser = Browser(api, loop, cookie, **headers)
        said = browser.post("/jobs", json={"kind": "welcome", "payload": {"user_id": 1}})
        assert said.status_code == status, headers
        assert browser.get("/jobs").status_code == 200, "reading is safe: another site cannot see the answer"
        if status == 403:
            assert said.json()["code"] == "CrossSite"


def test_over_tls_the_cookie_is_for_this_host_alone(api: Api, loop: Any, keys: dict[str, str]) -> None:
    import httpx2 as httpx

    async def ask() -> Any:
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="https://127.0.0.1") as client:
            made = await client.post("/api/v1/session", headers={"Authorization": f"Bearer {keys['viewer']}"})
            return made.headers["set-cookie"], (await client.get("/api/v1/session")).status_code

    cookie, status = loop.run_until_complete(ask())
    assert cookie.startswith("__Host-headway=")
    assert cookie.endswith("; HttpOnly; SameSite=Lax; Secure")
    assert status == 200


def test_a_session_ends_with_its_key_when_idle_and_in_the_end(app: Headway, api: Api, loop: Any) -> None:
    made = app.create_api_key("root", "superadmin")
    now, sessions = [0.0], api._sessions
    sessions._monotonic = api.keys._monotonic = lambda: now[0]
    real = app.clock.now
    shifted = [0]
    app.clock.now = lambda: real() + shifted[0]  # type: ignore[method-assign]
    cookie = cookie_of(Client(api, loop, made.text).post("/session"))
    browser = Browser(api, loop, cookie)
    hour = 3_600_000_000
    assert browser.get("/session").status_code == 200
    shifted[0] = 11 * hour
    assert browser.get("/session").status_code == 200
    loop.run_until_complete(sessions.write_uses())
    now[0] += 5
    shifted[0] = 22 * hour  # used in time, and stored
    assert browser.get("/session").status_code == 200
    shifted[0] = 24 * hour  # what the database knows is eleven hours and twelve; this use was not stored
    now[0] += 5
    assert browser.get("/session").status_code == 401
    shifted[0] = 0
    now[0] += 5
    assert browser.get("/session").status_code == 200
    app.revoke_api_key(made.key.id)
    now[0] += 5
    assert browser.get("/session").status_code == 401


def test_a_session_of_a_key_that_expires_ends_with_it(app: Headway, api: Api, loop: Any) -> None:
    made = app.create_api_key("brief", "superadmin", expires="10m")
    said = Client(api, loop, made.text).post("/session").json()
    assert said["expires_at"] == said["valid_until"] == said["key"]["expires_at"]
    assert made.key.expires_at is not None
    assert made.key.expires_at - from_micros(app.clock.now()) <= timedelta(minutes=10)


def test_a_session_that_was_ended_is_over_though_others_ask_meanwhile(
    app: Headway, api: Api, loop: Any, client: Any, keys: dict[str, str], monkeypatch: Any
) -> None:
    cookie = cookie_of(client(keys["viewer"]).post("/session"))
    browser, asking = Browser(api, loop, cookie), Browser(api, loop, cookie, sec_fetch_site="same-origin")
    delete_session, arun = app.store.ops.delete_session, type(app.store).arun

    async def asked_meanwhile(store: Any, op: Any, **options: Any) -> Any:
        if op is deleting:
            monkeypatch.setattr(type(app.store), "arun", arun)
            assert (await browser._ask("GET", "/api/v1/session", browser._headers, {})).status_code == 200
        return await arun(store, op, **options)

    deleting = delete_session(_hash(cookie.removeprefix("headway=")))
    monkeypatch.setattr(app.store.ops, "delete_session", lambda _: deleting)
    monkeypatch.setattr(type(app.store), "arun", asked_meanwhile)
    assert asking("DELETE", "/session").status_code == 204
    assert browser.get("/session").status_code == 401


def test_a_database_that_is_away_locks_no_session_out(
    app: Headway, api: Api, loop: Any, client: Any, keys: dict[str, str], monkeypatch: Any
) -> None:
    browser = Browser(api, loop, cookie_of(client(keys["viewer"]).post("/session")))

    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as outage:
        outage.setattr(type(app.store), "arun", away)
        assert {browser.get("/session").status_code for _ in range(120)} == {503}
    assert browser.get("/session").status_code == 200


def test_sessions_have_settings(app: Headway) -> None:
    with pytest.raises(ConfigError, match="five minutes or longer"):
        headway.asgi(app, session_idle="1m")
    assert headway.asgi(app, session_max="1d").settings.session_max_ms == 86_400_000
