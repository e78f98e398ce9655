"""Events: what came, what it made, what failed."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/events")
async def list_events(visit: Visit) -> Page:
    asked = {name: visit.query.get(name) or None for name in ("name", "status", "cursor")}
    events = await visit.ask("GET", "/events", query=asked)
    return Page("events.html", {"events": events, "chosen": asked, "actions": ACTIONS, "as_text": as_text})
