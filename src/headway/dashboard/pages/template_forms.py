"""Templates: make one, change one, with the form that it leads to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headway.dashboard.editing import Stored, change, create
from headway.dashboard.forms import Field, FormState, edit_form, new_form, text_of
from headway.dashboard.shown.json_text import as_text
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit

pages = Pages()

_FIELDS = (
    Field("name", "Name", required=True, placeholder="monthly-report"),
    Field("kind", "Kind", required=True),
    Field("description", "Description", emptied=""),
    Field(
        "payload",
        "Payload",
        "json",
        "JSON. It may be incomplete: the rest is filled in when it is run.",
        value="{}",
        emptied={},
    ),
    Field(
        "options", "Options", "json", 'JSON, as an enqueue takes them: {"queue": "mail", "priority": 10}', emptied={}
    ),
)


@pages.get("/templates/new")
async def new_template(visit: Visit) -> Page:
    visit.check("POST", "/templates")
    fields = await _fields(visit)
    start = {each.name: visit.query.get(each.name) or each.value for each in fields}
    return await _page(visit, new_form(fields, start), 200)


@pages.post("/templates/new")
async def create_template(visit: Visit, given: Form) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return await _page(visit, state, status)

    async def store(body: dict[str, Any]) -> Redirect:
        made = await visit.ask("POST", "/templates", body=body)
        return Redirect(visit.url("/templates"), f"Template {made.name} is stored.")

    return await create(await _fields(visit), given, show, store)


@pages.get("/templates/{id}/edit")
async def edit_template(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    visit.check("PATCH", "/templates/{id}")
    template = await visit.ask("GET", "/templates/{id}", id=id)
    return await _page(visit, edit_form(await _fields(visit), _texts(template), template.revision), 200, template)


@pages.post("/templates/{id}/edit")
async def change_template(visit: Visit, given: Form, id: str) -> Page | Redirect:  # noqa: A002
    template = await visit.ask("GET", "/templates/{id}", id=id)

    async def show(state: FormState, status: int) -> Page:
        return await _page(visit, state, status, template)

    async def store(changes: dict[str, Any], revision: str) -> None:
        await visit.ask("PATCH", "/templates/{id}", id=id, body=changes, revision=revision)

    async def read() -> Stored:
        newer = await visit.ask("GET", "/templates/{id}", id=id)
        return _texts(newer), newer.revision

    return await change(await _fields(visit), given, show, store, read, to=visit.url("/templates"))


async def _fields(visit: Visit) -> list[Field]:
    definitions = (await visit.ask("GET", "/definitions", query={"limit": 200})).items
    kinds = tuple(each["key"] for each in definitions if each["is_active"])
    return [replace(each, suggestions=kinds if each.name == "kind" else ()) for each in _FIELDS]


def _texts(template: Any) -> dict[str, str]:
    texts = {each.name: text_of(getattr(template, each.name)) for each in _FIELDS}
    return texts | {"payload": texts["payload"] or "{}"}


async def _page(visit: Visit, state: FormState, status: int, template: Any = None) -> Page:
    values = {
        "title": "New template" if template is None else f"Edit {template.name}",
        "lead": "A kind with part of its payload and options, to run by hand or from a trigger.",
        "crumb": "Templates",
        "back": visit.url("/templates"),
        "tabs": [],
        "state": state,
        "conflict": status == 412,
        "refused": "It was not stored",
        "submit": "Create" if template is None else "Save",
        "more": "",
        "preview_of": "preview_template.html",
        "preview": await _preview(visit, {each.field.name: each.value for each in state.fields}),
        "as_text": as_text,
    }
    return Page("form.html", values, status)


async def _preview(visit: Visit, texts: dict[str, str]) -> dict[str, Any]:
    """The job that a run of it makes, and what its kind wants beside."""
    definitions = (await visit.ask("GET", "/definitions", query={"limit": 200})).items
    definition = next((each for each in definitions if each["key"] == texts["kind"]), None)
    schema = definition["arg_schema"] if definition is not None else None
    required = schema.get("required", []) if isinstance(schema, dict) else []
    return {
        "kind": texts["kind"],
        "definition": definition,
        "payload": texts["payload"] or "{}",
        "open": [each for each in required if f'"{each}"' not in texts["payload"]],
    }
