"""What a caller may do, and in which tenant."""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

from headway.api.wire.problems import Refused
from headway.app import Headway
from headway.app.verbs import Verbs
from headway.errors import InvalidJob
from headway.model.access import ApiKey, Role
from headway.model.ids import is_id

_MOST = 10_000


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
        self._walled: OrderedDict[tuple[str, bool], Verbs] = OrderedDict()

    async def verbs(self, key: ApiKey, named: str | None) -> Verbs:
        """`named` is the tenant of the request's header. Raises `Refused` with 404 for any but the key's own."""
        if key.tenant_id is not None:
            if named is not None and named != key.tenant_id and await tenant_id_of(self._app, named) != key.tenant_id:
                raise _no_tenant(named)
            # workers claim and settle, which an application's role may not
            return self._app.tenant(UUID(key.tenant_id)) if key.role == "worker" else self._of(key)
        if named is None:
            return self._app
        tenant_id = await tenant_id_of(self._app, named)
        if tenant_id is None:
            raise _no_tenant(named)
        return self._app.tenant(UUID(tenant_id))

    def _of(self, key: ApiKey) -> Verbs:
        tenant_id, looks = str(key.tenant_id), key.role == "viewer"
        found = self._walled.get((tenant_id, looks))
        if found is None:
            found = self._walled[tenant_id, looks] = self._app._walled_tenant(tenant_id, for_viewers=looks)
            if len(self._walled) > _MOST:
                self._walled.popitem(last=False)
        return found


async def tenant_id_of(app: Headway, named: str) -> str | None:
    """The id of an existing tenant, by name or id: over HTTP, naming a tenant does not create it."""
    if not named.isprintable():
        return None  # no name is like this, and not every store can be asked for it
    ref = str(UUID(named)) if is_id(named) else named
    try:
        found = await app.store.arun(app.store.ops.tenants_named([ref], create=False))
    except InvalidJob:
        return None
    return found.get(ref)


def _no_tenant(named: str) -> Refused:
    return Refused(404, f"there is no tenant {named!r}")
