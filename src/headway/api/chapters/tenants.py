"""Tenants: list, create, rename, suspend, resume, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec

from headway.api.call import Answer, Call
from headway.api.routes import SUPERADMINS, Routes
from headway.api.wire.pages import PageQuery, etag, given, page
from headway.api.wire.problems import Refused
from headway.api.wire.views import Listed
from headway.model import refusals
from headway.model.fleet import Tenant
from headway.model.ids import is_id

routes = Routes("tenants")


class TenantIn(msgspec.Struct, forbid_unknown_fields=True):
    slug: str
    tz: str | None = None


class TenantChange(msgspec.Struct, forbid_unknown_fields=True):
    slug: str | msgspec.UnsetType = msgspec.UNSET
    tz: str | msgspec.UnsetType | None = msgspec.UNSET


class TenantList(msgspec.Struct):
    items: list[Tenant]
    next_cursor: str | None


class TenantDeleted(msgspec.Struct):
    """What was deleted with a tenant, or would be: how many rows of each table."""

    tenant: Tenant
    rows: Mapping[str, int]
    dry_run: bool


@routes.get("/admin/tenants", roles=SUPERADMINS, query=PageQuery, answers={200: TenantList}, problems=(422,))
async def list_tenants(call: Call[None, PageQuery]) -> Listed:
    """List tenants by name."""

    async def fetch(count: int, after: str | None) -> list[Tenant]:
        return await call.app.atenants(limit=count, after=after)

    return await page("tenants", call.query, fetch, key=lambda each: each.slug or each.id)


@routes.post(
    "/admin/tenants", roles=SUPERADMINS, body=TenantIn, answers={201: Tenant}, problems=(409, 422), tagged=True
)
async def create_tenant(call: Call[TenantIn, None]) -> Answer:
    """Create a tenant. A name that a tenant has or had is refused."""
    return _tagged(await call.app.acreate_tenant(call.body.slug, tz=call.body.tz, actor=call.actor), 201)


@routes.get("/admin/tenants/{id}", roles=SUPERADMINS, answers={200: Tenant}, problems=(404,), tagged=True)
async def get_tenant(call: Call[None, None]) -> Answer:
    """Show a tenant, by its slug or id."""
    return _tagged(await _named(call))


@routes.patch(
    "/admin/tenants/{id}",
    roles=SUPERADMINS,
    body=TenantChange,
    answers={200: Tenant},
    problems=(404, 409, 412, 422),
    tagged=True,
)
async def change_tenant(call: Call[TenantChange, None]) -> Answer:
    """Give a tenant another name, which nobody else can ever have, or the zone that its new schedules start with."""
    tenant = await _named(call)
    changes = given(call.body, {"slug": "new_name"})
    if not changes:
        raise Refused(422, "what to change? Give slug, tz or both")
    return _tagged(await call.app.achange_tenant(UUID(tenant.id), if_match=call.if_match, actor=call.actor, **changes))


@routes.post("/admin/tenants/{id}/suspend", roles=SUPERADMINS, answers={200: Tenant}, problems=(404, 412), tagged=True)
async def suspend_tenant(call: Call[None, None]) -> Answer:
    """Stop a tenant: none of its jobs start, and its writes are 403. Running jobs go on, and reads work."""
    tenant = await _named(call)
    return _tagged(await call.app.asuspend_tenant(UUID(tenant.id), if_match=call.if_match, actor=call.actor))


@routes.post("/admin/tenants/{id}/resume", roles=SUPERADMINS, answers={200: Tenant}, problems=(404, 412), tagged=True)
async def resume_tenant(call: Call[None, None]) -> Answer:
    """Let a suspended tenant work again."""
    tenant = await _named(call)
    return _tagged(await call.app.aresume_tenant(UUID(tenant.id), if_match=call.if_match, actor=call.actor))


class DeletionQuery(msgspec.Struct, forbid_unknown_fields=True):
    dry_run: bool = False


@routes.delete(
    "/admin/tenants/{id}",
    roles=SUPERADMINS,
    query=DeletionQuery,
    answers={200: TenantDeleted},
    problems=(404, 409, 412),
)
async def delete_tenant(call: Call[None, DeletionQuery]) -> Any:
    """Delete a tenant with everything that it owns; `dry_run=true` only counts. Not while its jobs run."""
    tenant = await _named(call)
    return await call.app.adelete_tenant(
        UUID(tenant.id), dry_run=call.query.dry_run, if_match=call.if_match, actor=call.actor
    )


def _tagged(tenant: Tenant, status: int = 200) -> Answer:
    return Answer(status, tenant, etag(tenant))


async def _named(call: Call[Any, Any]) -> Tenant:
    """The tenant of the path, unless the request's header names another one."""
    ref = call.params["id"]
    tenant = await call.app.aget_tenant(UUID(ref) if is_id(ref) else ref)
    seen = call.verbs._visible_tenant
    if seen not in (None, tenant.id):
        raise refusals.no_such_tenant(ref)
    return tenant
