"""Browsers log in at an OIDC issuer: authorization code with PKCE, state and nonce; then a session's cookie."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx2
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.api.access import oidc
from headway.api.access.keys import Keys
from headway.api.access.oidc_settings import OidcSettings, check_url
from headway.api.access.sessions import Sessions
from headway.api.access.tenants import tenant_id_of
from headway.api.routes import PREFIX
from headway.api.wire.exchange import Exchange
from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.clock import from_micros
from headway.errors import ConfigError
from headway.model.access import ApiKey, Role
from headway.model.actor import Caller

START = f"{PREFIX}/login/oidc"
CALLBACK = f"{START}/callback"
_LONGEST_S = 600  # how long somebody may take at the issuer's page
_LONGEST_SESSION = timedelta(hours=8)  # then the issuer is asked again: a role may have been taken away
_FRESH_S = 600.0
_LONGEST_SUBJECT = 90
# a path of this server, and nothing that a browser could take for another one: //evil.example, /\evil.example
_NEXT = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*\Z")


class _Begun(msgspec.Struct, array_like=True):
    """What the browser keeps of a login that it began, in a cookie that only this server reads."""

    state: str
    nonce: str
    verifier: str
    next: str


class OidcLogin:
    """Sends browsers to the issuer, and makes sessions of those who come back."""

    def __init__(
        self, app: Headway, issuer: oidc.Issuer, settings: OidcSettings, keys: Keys, sessions: Sessions
    ) -> None:
        self._app = app
        self._issuer = issuer
        self._settings = settings
        self._keys = keys
        self._sessions = sessions
        self._about: tuple[dict[str, Any], float] | None = None

    async def begin(self, request: Request) -> Response:
        """Send the browser to the issuer; raises `Refused`."""
        following = request.query_params.get("next", "")
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        begun = _Begun(state, nonce, verifier, following if _NEXT.match(following) else "")
        about = await self._endpoints()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(begun.verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": _callback(request),
            "scope": "openid profile",
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        there = about["authorization_endpoint"]
        answer = _redirect(f"{there}{'&' if '?' in there else '?'}{urlencode(asked)}")
        kept = base64.urlsafe_b64encode(msgspec.json.encode(begun)).decode()
        answer.headers.append("Set-Cookie", _cookie(request, kept, _LONGEST_S))
        return answer

    async def end(self, request: Request) -> Response:
        """The browser is back from the issuer: check what it brings, begin a session. Raises `Refused`."""
        said = request.query_params
        begun = _begun(request)
        if begun is None or not hmac.compare_digest(said.get("state", "").encode(), begun.state.encode()):
            raise Refused(400, "this login was not begun in this browser, or too long ago", fix=f"begin at {START}")
        # an answer of another issuer, sent here in place of ours (RFC 9207)
        if said.get("iss", self._settings.issuer) != self._settings.issuer:
            raise Refused(401, "this answer is from another issuer than the one that was asked")
        if not said.get("code"):
            raise Refused(401, f"the issuer did not log you in: {said.get('error', 'it gave no code')[:200]}")
        claims, role = await self._issuer.check_login(await self._token(request, said["code"], begun), begun.nonce)
        key = await self._key(request, claims, role)
        await self._sessions.end(request)  # even if the browser has a session already: every login gets a new secret
        _, cookie = await self._sessions.begin(request, key, _LONGEST_SESSION)
        root = request.scope.get("root_path", "")
        answer = _redirect(f"{root}{begun.next if _NEXT.match(begun.next) else f'{PREFIX}/docs'}")
        answer.headers.append("Set-Cookie", cookie)
        answer.headers.append("Set-Cookie", _cookie(request, "", 0))
        return answer

    async def _token(self, request: Request, code: str, begun: _Begun) -> str:
        """The ID token for the code."""
        about = await self._endpoints()
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": _callback(request),
            "client_id": self._settings.client_id,
            "code_verifier": begun.verifier,
        }
        if self._settings.client_secret is not None:
            asked["client_secret"] = self._settings.client_secret
        try:
            async with asyncio.timeout(oidc.FETCH_S), oidc.asking() as client:
                said = await oidc.read_json(client, about["token_endpoint"], asked)
        except httpx2.HTTPStatusError:
            said = {}
        except (httpx2.HTTPError, ValueError, TimeoutError) as error:
            raise _unavailable() from error
        token = said.get("id_token") if isinstance(said, dict) else None
        if not isinstance(token, str):
            raise Refused(401, "the issuer did not accept the code: it was used before, or is not for this login")
        return token

    async def _key(self, request: Request, claims: Any, role: Role) -> ApiKey:
        """The key of this person's sessions: made at the first login, its secret known to nobody. Revoking it ends the
        sessions; another role or tenant is another key, and a login with another role revokes the one before."""
        subject = str(claims["sub"])
        if len(subject) > _LONGEST_SUBJECT:
            raise Refused(403, f"this subject is longer than {_LONGEST_SUBJECT} characters")
        tenant_id = None
        if role != "superadmin":
            named = self._issuer.tenant(claims)
            tenant_id = await tenant_id_of(self._app, named)
            if tenant_id is None:
                raise Refused(403, f"this login is for the tenant {named!r}, which is not there")
        verbs = self._app if tenant_id is None else self._app.tenant(UUID(tenant_id))
        name, now = f"oidc:{subject}", from_micros(self._app.clock.now())
        exchange = Exchange.of(request)
        actor = Caller.of(name, request_id=exchange.request_id, address=exchange.address)
        mine = None
        for key in await self._app.aapi_keys():
            if (key.name, key.created_by) != (name, name) or not key.is_valid(now):
                continue
            if (key.role, key.tenant_id) == (role, tenant_id):
                mine = key
            elif key.tenant_id in (None, tenant_id):  # of a role that the issuer no longer gives, with its sessions
                await self._app.arevoke_api_key(key.id, actor=actor)
                self._keys.forget(key.id)
        if mine is not None:
            return mine
        made = await verbs.acreate_api_key(name, role, actor=actor)
        return made.key

    async def _endpoints(self) -> dict[str, Any]:
        """What the issuer says of itself; raises `Refused` with 503."""
        if self._about is None or time.monotonic() - self._about[1] > _FRESH_S:
            issuer = self._settings.issuer
            try:
                async with asyncio.timeout(oidc.FETCH_S), oidc.asking() as client:
                    about = await oidc.read_json(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if about["issuer"] != issuer:
                    raise ValueError(f"it says that its issuer is {about['issuer']!r}")
                for name in ("authorization_endpoint", "token_endpoint"):
                    check_url(name, about[name])
            except (httpx2.HTTPError, ConfigError, ValueError, TypeError, KeyError, TimeoutError) as error:
                raise _unavailable() from error
            self._about = (about, time.monotonic())
        return self._about[0]


def _unavailable() -> Refused:
    return Refused(503, "the issuer cannot be asked", code="IssuerUnavailable", headers={"Retry-After": "30"})


def _callback(request: Request) -> str:
    """Where the issuer sends the browser back to: this server, by the name that it was asked under."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}{request.scope.get('root_path', '')}{CALLBACK}"


def _cookie_name(request: Request) -> str:
    return "__Host-headway-login" if request.url.scheme == "https" else "headway-login"


def _cookie(request: Request, value: str, max_age_s: int) -> str:
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{_cookie_name(request)}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}"


def _begun(request: Request) -> _Begun | None:
    try:
        return msgspec.json.decode(
            base64.urlsafe_b64decode(request.cookies.get(_cookie_name(request), "")), type=_Begun
        )
    except (msgspec.MsgspecError, ValueError):
        return None


def _redirect(there: str) -> Response:
    return Response(b"", 303, {"Location": there, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
