"""Artifacts: the files that jobs stored, to find and to download."""

from __future__ import annotations

from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/artifacts")
async def list_artifacts(visit: Visit) -> Page:
    job = visit.query.get("job", "").strip()
    artifacts = await visit.ask("GET", "/artifacts", query={"job": job, "cursor": visit.query.get("cursor")})
    tenants = await visit.tenant_names(each["tenant_id"] for each in artifacts.items)
    return Page("artifacts.html", {"artifacts": artifacts, "job": job, "tenants": tenants})
