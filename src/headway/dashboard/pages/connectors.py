"""Connectors: the services that jobs call, and the endpoints that events are sent to."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit
from headway.model.connector import HTTP, WEBHOOK

pages = Pages()

TITLES = {HTTP: "HTTP", WEBHOOK: "Webhook"}
"""The kinds that Headway has, as people call them."""


@pages.get("/connectors")
async def list_connectors(visit: Visit) -> Page:
    kind = visit.query.get("kind")
    connectors = await visit.ask("GET", "/connectors", query={"kind": kind, "cursor": visit.query.get("cursor")})
    tabs = [("All", None), ("Services", HTTP), ("Webhook endpoints", WEBHOOK)]
    values = {"connectors": connectors, "kind": kind, "tabs": tabs, "titles": TITLES, "actions": ACTIONS}
    return Page("connectors.html", values)
