"""Who gets in, and what strangers try: logins, sessions, other sites' forms, other tenants, rates."""

from __future__ import annotations

import asyncio

import httpx2 as httpx
import pytest

from headway import Headway
from headway.api import Api
from headway.api.access.oidc_settings import oidc_settings
from headway.api.access.rates import Strangers
from headway.api.serving.settings import server_settings
from headway.api.wire.problems import Refused
from headway.dashboard import Site
from headway.dashboard.live import Live
from headway.model.key_text import new_key
from tests.dashboard.conftest import Dashboard


def test_strangers_find_nothing_of_others(dashboard: Dashboard) -> None:
    with dashboard.visitor("stranger") as stranger:
        assert stranger.get(f"/errors/{dashboard.jobs['error']}").status_code == 404
        assert dashboard.jobs["error"] not in stranger.get("/errors").text
        for name, each in dashboard.jobs.items():
            if name == "error":
                continue
            assert stranger.get(f"/jobs/{each}").status_code == 404
            assert stranger.post("/do/cancel-job", data={"id": each}).status_code == 404
        assert stranger.get("/t/acme/jobs").status_code == 404
        assert stranger.get("/trains/orders%2F7").status_code == 404
        assert dashboard.jobs["dead"] not in stranger.get("/jobs").text
    assert dashboard.app.get(dashboard.jobs["queued"]).status == "queued"


def test_a_login_goes_nowhere_else(dashboard: Dashboard) -> None:
    with httpx.Client(base_url=dashboard.url, headers={"Sec-Fetch-Site": "same-origin"}) as visitor:
        wrong = visitor.post("/login", data={"key": "hw_live_nonsense"})
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers
        for asked, there in {
            "/jobs?status=dead": "/jobs?status=dead",
            "//evil.example": "/",
            "/\\evil.example": "/",
            "https://evil.example": "/",
            "/\tevil": "/",
        }.items():
            answer = visitor.post("/login", params={"next": asked}, data={"key": dashboard.keys["viewer"]})
            assert answer.headers["location"] == there
            assert "HttpOnly" in answer.headers["set-cookie"]
            assert "SameSite=Lax" in answer.headers["set-cookie"]
        visitor.cookies.set("headway", "fixed-by-somebody")
        fresh = visitor.post("/login", data={"key": dashboard.keys["viewer"]})
        assert "fixed-by-somebody" not in fresh.headers["set-cookie"]


def test_a_stolen_cookie_ends_with_the_session_and_none_is_planted(dashboard: Dashboard) -> None:
    def asks(cookie: str) -> tuple[int, int]:
        with httpx.Client(base_url=dashboard.url, headers={"Cookie": cookie, "User-Agent": "thief"}) as thief:
            return thief.get("/jobs").status_code, thief.get("/api/v1/jobs").status_code

    with dashboard.visitor("admin") as admin:
        (value,) = [each.value for each in admin.cookies.jar if each.name == "headway"]
        changed = value[:-1] + ("A" if value[-1] != "A" else "B")
        assert asks(f"headway={value}") == (200, 200), "HttpOnly and TLS keep it from being stolen"
        assert asks(f"headway={changed}") == (303, 401)
        assert admin.post("/logout").status_code == 303
        assert asks(f"headway={value}") == (303, 401)
    planted = "headway=" + changed
    with httpx.Client(base_url=dashboard.url, headers={"Sec-Fetch-Site": "same-origin", "Cookie": planted}) as victim:
        said = victim.post("/login", data={"key": dashboard.keys["viewer"]})
        assert said.status_code == 303
        assert changed not in said.headers["set-cookie"], "a login makes a session of its own"
    assert asks(planted) == (303, 401)


def test_forms_of_other_sites_are_refused(dashboard: Dashboard) -> None:
    with dashboard.visitor("operator") as visitor:
        forged = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
        for path in ("/do/cancel-job", "/bulk", "/jobs/new", "/logout"):
            answer = visitor.post(path, data={"id": dashboard.jobs["queued"]}, headers=forged)
            assert answer.status_code == 403, path
        assert visitor.post("/login", data={"key": dashboard.keys["viewer"]}, headers=forged).status_code == 403
    assert dashboard.app.get(dashboard.jobs["queued"]).status == "queued"


def test_a_viewer_cannot_press_an_operators_button(dashboard: Dashboard) -> None:
    with dashboard.visitor("viewer") as viewer:
        assert "/do/cancel-job" not in viewer.get(f"/jobs/{dashboard.jobs['queued']}").text
        assert viewer.post("/do/cancel-job", data={"id": dashboard.jobs["queued"]}).status_code == 403
        form = {"action": "cancel", "of": "filter", "filter": "{}"}
        assert viewer.post("/bulk", data=form).status_code == 403
    assert dashboard.app.get(dashboard.jobs["queued"]).status == "queued"


def test_the_login_page_names_the_issuer_where_there_is_one(sqlite_migrated_path: str) -> None:
    async def page(**settings: str) -> str:
        app = Headway(f"sqlite:///{sqlite_migrated_path}")
        api = Api(app, oidc=oidc_settings(settings), site=Site)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://127.0.0.1") as client:
            text = (await client.get("/login", params={"next": "/jobs"})).text
        await api.aclose()
        await app.aclose()
        return text

    link = 'href="/api/v1/login/oidc?next=/jobs"'
    assert link not in asyncio.run(page())
    assert link not in asyncio.run(page(issuer="http://127.0.0.1:1", audience="headway"))
    assert link in asyncio.run(page(issuer="http://127.0.0.1:1", audience="headway", client_id="web"))


def test_pages_count_in_the_rates_and_logins_by_their_address(
    sqlite_migrated_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(Strangers, "take", lambda _, address: looked_up.append(address))
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    key = app.create_api_key("root", "superadmin").text
    api = Api(app, server_settings({"key_rate": "3/m"}), site=Site)

    async def visits() -> list[int]:
        transport = httpx.ASGITransport(app=api, client=("127.0.0.9", 1))
        same = {"Sec-Fetch-Site": "same-origin"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=same) as client:
            assert (await client.post("/login", data={"key": new_key().text})).status_code == 401
            assert (await client.post("/login", data={"key": key})).status_code == 303
            statuses = [(await client.get("/queues")).status_code for _ in range(4)]
        await api.aclose()
        await app.aclose()
        return statuses

    assert asyncio.run(visits()) == [200, 200, 200, 429]
    assert set(looked_up) == {"127.0.0.9"}


def test_a_visitor_has_so_many_live_pages() -> None:
    async def parts() -> dict[str, str]:
        return {}

    async def open_tabs() -> list[int]:
        live, opened = Live(), []

        def open_one(visitor: str) -> int:
            stopping = asyncio.Event()
            try:
                opened.append(
                    live.stream(
                        tenant="t", visitor=visitor, view=f"{visitor} /", parts=parts, allowed=parts, stopping=stopping
                    )
                )
            except Refused as refused:
                return refused.status
            return 200

        found = [open_one("a") for _ in range(102)][98:]
        opened[0]._leave()
        found += [open_one("a"), open_one("a"), open_one("b")]
        await live.aclose()
        return found

    assert asyncio.run(open_tabs()) == [200, 200, 429, 429, 200, 429, 200]
