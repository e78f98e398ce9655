"""The overview: what needs a person, then the pulse, then the queues."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/")
async def overview(visit: Visit) -> Page:
    summary = await visit.ask("GET", "/jobs/summary")
    queues = (await visit.ask("GET", "/queues")).items
    problems: list[object] = []
    return Page("overview.html", {"summary": summary, "queues": queues, "problems": problems, "actions": ACTIONS})
