"""Queues: how much waits, who serves them, what comes next."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.pages.workers import slots
from headway.dashboard.pulse import charts, tenant_shares
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import COUNTED, Visit

pages = Pages()


@pages.get("/queues")
async def list_queues(visit: Visit) -> Page:
    queues = (await visit.ask("GET", "/queues", query=COUNTED)).items
    return Page("queues.html", {"queues": queues, "slots": await slots(visit), "actions": ACTIONS})


@pages.get("/queues/{name}")
async def show_queue(visit: Visit, name: str) -> Page:
    queue = await visit.ask("GET", "/queues/{name}", query=COUNTED, name=name)
    shown = await charts(visit, "hour", queue=name)
    jobs = await visit.ask("GET", "/queues/{name}/jobs", name=name, query={"cursor": visit.query.get("cursor")})
    shares = await tenant_shares(visit, name) if visit.is_superadmin and visit.tenant is None else []
    return Page("queue.html", {"queue": queue, "jobs": jobs, "charts": shown, "shares": shares, "actions": ACTIONS})
