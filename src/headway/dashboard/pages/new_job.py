"""A new job: a form made from the definition's JSON Schema, with the API's own errors."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from headway.api.wire.problems import Refused
from headway.dashboard.forms import Refusal
from headway.dashboard.shown.json_text import as_text, kept_secrets, masked_json, without_redacted
from headway.dashboard.shown.schema_form import Input, inputs_of, payload_of
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.secrets import REDACTED

pages = Pages()

_OPTIONS = (
    ("queue", "Queue", ""),
    ("priority", "Priority", "lower runs first; 100"),
    ("delay", "Delay", "10m"),
    ("scheduled_for", "Not before", "2027-01-01T08:00Z"),
    ("unique_key", "Unique key", ""),
    ("idempotency_key", "Idempotency key", ""),
    ("train", "Train", ""),
    ("max_attempts", "Attempts", ""),
)
_NUMBERS = ("priority", "max_attempts")
_AT = re.compile(r" at \$\.([^\s:.\[]+)")


@pages.get("/jobs/new")
async def form(visit: Visit) -> Page:
    return await _form(visit, given=Form(), wrong=None)


@pages.post("/jobs/new")
async def create(visit: Visit, given: Form) -> Page | Redirect:
    try:
        kind, stored = await _start(visit, given)
        definition = await visit.ask("GET", "/definitions/{id}", id=kind)
        text = kept_secrets(_payload(definition, given), stored)
        if visit.query.get("template"):
            text = without_redacted(text)  # the template has them
        elif REDACTED in text:
            raise Refused(422, f"{REDACTED} stands for a secret that is not shown: write its value")
        body: dict[str, Any] = {"kind": kind, "payload": msgspec.Raw(text.encode())}
        if visit.query.get("template"):
            body["template"] = (await visit.ask("GET", "/templates/{id}", id=visit.query["template"])).name
        body |= {name: given[name].strip() for name, _, _ in _OPTIONS if given.get(name, "").strip()}
        for name in _NUMBERS:
            if name in body:
                body[name] = int(body[name]) if re.fullmatch(r"-?\d+", body[name]) else body[name]
        made = await visit.ask("POST", "/jobs", body=body)
    except Refusal as error:
        return await _form(visit, given=given, wrong=str(error))
    said = "The job is enqueued." if made.created else "There was such a job already: this is it."
    return Redirect(visit.url(f"/jobs/{made.id}"), said)


async def _start(visit: Visit, given: Form) -> tuple[str, str | None]:
    """The kind, and the payload of the job or template that the form starts with."""
    like, template = visit.query.get("like"), visit.query.get("template")
    if like:
        job = await visit.ask("GET", "/jobs/{id}", id=like)
        return job["kind"], as_text(job["payload"])
    if template:
        found = await visit.ask("GET", "/templates/{id}", id=template)
        return found.kind, as_text(found.payload)
    return given.get("kind") or visit.query.get("kind") or "", None


async def _form(visit: Visit, *, given: Form, wrong: str | None) -> Page:
    kind, stored = await _start(visit, given)
    payload = None if stored is None else masked_json(stored)
    definitions = (await visit.ask("GET", "/definitions", query={"limit": 200})).items
    definition = next((each for each in definitions if each["key"] == kind), None)
    inputs: list[Input] | None = None
    if definition is not None:
        inputs = inputs_of(definition["arg_schema"], payload, given)
    values = {
        "kind": kind,
        "kinds": [each["key"] for each in definitions if each["is_active"]],
        "definition": definition,
        "inputs": inputs,
        "payload": given.get("payload") or payload or "{}",
        "given": given,
        "wrong": wrong,
        "wrong_at": _wrong_at(wrong or "", inputs),
        "options": _OPTIONS,
        "has_options": any(given.get(name) for name, _, _ in _OPTIONS),
    }
    return Page("new_job.html", values, 200 if wrong is None else 422)


def _wrong_at(wrong: str, inputs: list[Input] | None) -> str:
    """The field that a refusal is about: "… at $.to: …", "number is not a number", "delay='x' is not a duration"."""
    at = _AT.search(wrong)
    names = [each.name for each in inputs or ()]
    if at and at[1] in names:
        return at[1]
    missing = re.search(r'"?(\w+)"? is (?:a required property|missing)', wrong)
    if missing and missing[1] in names:
        return missing[1]
    first = re.match(r"\w+", wrong)
    known = [*names, *(name for name, _, _ in _OPTIONS), "payload"]
    if first and first[0] in known:
        return first[0]
    return "payload" if not inputs and "payload" in wrong else ""


def _payload(definition: Any, given: Form) -> str:
    """The payload as JSON text: numbers that a person typed are stored as they were typed."""
    if "payload" in given:
        text = given["payload"].strip() or "{}"
        try:
            json.loads(text)
        except ValueError as error:
            raise Refused(422, f"payload is not JSON: {error}") from None
        return text
    return payload_of(definition["arg_schema"], given)
