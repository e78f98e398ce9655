"""Triggers: what makes jobs by itself, on events and at times."""

from __future__ import annotations

from headway.api.wire.problems import Refused
from headway.dashboard.action_table import ACTIONS
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/triggers")
async def list_triggers(visit: Visit) -> Page:
    kind = "event" if visit.query.get("type") == "event" else "schedule"
    query = {"trigger_type": kind, "cursor": visit.query.get("cursor")}
    triggers = await visit.ask("GET", "/jobs/triggers", query=query)
    return Page("triggers.html", {"triggers": triggers, "type": kind, "actions": ACTIONS})


@pages.get("/triggers/{id}")
async def show_trigger(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    trigger = await visit.ask("GET", "/jobs/triggers/{id}", id=id)
    fires = await visit.ask("GET", "/jobs/triggers/{id}/fires", id=id, query={"limit": 20})
    times = []
    if trigger["trigger_type"] == "schedule":
        try:
            times = (await visit.ask("GET", "/jobs/triggers/{id}/preview", id=id, query={"count": 5})).local
        except Refused:
            times = []  # it is over
    values = {
        "trigger": trigger,
        "fires": fires,
        "times": times,
        "payload": as_text(trigger["payload"]),
        "as_text": as_text,
        "actions": ACTIONS,
    }
    return Page("trigger.html", values)
