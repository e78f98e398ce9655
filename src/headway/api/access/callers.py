"""Who asks: the holder of a key, of a session's cookie, or of an issuer's token."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from starlette.requests import Request

from headway.api.access.keys import REMEMBERED_S, Keys
from headway.api.access.oidc_settings import OidcSettings
from headway.api.access.sessions import Sessions
from headway.api.access.tenants import tenant_id_of
from headway.api.wire.exchange import Exchange
from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.model.access import ApiKey

if TYPE_CHECKING:
    from headway.api.access.oidc import Issuer
    from headway.api.access.oidc_login import OidcLogin

_MOST = 10_000


class Callers:
    """Finds who a request is from. A header wins over a cookie, which browsers send by themselves."""

    def __init__(self, app: Headway, keys: Keys, sessions: Sessions, oidc: OidcSettings | None) -> None:
        self._app = app
        self._keys = keys
        self._sessions = sessions
        self._issuer = None if oidc is None else _issuer(oidc)
        self.login: OidcLogin | None = None
        if self._issuer is not None and oidc is not None and oidc.client_id is not None:
            from headway.api.access.oidc_login import OidcLogin

            self.login = OidcLogin(app, self._issuer, oidc, keys, sessions)
        self._tenants: OrderedDict[str, tuple[str | None, float]] = OrderedDict()

    async def check(self, request: Request) -> ApiKey:
        """The caller, with its rights, in the shape of a key; raises `Refused`."""
        exchange = Exchange.of(request)
        authorization = exchange.sent.get("authorization")
        if authorization is None and (key := await self._sessions.check(request)) is not None:
            return key
        if self._issuer is not None:
            scheme, _, text = (authorization or "").partition(" ")
            # a key has no dots, and a token has two
            if scheme.lower() == "bearer" and text.count(".") == 2:
                return await self._holder(self._issuer, text.strip())
        return await self._keys.check(authorization, exchange.address)

    async def _holder(self, issuer: Issuer, token: str) -> ApiKey:
        from headway.api.access.oidc import as_key

        claims, role = await issuer.check(token)
        if role == "superadmin":
            return as_key(claims, role, None)
        named = issuer.tenant(claims)
        tenant_id = await self._tenant_id(named)
        if tenant_id is None:
            raise Refused(403, f"this token is for the tenant {named!r}, which is not there")
        return as_key(claims, role, tenant_id)

    async def _tenant_id(self, named: str) -> str | None:
        found, until = self._tenants.get(named, (None, 0.0))
        now = time.monotonic()
        if now >= until:
            found = await tenant_id_of(self._app, named)
            self._tenants[named] = (found, now + REMEMBERED_S)
            if len(self._tenants) > _MOST:
                self._tenants.popitem(last=False)
        return found


def _issuer(settings: OidcSettings) -> Issuer:
    from headway.api.access.oidc import Issuer  # its libraries take a while to import

    return Issuer(settings)
