"""The verbs of API keys, which open the HTTP API."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn
from uuid import UUID

import msgspec

from headway.app.base import VerbBase, then
from headway.clock import from_micros
from headway.define.checks import name as checked_name
from headway.errors import InvalidJob, NotFound
from headway.model.access import ApiKey, NewApiKey, Role, check_key
from headway.model.codec import check_text
from headway.model.duration import Duration, to_ms
from headway.model.key_text import Mode, is_key_id, new_key
from headway.model.trigger import TriggerChange
from headway.store.ops import Op, Steps

_LONGEST_NAME = 100
_TRIGGERS_AT_ONCE = 1_000


class CreatedKey(msgspec.Struct, frozen=True):
    """A new key. `text` is what a client sends; it is stored nowhere and cannot be shown again."""

    text: str
    key: ApiKey


class ApiKeyVerbs(VerbBase):
    """`app.tenant(name)` makes, lists and revokes the keys of that tenant only."""

    def create_api_key(
        self,
        name: str,
        role: Role,
        *,
        tenant: str | UUID | None = None,
        queues: Sequence[str] = (),
        kinds: Sequence[str] = (),
        expires: Duration | datetime | None = None,
        mode: Mode = "live",
        actor: str | None = None,
        conn: Any = None,
    ) -> CreatedKey:
        """Make a key for the HTTP API. Its `text` is shown only now.

        A superadmin's key has no tenant. A worker's is for all tenants unless you name one; every other role's is for
        the tenant that you name, or else the app's own. `queues` and `kinds` narrow what viewer, producer, operator,
        admin and worker keys see and touch. Raises `InvalidJob`.
        """
        made = new_key(mode)
        op = self._create_api_key(name, role, tenant, queues, kinds, expires, made.id, made.secret_hash, mode, actor)
        return CreatedKey(made.text, self._run(op, conn))

    def api_keys(self, *, tenant: str | UUID | None = None) -> list[ApiKey]:
        """The keys, oldest first, without their secrets; revoked and expired ones too."""
        return self._run(self._api_keys(tenant))

    def api_key(self, key_id: str) -> ApiKey:
        """One key, without its secret. Raises `NotFound`."""
        return self._run(self._api_key(key_id))

    def revoke_api_key(
        self, key_id: str, *, with_made: bool = False, actor: str | None = None, conn: Any = None
    ) -> ApiKey:
        """Revoke a key, forever: within 5 seconds no server accepts it. `with_made` revokes the keys that it made, too,
        and theirs, and disables the schedules and triggers that any of these made. Raises `NotFound`."""
        return self._run(self._revoke_api_key(key_id, with_made, actor), conn)

    # as ops

    def _create_api_key(
        self,
        name: str,
        role: Role,
        tenant: str | UUID | None,
        queues: Sequence[str],
        kinds: Sequence[str],
        expires: Duration | datetime | None,
        key_id: str,
        secret_hash: bytes,
        mode: Mode,
        actor: str | None,
    ) -> Op[ApiKey]:
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
            raise InvalidJob(f"a key's name has 1 to {_LONGEST_NAME} characters: who uses it, and for what")
        check_text(name, "name")
        for what, names in (("queue", queues), ("kind", kinds)):
            if isinstance(names, str):
                raise InvalidJob(f"{what}s is a list of names, not one text")
            for each in names:
                checked_name(each, what)
        for_all = tenant is None and role in ("superadmin", "worker") and not self._is_for_one_tenant
        key = NewApiKey(
            id=key_id,
            secret_hash=secret_hash,
            name=name,
            role=role,
            mode=mode,
            tenant_id=None if for_all else "",
            queues=tuple(queues),
            kinds=tuple(kinds),
            expires_at=self._expiry(expires),
        )
        check_key(key)  # first: finding the id of a tenant that is new creates it
        if not for_all:
            key = msgspec.structs.replace(key, tenant_id=self._id_for(self._named_tenant(tenant)))
        return self._store.ops.create_key(key, actor=actor)

    def _expiry(self, expires: Duration | datetime | None) -> datetime | None:
        now = from_micros(self.clock.now())
        if expires is None:
            return None
        if not isinstance(expires, datetime):
            return now + timedelta(milliseconds=to_ms(expires, "expires"))
        if expires.tzinfo is None:
            raise InvalidJob(f"expires={expires} has no time zone")
        if expires <= now:
            raise InvalidJob(f"expires={expires} is over already")
        return expires

    def _api_keys(self, tenant: str | UUID | None) -> Op[list[ApiKey]]:
        return self._store.ops.keys(tenant_id=self._tenant_to_read(tenant))

    def _api_key(self, key_id: str) -> Op[ApiKey]:
        op = self._store.ops.keys(tenant_id=self._visible_tenant)
        return then(op, lambda found: next((key for key in found if key.id == key_id), None) or _missing(key_id))

    def _revoke_api_key(self, key_id: str, with_made: bool, actor: str | None) -> Op[ApiKey]:
        if not isinstance(key_id, str) or not is_key_id(key_id):
            _missing(key_id)
        tenant_id = self._visible_tenant
        op = self._store.ops.revoke_key(key_id, tenant_id=tenant_id, actor=actor)
        if not with_made:
            return then(op, lambda found: found or _missing(key_id))

        def steps() -> Steps[ApiKey]:
            revoked = (yield from op.steps()) or _missing(key_id)
            makers = {f"key:{key_id}"}
            # oldest first: a key comes after its maker
            for key in (yield from self._store.ops.keys(tenant_id=tenant_id).steps()):
                if key.created_by in makers:
                    makers.add(f"key:{key.id}")
                    if key.revoked_at is None:
                        yield from self._store.ops.revoke_key(key.id, tenant_id=tenant_id, actor=actor).steps()
            yield from self._disable_triggers(makers, actor)
            return revoked

        return Op(steps, writes=True, refusable=True, atomic=True)

    def _disable_triggers(self, makers: Collection[str], actor: str | None) -> Steps[None]:
        ops, tenant_id, after = self._store.ops, self._visible_tenant, None
        while True:
            found = yield from ops.triggers(
                tenant_id=tenant_id, type=None, name=None, events=None, limit=_TRIGGERS_AT_ONCE, after=after
            ).steps()
            for each in found:
                if each.created_by in makers and each.enabled:
                    change = TriggerChange(enabled=False)
                    yield from ops.change_trigger(each.id, change, tenant_id=tenant_id, actor=actor).steps()
            if len(found) < _TRIGGERS_AT_ONCE:
                return
            after = found[-1].id


def _missing(key_id: str) -> NoReturn:
    raise NotFound(f"there is no key {key_id} (or it is another tenant's): headway keys list")
