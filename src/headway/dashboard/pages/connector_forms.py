"""Connectors: make one, change one; a webhook endpoint says which events it gets."""

from __future__ import annotations

from typing import Any

from headway.dashboard.editing import Stored, change, create
from headway.dashboard.forms import Field, FormState, edit_form, new_form, text_of
from headway.dashboard.pages.connectors import TITLES
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import Visit
from headway.model.connector import HTTP, WEBHOOK
from headway.shell import command

pages = Pages()

_KIND = Field(
    "kind",
    "For",
    "choice",
    choices=((HTTP, "a service that jobs call"), (WEBHOOK, "a webhook endpoint that events are sent to")),
    value=HTTP,
)
_FIELDS = (
    Field("name", "Name", required=True, placeholder="shop"),
    Field("url", "URL", required=True, placeholder="https://api.shop.example/v1"),
    Field(
        "events",
        "Events",
        "words",
        "Of a webhook endpoint: names and patterns, such as order.* headway.job.dead",
        emptied=[],
    ),
    Field("description", "Description", emptied=""),
    Field(
        "headers",
        "Headers",
        "json",
        "JSON. A secret is the name of a variable of the worker's environment: "
        '{"Authorization": ["Bearer ", {"$secret": "SHOP_TOKEN"}]}',
        emptied={},
    ),
    Field(
        "options",
        "Options",
        "json",
        'JSON: {"timeout": "10s"}. A service has max_response, redirects, expect; an endpoint ordered, signatures.',
        emptied={},
    ),
    Field("enabled", "Enabled", "flag", value="true"),
)


@pages.get("/connectors/new")
async def new_connector(visit: Visit) -> Page:
    visit.check("POST", "/connectors")
    fields = (_KIND, *_FIELDS)
    start = {each.name: visit.query.get(each.name) or each.value for each in fields}
    return _page(visit, new_form(fields, start), 200)


@pages.post("/connectors/new")
async def create_connector(visit: Visit, given: Form) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return _page(visit, state, status)

    async def store(body: dict[str, Any]) -> Page | Redirect:
        made = await visit.ask("POST", "/connectors", body=body)
        if made.kind == WEBHOOK:
            return Page("webhook_made.html", {"made": made, "rotate": command("webhooks rotate", made.name)})
        return Redirect(visit.url("/connectors"), f"Connector {made.name} is stored.")

    return await create((_KIND, *_FIELDS), given, show, store)


@pages.get("/connectors/{id}/edit")
async def edit_connector(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    visit.check("PATCH", "/connectors/{id}")
    connector = await visit.ask("GET", "/connectors/{id}", id=id)
    return _page(visit, edit_form(_FIELDS, _texts(connector), connector.revision), 200, connector)


@pages.post("/connectors/{id}/edit")
async def change_connector(visit: Visit, given: Form, id: str) -> Page | Redirect:  # noqa: A002
    connector = await visit.ask("GET", "/connectors/{id}", id=id)

    async def show(state: FormState, status: int) -> Page:
        return _page(visit, state, status, connector)

    async def store(changes: dict[str, Any], revision: str) -> None:
        await visit.ask("PATCH", "/connectors/{id}", id=id, body=changes, revision=revision)

    async def read() -> Stored:
        newer = await visit.ask("GET", "/connectors/{id}", id=id)
        return _texts(newer), newer.revision

    return await change(_FIELDS, given, show, store, read, to=visit.url("/connectors"))


def _texts(connector: Any) -> dict[str, str]:
    return {each.name: text_of(getattr(connector, each.name)) for each in _FIELDS}


def _page(visit: Visit, state: FormState, status: int, connector: Any = None) -> Page:
    values = {
        "title": "New connector" if connector is None else f"Edit {connector.name}",
        "lead": "Where requests go and what they carry. No secret is stored, only its name."
        if connector is None
        else f"{TITLES.get(connector.kind, connector.kind)} connector. Requests under way go on as they were.",
        "crumb": "Connectors",
        "back": visit.url("/connectors"),
        "tabs": [],
        "state": state,
        "conflict": status == 412,
        "refused": "It was not stored",
        "submit": "Create" if connector is None else "Save",
        "more": "",
        "preview_of": None,
    }
    return Page("form.html", values, status)
