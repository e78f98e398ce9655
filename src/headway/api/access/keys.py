"""Who asks: finds the key of a request, and what it may see."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.app.verbs import Verbs
from headway.clock import from_micros
from headway.errors import InvalidJob
from headway.model.access import ApiKey, Role, StoredKey
from headway.model.ids import is_id
from headway.model.key_text import read_key

REMEMBERED_S = 4.0  # a revoked key is refused everywhere after 5 seconds, a slow look at the database included
_MOST = 10_000
_NO_HASH = bytes(32)
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Keys:
    """The keys that were used lately. Looks at the database once in some seconds for each."""

    def __init__(self, app: Headway, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._monotonic = monotonic
        self._found: OrderedDict[str, tuple[StoredKey | None, float]] = OrderedDict()
        self._unknown: OrderedDict[str, tuple[None, float]] = OrderedDict()  # invented ids push out no real ones
        self._used: dict[str, datetime] = {}  # what the database does not know yet
        self._written: dict[str, datetime] = {}

    async def check(self, authorization: str | None) -> ApiKey:
        """The key of a request; raises `Refused` with 401."""
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise Refused(
                401,
                "the request names no key",
                fix="send Authorization: Bearer hw_…; headway keys create makes a key",
                headers=_CHALLENGE,
            )
        given = read_key(text.strip())
        if given is None:
            raise Refused(401, "this is not a key, or a character of it is missing", headers=_CHALLENGE)
        stored = await self._stored(given.id)
        # an unknown key takes as long as a wrong one
        same = hmac.compare_digest(given.secret_hash, _NO_HASH if stored is None else stored.secret_hash)
        now = from_micros(self._app.clock.now())
        if stored is None or not same or stored.key.mode != given.mode or not stored.key.is_valid(now):
            raise Refused(401, "this key is unknown, revoked or expired", headers=_CHALLENGE)
        self._note_use(stored.key, now)
        return stored.key

    async def valid(self, key_id: str) -> ApiKey | None:
        """The key of this id, if it is neither revoked nor expired: for a session, which shows no secret of it."""
        stored = await self._stored(key_id)
        now = from_micros(self._app.clock.now())
        if stored is None or not stored.key.is_valid(now):
            return None
        self._note_use(stored.key, now)
        return stored.key

    def forget(self, key_id: str) -> None:
        """Look at the database at its next use."""
        self._found.pop(key_id, None)
        self._unknown.pop(key_id, None)

    async def write_uses(self) -> None:
        """Store when keys were last used: once a minute for each key that was."""
        used, self._used = self._used, {}
        if used:
            try:
                await self._app.store.arun(self._app.store.ops.touch_keys(used))
            except BaseException:
                self._used = used | self._used  # the next time, with the minute that it was
                raise

    async def _stored(self, key_id: str) -> StoredKey | None:
        asked = self._monotonic()
        found, until = self._found.get(key_id) or self._unknown.get(key_id) or (None, 0.0)
        if asked < until:
            return found
        found = await self._app.store.arun(self._app.store.ops.find_key(key_id))
        self.forget(key_id)
        remembered: OrderedDict[str, Any] = self._unknown if found is None else self._found
        remembered[key_id] = (found, asked + REMEMBERED_S)
        if len(remembered) > _MOST:
            remembered.popitem(last=False)
        return found

    def _note_use(self, key: ApiKey, now: datetime) -> None:
        minute = now.replace(second=0, microsecond=0)
        last = self._written.get(key.id, key.last_used_at)
        if last is None or minute - last >= timedelta(minutes=1):
            self._used[key.id] = self._written[key.id] = minute


def check_role(key: ApiKey, roles: tuple[Role, ...]) -> None:
    if key.role not in roles:
        raise Refused(
            403,
            f"a key of role {key.role} may not do this",
            fix=f"use a key of role {' or '.join(roles)}",
        )


class Tenants:
    """The verbs for what a key sees: its own tenant, or what a super admin names."""

    def __init__(self, app: Headway) -> None:
        self._app = app
        self._walled: OrderedDict[str, Verbs] = OrderedDict()

    async def verbs(self, key: ApiKey, named: str | None) -> Verbs:
        """`named` is the tenant of the request's header. Raises `Refused` with 404 for any but the key's own."""
        if key.tenant_id is not None:
            if named is not None and named != key.tenant_id and await tenant_id_of(self._app, named) != key.tenant_id:
                raise _no_tenant(named)
            # workers claim and settle, which an application's role may not
            return self._app.tenant(UUID(key.tenant_id)) if key.role == "worker" else self._of(key.tenant_id)
        if named is None:
            return self._app
        tenant_id = await tenant_id_of(self._app, named)
        if tenant_id is None:
            raise _no_tenant(named)
        return self._app.tenant(UUID(tenant_id))

    def _of(self, tenant_id: str) -> Verbs:
        found = self._walled.get(tenant_id)
        if found is None:
            found = self._walled[tenant_id] = self._app._walled_tenant(tenant_id)
            if len(self._walled) > _MOST:
                self._walled.popitem(last=False)
        return found


async def tenant_id_of(app: Headway, named: str) -> str | None:
    """The id of an existing tenant, by name or id: over HTTP none comes into being by being named."""
    ref = str(UUID(named)) if is_id(named) else named
    try:
        found = await app.store.arun(app.store.ops.tenants_named([ref], create=False))
    except InvalidJob:
        return None
    return found.get(ref)


def _no_tenant(named: str) -> Refused:
    return Refused(404, f"there is no tenant {named!r}")
