"""Generated from app/tenant_care.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any
from uuid import UUID

import msgspec

from headway.app.aio.base import AsyncVerbBase
from headway.app.base import page_size
from headway.app.tenant_care import _AT_ONCE, TenantCareVerbs, TenantDeletion, U, _checked_zone, _missing, _new_name
from headway.model.fleet import Tenant
from headway.model.ids import tenant_ref


class AsyncTenantCareVerbs(TenantCareVerbs, AsyncVerbBase):
    """The async twins of the verbs of `TenantCareVerbs`."""

    async def atenants(self, *, limit: int = 100, after: str | None = None) -> list[Tenant]:
        """The tenants in order of their names; `after` is the last name (or id) of the page before."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.list_tenants(limit=page_size(limit), after=after))

    async def aget_tenant(self, tenant: str | UUID, *, conn: Any = None) -> Tenant:
        """One tenant. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        tenant_id = await self._aexisting(tenant, conn)
        found = await self._arun(self._store.ops.list_tenants(limit=1, only=tenant_id), conn)
        return found[0] if found else _missing(tenant)

    async def acreate_tenant(
        self, name: str, *, tz: str | None = None, actor: str | None = None, conn: Any = None
    ) -> Tenant:
        """Make a tenant, with a random id; `tz` is the zone of its schedules that name none. Raises `Duplicate` where
        a tenant has or had the name."""
        await self._aensure_known(self._own_tenant)
        tenant_id = str(uuid.uuid4())
        await self._arun(self._create_tenant(tenant_id, _new_name(name), _checked_zone(tz), actor), conn)
        return await self.aget_tenant(UUID(tenant_id), conn=conn)

    async def achange_tenant(
        self,
        tenant: str | UUID,
        *,
        new_name: str | U = msgspec.UNSET,
        tz: str | U | None = msgspec.UNSET,
        if_match: Collection[str] | None = None,
        actor: str | None = None,
        conn: Any = None,
    ) -> Tenant:
        """Give a tenant another name (`new_name=`), which nobody else can ever have, or the zone that its new schedules
        start with (`tz=`; None: the app's). Schedules that exist keep theirs.

        With `if_match`, here and in the verbs below, only if its `etag` is one of these; raises `ChangedMeanwhile`.
        Raises `NotFound`, `Duplicate` where a tenant has or had the name, `InvalidJob` for an unknown zone,
        `NotAllowed` for the name of the default tenant.
        """
        await self._aensure_known(self._own_tenant)
        tenant_id = await self._aexisting(tenant, conn)
        change = self._change_tenant(tenant_id, new_name, tz, actor)
        await self._arun(self._if_tenant_matches(tenant_id, if_match, change), conn)
        self._tenants.forget()
        return await self.aget_tenant(UUID(tenant_id), conn=conn)

    async def arename_tenant(
        self, tenant: str | UUID, name: str, *, actor: str | None = None, conn: Any = None
    ) -> Tenant:
        """Give a tenant another name; nobody can ever have the old one. Raises as `change_tenant` does."""
        await self._aensure_known(self._own_tenant)
        return await self.achange_tenant(tenant, new_name=name, actor=actor, conn=conn)

    async def asuspend_tenant(
        self, tenant: str | UUID, *, if_match: Collection[str] | None = None, actor: str | None = None, conn: Any = None
    ) -> Tenant:
        """Stop a tenant: none of its jobs start, its schedules and events wait, and what is written for it raises
        `TenantSuspended`. Jobs that run go on, and reads work. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        tenant_id = await self._aexisting(tenant, conn)
        suspend = self._store.ops.suspend_tenant(tenant_id, actor=actor)
        await self._arun(self._if_tenant_matches(tenant_id, if_match, suspend), conn)
        return await self.aget_tenant(UUID(tenant_id), conn=conn)

    async def aresume_tenant(
        self, tenant: str | UUID, *, if_match: Collection[str] | None = None, actor: str | None = None, conn: Any = None
    ) -> Tenant:
        """Let a suspended tenant work again, under the limits that it had. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        tenant_id = await self._aexisting(tenant, conn)
        resume = self._store.ops.resume_tenant(tenant_id, actor=actor)
        await self._arun(self._if_tenant_matches(tenant_id, if_match, resume), conn)
        self._wake_up(None, conn)
        return await self.aget_tenant(UUID(tenant_id), conn=conn)

    async def adelete_tenant(
        self,
        tenant: str | UUID,
        *,
        dry_run: bool = False,
        if_match: Collection[str] | None = None,
        actor: str | None = None,
    ) -> TenantDeletion:
        """Delete a tenant with everything that it owns, in many short transactions; `dry_run` only counts.

        Suspends it first. If it is interrupted, call it again. Neither its name nor its id is ever used again. Raises
        `NotFound`, and `NotAllowed` for the default tenant and while jobs of it run.
        """
        await self._aensure_known(self._own_tenant)
        tenant_id = await self._aexisting(tenant)
        found = await self.aget_tenant(UUID(tenant_id))
        rows = await self._arun(self._store.ops.tenant_rows(tenant_id))
        delete = self._store.ops.delete_tenant(tenant_id, limit=_AT_ONCE, actor=actor)
        if not dry_run:
            over = await self._arun(self._if_tenant_matches(tenant_id, if_match, delete))
            while not over:
                over = await self._arun(delete)
            self._tenants.forget()
        return TenantDeletion(found, rows, dry_run)

    async def _aexisting(self, tenant: str | UUID, conn: Any = None) -> str:
        """The id of a tenant that exists, as far as can be seen; raises `NotFound`."""
        ref = tenant_ref(tenant)
        found = await self._arun(self._store.ops.tenants_named([ref], create=False), conn)
        return found[ref] if ref in found else _missing(tenant)
