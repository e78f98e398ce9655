"""Administration: tenants, definitions, keys, limits, the audit, the doctor."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.table import Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.model.limit import QUOTAS

pages = Pages()


@pages.get("/tenants")
async def list_tenants(visit: Visit) -> Page:
    tenants = await visit.ask("GET", "/admin/tenants", query={"cursor": visit.query.get("cursor")})
    return Page("tenants.html", {"tenants": tenants, "actions": ACTIONS})


@pages.get("/tenant")
async def choose_tenant(visit: Visit) -> Redirect:
    """The field in the sidebar: a super admin names the tenant to look at."""
    chosen = visit.query.get("tenant", "").strip()
    if not chosen:
        return Redirect(f"{visit.root}/")
    return Redirect(visit.of_tenant(chosen))


@pages.get("/definitions")
async def list_definitions(visit: Visit) -> Page:
    definitions = await visit.ask("GET", "/definitions", query={"cursor": visit.query.get("cursor"), "limit": 200})
    return Page("definitions.html", {"definitions": definitions})


@pages.get("/keys")
async def list_keys(visit: Visit) -> Page:
    keys = await visit.ask("GET", "/keys", query={"cursor": visit.query.get("cursor")})
    tenants = await visit.tenant_names(each.tenant_id for each in keys.items)
    return Page("keys.html", {"keys": keys, "tenants": tenants, "actions": ACTIONS})


@pages.get("/limits")
async def list_limits(visit: Visit) -> Page:
    limits = await visit.ask("GET", "/limits", query={"cursor": visit.query.get("cursor")})
    reservations = (await visit.ask("GET", "/reservations")).items
    return Page("limits.html", {"limits": limits, "reservations": reservations, "quotas": QUOTAS, "actions": ACTIONS})


@pages.get("/audit")
async def list_audit(visit: Visit) -> Page:
    asked = {name: visit.query.get(name) or None for name in ("actor", "action", "cursor")}
    audit = await visit.ask("GET", "/audit", query=asked)
    tenants = await visit.tenant_names(each.tenant_id for each in audit.items)
    return Page("audit.html", {"audit": audit, "tenants": tenants, "chosen": asked})


@pages.get("/doctor")
async def examine(visit: Visit) -> Page:
    examined = await visit.ask("GET", "/doctor")
    urgent_first = sorted(examined.checks, key=lambda each: ("problem", "note", "ok").index(each.status))
    return Page("doctor.html", {"examined": examined, "checks": urgent_first})
