"""Templates: jobs prepared in advance, with a payload that is completed later."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/templates")
async def list_templates(visit: Visit) -> Page:
    templates = await visit.ask("GET", "/templates", query={"cursor": visit.query.get("cursor")})
    return Page("templates.html", {"templates": templates, "as_text": as_text, "actions": ACTIONS})
