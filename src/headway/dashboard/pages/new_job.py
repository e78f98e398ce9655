"""A new job: a form made of the definition's JSON Schema, with the API's own errors."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from headway.api.wire.problems import Refused
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.shown.schema_form import Input, inputs_of, payload_of
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.errors import HeadwayError

pages = Pages()

_OPTIONS = ("queue", "priority", "delay", "unique_key", "idempotency_key", "train")


@pages.get("/jobs/new")
async def form(visit: Visit) -> Page:
    return await _form(visit, given=Form(), wrong=None)


@pages.post("/jobs/new")
async def create(visit: Visit, given: Form) -> Page | Redirect:
    kind = given.get("kind", "")
    try:
        definition = await visit.ask("GET", "/definitions/{id}", id=kind)
        body: dict[str, Any] = {"kind": kind, "payload": _payload(definition, given)}
        body |= {name: given[name].strip() for name in _OPTIONS if given.get(name, "").strip()}
        if "priority" in body:
            body["priority"] = int(body["priority"]) if body["priority"].lstrip("-").isdigit() else body["priority"]
        made = await visit.ask("POST", "/jobs", body=body)
    except (HeadwayError, Refused) as error:
        return await _form(visit, given=given, wrong=str(error))
    said = "The job is enqueued." if made.created else "There was such a job already: this is it."
    return Redirect(visit.url(f"/jobs/{made.id}"), said)


async def _form(visit: Visit, *, given: Form, wrong: str | None) -> Page:
    like, template = visit.query.get("like"), visit.query.get("template")
    kind, payload = given.get("kind") or visit.query.get("kind") or "", None
    if like:
        job = await visit.ask("GET", "/jobs/{id}", id=like)
        kind, payload = job["kind"], as_text(job["payload"])
    elif template:
        found = await visit.ask("GET", "/templates/{id}", id=template)
        kind, payload = found.kind, as_text(found.payload)
    definitions = (await visit.ask("GET", "/definitions", query={"limit": 200})).items
    definition = next((each for each in definitions if each["key"] == kind), None)
    inputs: list[Input] | None = None
    if definition is not None:
        inputs = inputs_of(definition["arg_schema"], payload, given)
    values = {
        "kind": kind,
        "kinds": [each["key"] for each in definitions],
        "definition": definition,
        "inputs": inputs,
        "payload": given.get("payload") or payload or "{}",
        "given": given,
        "wrong": wrong,
        "options": _OPTIONS,
    }
    return Page("new_job.html", values, 200 if wrong is None else 422)


def _payload(definition: Any, given: Form) -> msgspec.Raw:
    """The payload as JSON text: numbers that a person typed are stored as they were typed."""
    if "payload" in given:
        text = given["payload"].strip() or "{}"
        try:
            json.loads(text)
        except ValueError as error:
            raise Refused(422, f"the payload is not JSON: {error}") from None
        return msgspec.Raw(text.encode())
    return msgspec.Raw(payload_of(definition["arg_schema"], given).encode())
