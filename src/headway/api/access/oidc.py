"""Tokens of an OIDC issuer: checked by its public keys, which are fetched seldom; their claims give tenant and role."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import httpx2
import msgspec
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, KeySet

from headway.api.access.oidc_settings import OidcSettings, check_url
from headway.api.wire.problems import Refused
from headway.errors import ConfigError
from headway.logs import get_logger
from headway.model.access import ApiKey, Role
from headway.model.actor import LIMIT
from headway.printable import printable_line

_log = get_logger("headway.api")
_LEEWAY_S = 60
_FRESH_S = 600.0  # how long keys are used before they are fetched again
_AGAIN_S = 30.0  # how soon an unknown key, or a fetch that failed, leads to another fetch
_STALE_S = 24 * 3_600.0  # how long keys are used while the issuer is down
FETCH_S = 5.0  # for all that is asked of the issuer at a time: a timeout of the client's is for each read alone
_LARGEST = 1_048_576  # bytes of an issuer's answer
_LONGEST_SUBJECT = LIMIT - len("oidc:")  # the audit keeps both as who did it
_CHALLENGE = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
# a claim may be a list: the widest of its roles counts
_WIDEST: tuple[Role, ...] = ("admin", "operator", "producer", "viewer", "worker")


class Issuer:
    """Checks the tokens of one issuer."""

    def __init__(self, settings: OidcSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._keys = IssuerKeys(settings, monotonic)
        self._claims = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "value": settings.audience},
            exp={"essential": True},
            sub={"essential": True},
        )

    async def check_login(self, token: str, nonce: str) -> tuple[Mapping[str, Any], Role]:
        """The same for the ID token of a browser's login, which is for this client and has the login's nonce."""
        client_id = self._settings.client_id or ""
        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        claims, role = await self.check(token, registry)
        if claims.get("azp", client_id) != client_id:
            raise Refused(401, "this token was issued to another client", headers=_CHALLENGE)
        return claims, role

    async def check(self, token: str, registry: jwt.JWTClaimsRegistry | None = None) -> tuple[Mapping[str, Any], Role]:
        """The claims of a token and the role that they give; raises `Refused`: 401, 403 without a role, 503 while the
        issuer's keys are not known."""
        try:
            try:
                found = jwt.decode(token, await self._keys.get(), algorithms=self._settings.algorithms)
            except InvalidKeyIdError:
                found = jwt.decode(token, await self._keys.get(unknown=True), algorithms=self._settings.algorithms)
            (registry or self._claims).validate(found.claims)
        except (JoseError, ValueError, TypeError, RecursionError) as error:  # the last two: the library's, of odd parts
            # what it says may quote the token, in which anything can be
            raise Refused(401, f"this token is not valid: {printable_line(str(error))}", headers=_CHALLENGE) from None
        subject = found.claims["sub"]
        if not isinstance(subject, str) or not 1 <= len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
            raise Refused(
                401,
                f"this token's subject is not a printable text of up to {_LONGEST_SUBJECT} characters",
                headers=_CHALLENGE,
            )
        return found.claims, self._role(subject, found.claims)

    def tenant(self, claims: Mapping[str, Any]) -> str:
        """The slug or id of the token's tenant; raises `Refused` with 403."""
        found = _claim(claims, self._settings.tenant_claim)
        if not isinstance(found, str) or not found:
            raise Refused(403, f"this token names no tenant: it has no claim {self._settings.tenant_claim}")
        return found

    def _role(self, subject: str, claims: Mapping[str, Any]) -> Role:
        if subject in self._settings.superadmins:
            return "superadmin"
        said = _claim(claims, self._settings.role_claim)
        values = said if isinstance(said, list) else [said]
        meanings: Mapping[Any, Role] = self._settings.roles or {role: role for role in get_args(Role)}
        roles = {meanings[each] for each in values if isinstance(each, str) and each in meanings}
        for role in _WIDEST:
            if role in roles:
                return role
        raise Refused(
            403,
            f"this token gives no role: its claim {self._settings.role_claim} has none that is known here",
            fix="see roles and superadmins in the section [oidc] of the server's headway.toml",
        )


def as_key(claims: Mapping[str, Any], role: Role, tenant_id: str | None) -> ApiKey:
    """The rights of a token, in the shape of a key's."""
    return ApiKey(
        id=f"oidc:{claims['sub']}",
        name=str(claims.get("name") or claims["sub"]),
        role=role,
        mode="live",
        tenant_id=tenant_id,
        queues=(),
        kinds=(),
        created_at=_issued_at(claims.get("iat")),
        created_by=str(claims["iss"]),
        expires_at=None,
        last_used_at=None,
        revoked_at=None,
        revoked_by=None,
    )


def _issued_at(said: Any) -> datetime:
    try:
        return datetime.fromtimestamp(said or 0, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)  # no time that there is


class IssuerKeys:
    """The issuer's public keys: fetched when first needed, every ten minutes, and when a token names an unknown one."""

    def __init__(self, settings: OidcSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._keys: KeySet | None = None
        self._fetched = self._tried = float("-inf")

    async def get(self, *, unknown: bool = False) -> KeySet:
        """The keys; `unknown`: a token names one that is not among them. Raises `Refused` with 503."""
        now = self._monotonic()
        if (
            self._keys is not None
            and not unknown
            and now - self._fetched <= (_STALE_S if self._lock.locked() else _FRESH_S)
        ):
            return self._keys  # a stranger's token may have others wait for an issuer that hangs
        async with self._lock:  # one fetch at a time
            now = self._monotonic()
            wanted = unknown or now - self._fetched > _FRESH_S
            if wanted and now - self._tried > _AGAIN_S:
                self._tried = now
                try:
                    self._keys, self._fetched = await self._fetch(), now
                except (
                    httpx2.HTTPError,
                    httpx2.InvalidURL,
                    JoseError,
                    ConfigError,
                    ValueError,
                    TypeError,
                    KeyError,
                    TimeoutError,
                ) as error:
                    _log.error(
                        "the issuer's keys cannot be fetched",
                        issuer=self._settings.issuer,
                        error=str(error) or type(error).__name__,
                    )
            if self._keys is None or now - self._fetched > _STALE_S:
                raise Refused(
                    503, "the issuer of this token cannot be asked for its keys", code="IssuerUnavailable",
                    headers={"Retry-After": str(int(_AGAIN_S))},
                )  # fmt: skip
            return self._keys

    async def _fetch(self) -> KeySet:
        async with asyncio.timeout(FETCH_S), asking() as client:
            url = self._settings.jwks_url
            if url is None:
                issuer = self._settings.issuer
                about = await read_json(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if about["issuer"] != issuer:
                    raise ValueError(f"it says that its issuer is {about['issuer']!r}")
                url = str(about["jwks_uri"])
                check_url("jwks_uri", url)
            return _understood(await read_json(client, url))


def _understood(said: Any) -> KeySet:
    """The keys that can be used here; others, such as those of curves that are not known, are left out (RFC 7517, 5).
    Raises `ValueError` where none is left."""
    keys = []
    for each in said["keys"]:
        try:
            keys.append(JWKRegistry.import_key(each))
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            continue
    if not keys:
        raise ValueError("none of its keys can be used")
    return KeySet(keys)


def asking() -> httpx2.AsyncClient:
    """A client for the issuer: it goes where it is told, and nowhere else."""
    return httpx2.AsyncClient(timeout=FETCH_S, follow_redirects=False, trust_env=False)


async def read_json(client: httpx2.AsyncClient, url: str, form: Mapping[str, Any] | None = None) -> Any:
    """What the issuer answers, to a form if there is one; raises where that is an error, too large or no JSON."""
    async with client.stream("GET" if form is None else "POST", url, data=form) as answer:
        answer.raise_for_status()
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _LARGEST:
                raise ValueError(f"{url} answers with more than {_LARGEST} bytes")
    return msgspec.json.decode(body)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path of names with dots between them."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
