"""Tokens of an OIDC issuer, on loopback: whose they are, what they may, and which are refused."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from headway import Headway
from headway.api import Api
from headway.api.access import oidc
from headway.api.access.oidc_settings import OidcSettings, oidc_settings
from headway.errors import ConfigError
from tests.api.conftest import Client

KEY = RSAKey.generate_key(2048, {"kid": "one"})
NEXT = RSAKey.generate_key(2048, {"kid": "two"})
CURVE = ECKey.generate_key("P-256", {"kid": "curve"})
STRANGER = RSAKey.generate_key(2048, {"kid": "one"})


class Issuer:
    """Publishes its keys over HTTP, and signs."""

    def __init__(self) -> None:
        self.keys: list[Any] = [KEY, CURVE]
        self.fetches = 0
        self.drips = False
        self.stopped = threading.Event()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                where = issuer.url
                if self.path == "/.well-known/openid-configuration":
                    said: Any = {"issuer": where, "jwks_uri": f"{where}/keys"}
                else:
                    issuer.fetches += 1
                    keys = [key if isinstance(key, dict) else key.as_dict(private=False) for key in issuer.keys]
                    said = {"keys": keys}
                body = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                while issuer.drips and not issuer.stopped.wait(0.05):  # sooner than a read times out
                    self.wfile.write(b" ")
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def token(self, *, key: Any = KEY, alg: str = "RS256", kid: str | None = None, **claims: Any) -> str:
        said = {"iss": self.url, "aud": "headway", "sub": "ada", "exp": int(time.time()) + 300}
        said |= {"tenant": "acme", "role": "viewer"} | claims
        header = {"alg": alg, "kid": kid or key.kid or "one"}
        return jwt.encode(header, {name: each for name, each in said.items() if each is not None}, key, [alg])

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.stop()


@pytest.fixture
def asked(app: Headway, issuer: Issuer, loop: Any) -> Iterator[Any]:
    """Asks with a token: gives an answer."""
    app.tenant("acme").enqueue("welcome", {"user_id": 7})
    app.tenant("other").enqueue("welcome", {"user_id": 8})
    apis: list[Api] = []

    def ask(token: str, path: str = "/jobs", method: str = "GET", headers: Any = None, **options: Any) -> Any:
        settings = {"issuer": issuer.url, "audience": "headway", **options.pop("settings", {})}
        if options.pop("new", not apis):
            apis.append(Api(app, oidc=oidc_settings(settings)))
        return Client(apis[-1], loop, token)(method, path, headers=headers or {}, **options)

    ask.apis = apis  # type: ignore[attr-defined]
    yield ask
    for each in apis:
        loop.run_until_complete(each.aclose())


def test_a_token_gives_its_tenant_and_role(app: Headway, issuer: Issuer, asked: Any) -> None:
    def users(said: Any) -> list[int]:
        assert said.status_code == 200, said.text
        return [each["payload"]["user_id"] for each in said.json()["items"]]

    assert users(asked(issuer.token())) == [7]
    assert users(asked(issuer.token(key=CURVE, alg="ES256"))) == [7]
    assert users(asked(issuer.token(aud=["elsewhere", "headway"], tenant=app.tenant("other")._visible_tenant))) == [8]
    assert asked(issuer.token(), headers={"Headway-Tenant": "other"}).status_code == 404
    assert asked(issuer.token(), "/keys").status_code == 403
    assert asked(issuer.token(role=["viewer", "admin", "nonsense", 7]), "/keys").status_code == 200
    made = asked(issuer.token(role="producer"), method="POST", json={"kind": "welcome", "payload": {"user_id": 9}})
    assert made.status_code == 201
    assert app.get(made.json()["id"]).created_by == "oidc:ada"
    who = asked(issuer.token(name="Ada"), "/session").json()["key"]
    assert (who["id"], who["name"], who["role"]) == ("oidc:ada", "Ada", "viewer")
    assert asked(issuer.token(), "/session", "POST").status_code == 422, "a session begins with a key"
    assert issuer.fetches == 1, "keys are fetched once"
    nested = {
        "settings": {
            "tenant_claim": "org.id",
            "role_claim": "https://acme.example/groups",
            "roles": {"staff": "viewer"},
        }
    }
    claims = {"tenant": None, "role": None, "org": {"id": "acme"}, "https://acme.example/groups": ["staff"]}
    assert users(asked(issuer.token(**claims), new=True, **nested)) == [9, 7]
    assert asked(issuer.token(**claims | {"https://acme.example/groups": ["admin"]})).status_code == 403


def test_a_worker_belongs_to_the_tenant_of_the_token_that_began_it(app: Headway, issuer: Issuer, asked: Any) -> None:
    acme, other = (issuer.token(role="worker", tenant=name) for name in ("acme", "other"))
    worker = {"worker_id": "0192d3c4-0000-7000-8000-000000000001"}
    claim = worker | {"claim_id": "a", "queues": ["mail"]}
    (job,) = asked(acme, "/worker/jobs/claim", "POST", json=claim).json()["jobs"]
    key = {"id": job["id"], "fence": 1}
    for path, body in (
        ("/worker/jobs/claim", claim),
        ("/worker/heartbeat", worker | {"jobs": [key]}),
        ("/worker/settle", worker | {"jobs": [key]}),
        ("/worker/release", worker | {"jobs": [key], "leave": True}),
        (f"/worker/jobs/{job['id']}/complete", worker | {"fence": 1}),
    ):
        assert asked(other, path, "POST", json=body).status_code == 403, path
    assert asked(acme, f"/worker/jobs/{job['id']}/complete", "POST", json=worker | {"fence": 1}).status_code == 200


def test_super_admins_are_named_in_the_settings(issuer: Issuer, asked: Any) -> None:
    assert asked(issuer.token(role="superadmin")).status_code == 403
    root = {"settings": {"superadmins": ["ada"]}}
    assert asked(issuer.token(role=None, tenant=None), "/workers", new=True, **root).status_code == 200
    assert asked(issuer.token(sub="eve", role="superadmin"), "/workers").status_code == 403
    with pytest.raises(ConfigError, match="must map"):
        oidc_settings({"issuer": issuer.url, "audience": "a", "roles": {"boss": "superadmin"}})


def test_tokens_that_are_refused(issuer: Issuer, asked: Any) -> None:
    now = int(time.time())
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').rstrip(b"=").decode()
    signed = f"{head}.{issuer.token().split('.')[1]}"
    digest = hmac.digest(KEY.as_pem(private=False), signed.encode(), "sha256")
    shared = f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    unsigned = ".".join([*issuer.token().split(".")[:2], ""])
    none = f"eyJhbGciOiJub25lIn0.{issuer.token().split('.')[1]}."
    cases = {
        "expired": (issuer.token(exp=now - 61), 401),
        "within the leeway": (issuer.token(exp=now - 30), 200),
        "without an end": (issuer.token(exp=None), 401),
        "not yet": (issuer.token(nbf=now + 120), 401),
        "of another issuer": (issuer.token(iss="https://evil.example"), 401),
        "for another audience": (issuer.token(aud="elsewhere"), 401),
        "for nobody": (issuer.token(aud=None), 401),
        "of no subject": (issuer.token(sub=None), 401),
        "by a stranger's key": (issuer.token(key=STRANGER), 401),
        "by an algorithm that is not allowed": (issuer.token(alg="RS512"), 401),
        "by the public key as a shared secret": (shared, 401),
        "unsigned": (unsigned, 401),
        "of algorithm none": (none, 401),
        "nonsense": ("a.b.c", 401),
        "of no role": (issuer.token(role=None), 403),
        "of an unknown role": (issuer.token(role="boss"), 403),
        "of no tenant": (issuer.token(tenant=None), 403),
        "of an unknown tenant": (issuer.token(tenant="nowhere"), 403),
    }
    found = {name: asked(token).status_code for name, (token, _) in cases.items()}
    assert found == {name: status for name, (_, status) in cases.items()}
    assert asked(cases["expired"][0]).headers["www-authenticate"] == 'Bearer error="invalid_token"'


def signed(header: str, claims: str) -> str:
    """A token of exactly these texts, signed by the issuer."""
    parts = [base64.urlsafe_b64encode(each.encode()).rstrip(b"=") for each in (header, claims)]
    signature = KEY.private_key.sign(b".".join(parts), padding.PKCS1v15(), hashes.SHA256())
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def test_odd_tokens_are_refused_without_a_fault(issuer: Issuer, asked: Any) -> None:
    good = json.loads(base64.urlsafe_b64decode(issuer.token().split(".")[1] + "=="))

    def with_claims(**claims: Any) -> str:
        return signed('{"alg":"RS256","kid":"one"}', json.dumps(good | claims))

    deep = json.dumps(good)[:-1] + ',"deep":' + "[" * 5_000 + "]" * 5_000 + "}"
    cases = {
        "a kid that is no text": (signed(r'{"alg":"RS256","kid":"\ud800"}', json.dumps(good)), 401),
        "an algorithm that is no text": (signed(r'{"alg":"\ud800","kid":"one"}', json.dumps(good)), 401),
        "critical fields that are no list": (signed('{"alg":"RS256","kid":"one","crit":5}', json.dumps(good)), 401),
        "deep claims": (signed('{"alg":"RS256","kid":"one"}', deep), 401),
        "issued before all times": (with_claims(iat=-(10**30)), 200),
        "a tenant that is no text": (with_claims(tenant="\ud800"), 403),
        "a tenant with a NUL": (with_claims(tenant="a\0b"), 403),
        "a subject as long as the audit keeps": (with_claims(sub="s" * 250), 200),
        "a longer subject": (with_claims(sub="s" * 251), 401),
    }
    said = {name: asked(token) for name, (token, _) in cases.items()}
    assert {name: each.status_code for name, each in said.items()} == {name: to for name, (_, to) in cases.items()}
    assert all(each.json()["request_id"] for each in said.values() if each.status_code != 200)
    longest = issuer.token(sub="s" * 250, role="admin")
    assert asked(longest, "/templates", "POST", json={"name": "t", "kind": "report"}).status_code == 201


def test_keys_that_are_not_understood_are_left_out(issuer: Issuer, asked: Any) -> None:
    unknown = {"kty": "EC", "crv": "brainpoolP256r1", "kid": "brain", "x": "AAAA", "y": "AAAA"}
    issuer.keys = [unknown, {"kty": "later"}, {"kty": "RSA", "n": 5}, {"kty": "OKP", "crv": "Ed25519", "x": "AA"}, KEY]
    assert asked(issuer.token()).status_code == 200
    issuer.keys = [unknown]
    assert asked(issuer.token(), new=True).status_code == 503


def test_an_issuer_that_drips_is_given_up(issuer: Issuer, asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "FETCH_S", 0.2)
    issuer.drips = True
    said = asked(issuer.token())
    assert (said.status_code, said.json()["code"]) == (503, "IssuerUnavailable")


def test_keys_that_change_and_an_issuer_that_is_down(issuer: Issuer, asked: Any) -> None:
    now = [0.0]
    assert asked(issuer.token()).status_code == 200
    keys = asked.apis[0]._callers._issuer._keys
    keys._monotonic = lambda: now[0]
    keys._fetched = keys._tried = 0.0
    issuer.keys = [NEXT]
    assert asked(issuer.token(key=NEXT)).status_code == 401, "fetched a moment ago: not again for each invented key"
    now[0] += 31
    assert asked(issuer.token(key=NEXT)).status_code == 200
    assert asked(issuer.token()).status_code == 401, "the old key is gone"
    assert issuer.fetches == 2
    issuer.stop()
    now[0] += 3_600
    assert asked(issuer.token(key=NEXT)).status_code == 200, "the keys are known"
    now[0] += 24 * 3_600
    said = asked(issuer.token(key=NEXT))
    assert (said.status_code, said.json()["code"], said.headers["retry-after"]) == (503, "IssuerUnavailable", "30")
    said = asked(issuer.token(key=NEXT), new=True)
    assert (said.status_code, said.json()["code"]) == (503, "IssuerUnavailable")


def test_known_keys_do_not_wait_for_a_fetch(issuer: Issuer, asked: Any) -> None:
    assert asked(issuer.token()).status_code == 200
    keys = asked.apis[0]._callers._issuer._keys

    async def get() -> None:
        async with keys._lock:  # a token with an invented key makes it ask an issuer that hangs
            for age in (0, 700):  # the second are to be fetched again
                keys._fetched = keys._monotonic() - age
                assert await asyncio.wait_for(keys.get(), 20) is keys._keys

    asyncio.run(get())


def test_settings_that_are_refused() -> None:
    good = {"issuer": "https://login.example", "audience": "headway"}
    for given, says in (
        ({"issuer": "https://login.example"}, "needs audience"),
        ({**good, "issuer": "http://login.example"}, "must be an https URL"),
        ({**good, "algorithms": ["HS256"]}, "is not one of"),
        ({**good, "algorithms": "RS256,none"}, "is not one of"),
        ({**good, "isuer": "x"}, "did you mean 'issuer'"),
        ({**good, "roles": {"a": "boss"}}, "must map"),
    ):
        with pytest.raises(ConfigError, match=says):
            oidc_settings(given)
    assert oidc_settings({}) is None
    assert isinstance(oidc_settings({**good, "roles": "ops=operator, staff=viewer"}), OidcSettings)
