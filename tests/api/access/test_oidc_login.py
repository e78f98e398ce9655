"""Browsers log in at an OIDC provider on loopback: the whole way, and the attacks on it."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from headway import Headway
from headway.api import Api
from headway.api.access import oidc
from headway.api.access.oidc_settings import oidc_settings

KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
START = "/api/v1/login/oidc"


class Provider:
    """Logs everybody in as ada: gives codes that work once, and ID tokens for their verifiers."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.key: Any = KEY
        self.alg = "RS256"
        self.pads: Iterator[bytes] | None = None  # instead of an ID token
        self.padded = 0
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                where = provider.url
                about = {"authorization_endpoint": f"{where}/authorize", "token_endpoint": f"{where}/token"}
                about |= {"issuer": where, "jwks_uri": f"{where}/keys"}
                keys = {"keys": [KEY.as_dict(private=False)]}
                self.answer(200, keys if self.path == "/keys" else about)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                said = {name: values[0] for name, values in parse_qs(body).items()}
                asked = provider._codes.pop(said["code"], None)  # a code works once
                digest = hashlib.sha256(said["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                if (
                    asked is None
                    or asked["code_challenge"] != challenge
                    or (asked["redirect_uri"], asked["client_id"]) != (said["redirect_uri"], said["client_id"])
                ):
                    self.answer(400, {"error": "invalid_grant"})
                    return
                if provider.pads:
                    self.pad(provider.pads)
                    return
                self.answer(200, {"access_token": "x", "id_token": provider.token(asked["nonce"])})

            def pad(self, pads: Iterator[bytes]) -> None:
                self.send_response(200)
                self.end_headers()
                with suppress(OSError):  # it is cut off
                    for each in pads:
                        self.wfile.write(each)
                        provider.padded += len(each)

            def answer(self, status: int, said: Any) -> None:
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def authorize(self, location: str) -> dict[str, str]:
        """What the page at this location sends the browser back with, once somebody has logged in there."""
        there = urlsplit(location)
        assert f"{there.scheme}://{there.netloc}{there.path}" == f"{self.url}/authorize"
        asked = {name: values[0] for name, values in parse_qs(there.query).items()}
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = f"code{len(self._codes)}-{time.monotonic_ns()}"
        self._codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.url}

    def token(self, nonce: str) -> str:
        said = {"iss": self.url, "aud": "headway-web", "sub": "ada", "exp": int(time.time()) + 300, "nonce": nonce}
        said |= {"tenant": "acme", "role": "operator"} | self.claims
        if self.alg == "none":
            parts = (json.dumps({"alg": "none", "kid": "one"}), json.dumps(said))
            return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "."
        return jwt.encode({"alg": self.alg, "kid": "one"}, said, self.key, [self.alg])

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.stop()


class Browser:
    """Keeps cookies, and follows no redirect by itself."""

    def __init__(self, api: Api, loop: Any) -> None:
        self._loop = loop
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://127.0.0.1")

    def get(self, path: str, **query: str) -> httpx.Response:
        return self._loop.run_until_complete(self.http.get(path, params=query or None))

    def session(self) -> str | None:
        return self.http.cookies.get("headway")


@pytest.fixture
def browser(app: Headway, provider: Provider, loop: Any) -> Iterator[Any]:
    """Makes browsers that ask one server."""
    app.tenant("acme").enqueue("welcome", {"user_id": 7})
    settings = {"issuer": provider.url, "audience": "headway", "client_id": "headway-web", "superadmins": ["root"]}
    api = Api(app, oidc=oidc_settings(settings))
    yield lambda: Browser(api, loop)
    loop.run_until_complete(api.aclose())


def came_back(browser: Browser, provider: Provider, following: str | None = None, **other: str) -> httpx.Response:
    """The answer to a browser that went to the provider and came back, with these parts of its answer changed."""
    begun = browser.get(START, **({} if following is None else {"next": following}))
    assert begun.status_code == 303, begun.text
    said = provider.authorize(begun.headers["location"])
    return browser.get(f"{START}/callback", **said | other)


def test_a_browser_logs_in(app: Headway, provider: Provider, browser: Any) -> None:
    ada = browser()
    back = came_back(ada, provider, "/jobs?status=dead")
    assert (back.status_code, back.headers["location"]) == (303, "/jobs?status=dead")
    who = ada.get("/api/v1/session").json()["key"]
    assert (who["name"], who["role"]) == ("oidc:ada", "operator")
    assert [each["payload"]["user_id"] for each in ada.get("/api/v1/jobs").json()["items"]] == [7]
    assert "headway-login" not in ada.http.cookies
    again = browser()
    assert came_back(again, provider).headers["location"] == "/api/v1/docs"
    assert again.get("/api/v1/session").json()["key"]["id"] == who["id"], "one key for a person's sessions"
    provider.claims = {"sub": "root", "role": "viewer"}
    root = browser()
    came_back(root, provider)
    assert root.get("/api/v1/session").json()["key"]["role"] == "superadmin"
    app.revoke_api_key(who["id"])
    new = browser()
    provider.claims = {}
    came_back(new, provider)
    assert new.get("/api/v1/session").json()["key"]["id"] != who["id"], "revoking ended the sessions, not the person"


def test_the_key_of_a_login_is_in_the_audit_with_its_request(app: Headway, provider: Provider, browser: Any) -> None:
    back = came_back(browser(), provider)
    (made,) = app.audit_log(action="key.created")
    assert (made.actor, made.request_id) == ("oidc:ada", back.headers["x-request-id"])
    assert made.address == "127.0.0.1"


def test_a_provider_without_an_end_is_given_up(
    provider: Provider, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip() -> Iterator[bytes]:
        for _ in range(20):
            time.sleep(0.05)  # sooner than a read times out
            yield b" "

    provider.pads = iter([b" " * 2**20] * 100)
    said = came_back(browser(), provider)
    assert (said.status_code, said.json()["code"]) == (503, "IssuerUnavailable")
    assert provider.padded < 50 * 2**20, "it is not read to its end"
    monkeypatch.setattr(oidc, "FETCH_S", 0.3)
    provider.pads = drip()
    said = came_back(browser(), provider)
    assert (said.status_code, said.json()["code"]) == (503, "IssuerUnavailable")


def test_nobody_is_led_elsewhere(provider: Provider, browser: Any) -> None:
    for following in (
        *("https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)"),
        *("/\t/evil.example", "/a\r\nSet-Cookie: x=1", "evil.example", "/%0d\\x", "http:/evil.example", ""),
    ):
        back = came_back(browser(), provider, following)
        assert (back.status_code, back.headers["location"]) == (303, "/api/v1/docs"), following


def test_what_is_not_the_browsers_own_login_is_refused(provider: Provider, browser: Any) -> None:
    ada = browser()
    assert came_back(ada, provider, state="another").status_code == 400
    assert came_back(browser(), provider, iss="https://evil.example").status_code == 401
    assert came_back(browser(), provider, code="invented").status_code == 401
    assert came_back(browser(), provider, code="").status_code == 401
    # a login that an attacker began, sent to a victim: the victim's browser has no cookie of it
    attacker, victim = browser(), browser()
    said = provider.authorize(attacker.get(START).headers["location"])
    assert victim.get(f"{START}/callback", **said).status_code == 400
    # the attacker's code in the victim's own login: its verifier is another
    own = provider.authorize(victim.get(START).headers["location"])
    assert victim.get(f"{START}/callback", **own | {"code": said["code"]}).status_code == 401
    # a code that was seen on its way is worth nothing afterwards, neither with nor without the cookie
    ada = browser()
    said = provider.authorize(ada.get(START).headers["location"])
    kept = dict(ada.http.cookies)
    assert ada.get(f"{START}/callback", **said).status_code == 303
    assert ada.get(f"{START}/callback", **said).status_code == 400
    thief = browser()
    thief.http.cookies.update({"headway-login": kept["headway-login"]})
    assert thief.get(f"{START}/callback", **said).status_code == 401
    assert (victim.session(), thief.session()) == (None, None)


def test_tokens_that_are_not_for_this_login_are_refused(provider: Provider, browser: Any) -> None:
    now = int(time.time())
    for claims, status in (
        ({"nonce": "another"}, 401),
        ({"nonce": None}, 401),
        ({"iss": "https://evil.example"}, 401),
        ({"aud": "somebody-else"}, 401),
        ({"aud": ["headway-web", "other"], "azp": "other"}, 401),
        ({"exp": now - 300}, 401),
        ({"role": "nonsense"}, 403),
        ({"role": "superadmin"}, 403),
        ({"tenant": "nowhere"}, 403),
        ({"sub": "x" * 200}, 403),
    ):
        provider.claims = claims
        one = browser()
        assert (came_back(one, provider).status_code, one.session()) == (status, None), claims
    provider.claims = {}
    for key, alg in ((OTHER, "RS256"), (None, "none")):
        provider.key, provider.alg = key, alg
        one = browser()
        assert (came_back(one, provider).status_code, one.session()) == (401, None), alg


def test_a_login_gives_a_new_session(app: Headway, provider: Provider, browser: Any) -> None:
    """A cookie that an attacker put into the browser before is not the one of the session afterwards."""
    ada = browser()
    ada.http.cookies.set("headway", "chosen-by-the-attacker", domain="127.0.0.1")
    came_back(ada, provider)
    first = ada.session()
    assert first not in (None, "chosen-by-the-attacker")
    came_back(ada, provider)
    assert ada.session() != first
    old = browser()
    old.http.cookies.set("headway", first, domain="127.0.0.1")
    assert old.get("/api/v1/session").status_code == 401, "the session before it is over"


def test_a_role_that_is_taken_away_is_over(app: Headway, provider: Provider, browser: Any) -> None:
    """At the next login at once, on every device; without one, after some hours."""
    provider.claims = {"role": "admin"}
    before, after = browser(), browser()
    came_back(before, provider)
    session = app.store.run(app.store.ops.find_session(sha256(str(before.session()).encode()).digest()))
    assert session is not None
    assert timedelta(hours=7) < session.expires_at - session.created_at <= timedelta(hours=8, seconds=10)
    other = app.tenant("globex").create_api_key("oidc:ada", "admin", actor="oidc:ada").key
    provider.claims = {"role": "viewer"}
    came_back(after, provider)
    assert after.get("/api/v1/session").json()["key"]["role"] == "viewer"
    assert before.get("/api/v1/session").status_code == 401
    assert app.api_key(other.id).revoked_at is None, "what is another tenant's stays"


def test_without_a_client_nobody_logs_in(client: Any, app: Headway) -> None:
    assert client(None).get("/login/oidc").status_code == 404
    assert client(None).get("/login/oidc/callback?code=x&state=y").status_code == 404
