"""Schedules and event triggers: make one, change one, and try what it would do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from headway.dashboard.editing import Stored, change, create
from headway.dashboard.forms import (
    Field,
    FormState,
    Refusal,
    body_of_new,
    duration_text,
    edit_form,
    new_form,
    text_of,
    zone_names,
)
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.shown.schedules import schedule_words
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.secrets import REDACTED

pages = Pages()

_TABS = (("Schedule", "schedule"), ("Event trigger", "event"))
_TITLES = {"schedule": "schedule", "event": "event trigger"}
_OPTIONS_HINT = 'JSON, as an enqueue takes them: {"queue": "mail", "priority": 10}'
_TARGET = (
    Field("kind", "Kind", hint="What it enqueues. Or name a template."),
    Field(
        "template",
        "Template",
        hint="Its kind, payload and options; the payload here is laid over its own.",
        beside=True,
    ),
)
_LAST = (
    Field("options", "Options", "json", _OPTIONS_HINT, folded=True),
    Field("description", "Description", folded=True, emptied=""),
    Field("enabled", "It fires", "flag", "Otherwise it is paused.", value="true", folded=True),
)
_SCHEDULE = (
    Field("label", "Name", required=True, placeholder="Nightly report"),
    Field("cron", "Cron expression", placeholder="0 2 * * *", hint="minute hour day month weekday, or @daily"),
    Field("every", "Or every", placeholder="15m", hint="An interval instead of a cron expression.", beside=True),
    Field("tz", "Time zone", hint="An IANA name: Europe/Berlin"),
    *_TARGET,
    Field(
        "payload",
        "Payload",
        "json",
        "JSON. {{schedule.nominal_at}} is the time that it fires for.",
        value="{}",
        emptied={},
    ),
    Field(
        "overlap",
        "While its last job runs",
        "choice",
        choices=(("allow", "start another"), ("skip", "skip the time")),
        value="allow",
        folded=True,
    ),
    Field(
        "catch_up",
        "Times missed while no worker ran",
        "choice",
        choices=(("latest", "make up for the latest"), ("none", "forget them"), ("all", "make up for all")),
        value="latest",
        folded=True,
        beside=True,
    ),
    Field("jitter", "Jitter", placeholder="30s", hint="Each fire is this much late at most, at random.", folded=True),
    Field("start", "Not before", placeholder="2027-01-01T00:00Z", folded=True),
    Field("end", "Not after", placeholder="2027-12-31T00:00Z", folded=True, beside=True),
    *_LAST,
)
_EVENT = (
    Field("label", "Name", required=True, placeholder="Send the receipt"),
    Field("event", "Event", required=True, placeholder="order.paid", hint="The name that it listens to."),
    Field(
        "when", "Only if", "json", 'JSON: {"event.country": ["DE", "AT"]}. Empty: every event of this name.', emptied={}
    ),
    *_TARGET,
    Field("payload", "Payload", "json", "JSON. {{event.order.id}} is a value of the event.", value="{}", emptied={}),
    Field(
        "dedupe_window", "One job within", placeholder="5m", hint="Events with the same key make one job.", folded=True
    ),
    Field(
        "dedupe_key",
        "Key",
        placeholder="{{event.order.id}}",
        hint="Empty: the payload that it makes.",
        folded=True,
        beside=True,
    ),
    Field("signal", "Or send a signal", hint="To a machine, instead of enqueuing a job.", folded=True),
    Field("to", "To which machine", placeholder="checkout:{{event.order.id}}", folded=True, beside=True),
    *_LAST,
)


@dataclass(frozen=True)
class Preview:
    """What a trigger will do, in words and times."""

    words: str
    makes: str = ""
    wrong: str = ""
    zone: str = ""
    times: list[datetime] = field(default_factory=list)
    conditions: list[tuple[str, str]] = field(default_factory=list)
    rehearsal: Any = None
    sample: Any = None  # the event that it was tried with


@pages.get("/triggers/new")
async def new_trigger(visit: Visit) -> Page:
    visit.check("POST", "/jobs/triggers")
    type_ = _type(visit)
    fields = await _fields(visit, type_)
    start = {each.name: visit.query.get(each.name) or each.value for each in fields}
    return await _page(visit, type_, new_form(fields, start))


@pages.post("/triggers/new")
async def create_trigger(visit: Visit, given: Form) -> Page | Redirect:
    type_ = _type(visit)

    async def store(body: dict[str, Any]) -> Redirect:
        made = await visit.ask("POST", "/jobs/triggers", body={"trigger_type": type_, **body})
        return Redirect(visit.url(f"/triggers/{made['id']}"), f"{made['label']} is stored.")

    async def show(state: FormState, status: int) -> Page:
        return await _page(visit, type_, state, status=status)

    return await create(await _fields(visit, type_), given, show, store)


@pages.get("/triggers/{id}/edit")
async def edit_trigger(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    visit.check("PATCH", "/jobs/triggers/{id}")
    trigger = await visit.ask("GET", "/jobs/triggers/{id}", id=id)
    fields = await _fields(visit, trigger["trigger_type"])
    state = edit_form(fields, await _texts(visit, trigger), trigger["revision"])
    return await _page(visit, trigger["trigger_type"], state, trigger)


@pages.post("/triggers/{id}/edit")
async def change_trigger(visit: Visit, given: Form, id: str) -> Page | Redirect:  # noqa: A002
    trigger = await visit.ask("GET", "/jobs/triggers/{id}", id=id)
    type_ = trigger["trigger_type"]

    async def show(state: FormState, status: int) -> Page:
        return await _page(visit, type_, state, trigger, status=status)

    async def store(changes: dict[str, Any], revision: str) -> None:
        await visit.ask("PATCH", "/jobs/triggers/{id}", id=id, body=changes, revision=revision)

    async def read() -> Stored:
        newer = await visit.ask("GET", "/jobs/triggers/{id}", id=id)
        return await _texts(visit, newer), newer["revision"]

    return await change(await _fields(visit, type_), given, show, store, read, to=visit.url(f"/triggers/{id}"))


@pages.get("/triggers/{id}/try")
async def ask_for_sample(visit: Visit, id: str) -> Page:  # noqa: A002
    visit.check("POST", "/jobs/triggers/{id}/test")
    trigger = await visit.ask("GET", "/jobs/triggers/{id}", id=id)
    sample = "{}"
    if trigger["trigger_type"] == "event":
        last = (await visit.ask("GET", "/events", query={"name": trigger["event"], "limit": 1})).items
        sample = as_text(last[0].payload) or "{}" if last else "{}"
    return Page(
        "try_trigger.html", {"trigger": trigger, "sample": sample, "found": None, "wrong": "", "as_text": as_text}
    )


@pages.post("/triggers/{id}/try")
async def try_trigger(visit: Visit, given: Form, id: str) -> Page:  # noqa: A002
    trigger = await visit.ask("GET", "/jobs/triggers/{id}", id=id)
    sample, found, wrong = given.get("payload", ""), None, ""
    try:
        payload = Field("payload", "Sample", "json").decode(sample.strip() or "{}")
        found = await visit.ask("POST", "/jobs/triggers/{id}/test", id=id, body={"payload": payload})
    except Refusal as error:
        wrong = str(error)
    values = {"trigger": trigger, "sample": sample, "found": found, "wrong": wrong, "as_text": as_text}
    return Page("try_trigger.html", values, 422 if wrong else 200)


def _type(visit: Visit) -> str:
    return "event" if visit.query.get("type") == "event" else "schedule"


async def _fields(visit: Visit, type_: str) -> list[Field]:
    """The fields, with what may be written into them."""
    definitions = (await visit.ask("GET", "/definitions", query={"limit": 200})).items
    templates = (await visit.ask("GET", "/templates", query={"limit": 200})).items
    known = {
        "kind": tuple(each["key"] for each in definitions if each["is_active"]),
        "template": tuple(each.name for each in templates),
        "tz": zone_names(),
    }
    if type_ == "event":
        return [replace(each, suggestions=known.get(each.name, ())) for each in _EVENT]
    # the zone of a schedule that names none
    zone = (await visit.ask("POST", "/jobs/triggers/preview", body={"every": "1d", "count": 1})).tz
    fields = [replace(each, suggestions=known.get(each.name, ())) for each in _SCHEDULE]
    return [replace(each, value=zone, placeholder=zone) if each.name == "tz" else each for each in fields]


async def _texts(visit: Visit, trigger: Mapping[str, Any]) -> dict[str, str]:
    """A stored trigger as the form shows it."""
    template = trigger["template_id"]
    shown = {name: text_of(trigger[name]) for name in ("label", "cron", "tz", "kind", "event", "signal", "description")}
    shown |= {
        name: text_of(trigger[name]) for name in ("overlap", "catch_up", "dedupe_key", "options", "enabled", "when")
    }
    shown |= {
        "every": duration_text(trigger["every_ms"]),
        "jitter": duration_text(trigger["jitter_ms"]),
        "dedupe_window": duration_text(trigger["dedupe_window_ms"]),
        "template": (await visit.ask("GET", "/templates/{id}", id=template)).name if template else "",
        "to": trigger["signal_to"] or "",
        "payload": text_of(trigger["payload"]) or "{}",
    }
    for name, stored in (("start", "start_at"), ("end", "end_at")):
        shown[name] = "" if trigger[stored] is None else trigger[stored].isoformat().replace("+00:00", "Z")
    return shown


async def _page(
    visit: Visit, type_: str, state: FormState, trigger: Mapping[str, Any] | None = None, *, status: int = 200
) -> Page:
    texts = {each.field.name: each.value for each in state.fields}
    show = _schedule_preview if type_ == "schedule" else _event_preview
    preview = await show(visit, texts)
    noun = _TITLES[type_]
    values = {
        "title": f"New {noun}" if trigger is None else f"Edit {trigger['label']}",
        "lead": ""
        if trigger is None or trigger["origin"] == "stored"
        else "The code declares it: only pausing it is kept.",
        "crumb": "Triggers",
        "back": visit.url("/triggers", type="event" if type_ == "event" else None)
        if trigger is None
        else visit.url(f"/triggers/{trigger['id']}"),
        "tabs": [(name, visit.url("/triggers/new", type=each), each == type_) for name, each in _TABS]
        if trigger is None
        else [],
        "state": state,
        "conflict": status == 412,
        "refused": "It was not stored",
        "submit": "Create" if trigger is None else "Save",
        "more": "When it is late, limits and options" if type_ == "schedule" else "Repeats, signals and options",
        "preview_of": f"preview_{type_}.html",
        "preview": preview,
        "as_text": as_text,
    }
    return Page("form.html", values, status)


async def _schedule_preview(visit: Visit, texts: Mapping[str, str]) -> Preview:
    when = {name: texts[name] for name in ("cron", "every") if texts[name]}
    zone = {"tz": texts["tz"]} if texts["tz"] else {}
    if not when:
        return Preview("When is it due?", _makes(texts))
    try:
        found = await visit.ask("POST", "/jobs/triggers/preview", body={**when, **zone, "count": 5})
    except Refusal as error:
        return Preview("This is no schedule yet", _makes(texts), str(error))
    words = (
        schedule_words({"every_ms": None, "cron": texts["cron"], "tz": found.tz})
        if texts["cron"]
        else f"every {texts['every']}"
    )
    return Preview(words[0].upper() + words[1:], _makes(texts), zone=found.tz, times=found.local)


async def _event_preview(visit: Visit, texts: Mapping[str, str]) -> Preview:
    """What it waits for, and what it would do with the last event of that name."""
    if not texts["event"]:
        return Preview("Which event?", "Name one, to see here what this trigger would do with the last of that name.")
    words = f"When {texts['event']} comes"
    try:
        when = json.loads(texts["when"] or "{}")
    except ValueError as error:
        return Preview(words, _makes(texts), f"“Only if” is not JSON: {error}")
    conditions = [
        (path, " or ".join(map(json.dumps, value)) if isinstance(value, list) else json.dumps(value))
        for path, value in (when.items() if isinstance(when, dict) else ())
    ]
    shown = Preview(words, _makes(texts), conditions=conditions)
    if not (texts["kind"] or texts["template"] or texts["signal"]) or REDACTED in texts["payload"] + texts["options"]:
        return shown
    last = (await visit.ask("GET", "/events", query={"name": texts["event"], "limit": 1})).items
    if not last:
        return shown
    try:
        body = body_of_new(_EVENT, Form(texts)) | {"label": texts["label"] or "unsaved", "sample": last[0].payload}
        found = await visit.ask("POST", "/jobs/triggers/test", body=body)
    except Refusal as error:
        return replace(shown, wrong=str(error))
    return replace(shown, rehearsal=found, sample=last[0])


def _makes(texts: Mapping[str, str]) -> str:
    if texts.get("signal"):
        return f"It sends signal {texts['signal']} to {texts.get('to') or '…'}."
    if texts["kind"]:
        return f"It enqueues {texts['kind']}."
    return f"It enqueues a job of template {texts['template']}." if texts["template"] else ""
