"""Events: what came, what it made, what failed; and what an event would start."""

from __future__ import annotations

from typing import Any

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.forms import Field, Refusal
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.errors import HeadwayError

pages = Pages()

_MOST_TRIGGERS = 50  # that one event is tried on


@pages.get("/events")
async def list_events(visit: Visit) -> Page:
    asked = {name: visit.query.get(name) or None for name in ("name", "status", "cursor")}
    events = await visit.ask("GET", "/events", query=asked)
    return Page("events.html", {"events": events, "chosen": asked, "actions": ACTIONS, "as_text": as_text})


@pages.get("/events/try")
async def ask_for_event(visit: Visit) -> Page:
    visit.check("POST", "/jobs/triggers/{id}/test")
    name, payload = visit.query.get("name", ""), "{}"
    if visit.query.get("like"):
        event = await visit.ask("GET", "/events/{id}", id=visit.query["like"])
        name, payload = event.name, as_text(event.payload) or "null"
    return _try_page(name, payload)


@pages.post("/events/try")
async def try_event(visit: Visit, given: Form) -> Page | Redirect:
    """What the event would start; or, on the person's word, emit it."""
    name, payload = given.get("name", "").strip(), given.get("payload", "").strip() or "null"
    try:
        sample = Field("payload", "Payload", "json").decode(payload)
        if given.get("do") == "emit":
            made = await visit.ask("POST", "/events", body={"name": name, "payload": sample})
            return Redirect(visit.url(f"/events/{made.id}"), "The event is emitted.")
        query = {"trigger_type": "event", "event_name": name, "limit": _MOST_TRIGGERS}
        triggers = (await visit.ask("GET", "/jobs/triggers", query=query)).items
        body = {"payload": sample, "event_name": name}
        found = [
            (each, await visit.ask("POST", "/jobs/triggers/{id}/test", id=each["id"], body=body)) for each in triggers
        ]
    except Refusal as error:
        return _try_page(name, payload, wrong=str(error))
    return _try_page(name, payload, found=found)


@pages.get("/events/{id}")
async def show_event(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    event = await visit.ask("GET", "/events/{id}", id=id)
    fires = await visit.ask("GET", "/events/{id}/fires", id=id, query={"cursor": visit.query.get("cursor")})
    values = {
        "event": event,
        "payload": as_text(event.payload),
        "fires": fires,
        "triggers": {each.trigger_id: await _label(visit, each.trigger_id) for each in fires.items},
        "jobs": {each.job_id: await _job(visit, each.job_id) for each in fires.items if each.job_id},
        "actions": ACTIONS,
    }
    return Page("event.html", values)


def _try_page(name: str, payload: str, *, found: list[Any] | None = None, wrong: str = "") -> Page:
    values = {"name": name, "payload": payload, "tried": found, "wrong": wrong, "as_text": as_text}
    return Page("try_event.html", values, 422 if wrong else 200)


async def _label(visit: Visit, trigger_id: str) -> str | None:
    """What a trigger is called, if it is there still."""
    try:
        return str((await visit.ask("GET", "/jobs/triggers/{id}", id=trigger_id))["label"])
    except HeadwayError:
        return None


async def _job(visit: Visit, job_id: str) -> Any:
    """A job, if it is there still."""
    try:
        return await visit.ask("GET", "/jobs/{id}", id=job_id)
    except HeadwayError:
        return None
