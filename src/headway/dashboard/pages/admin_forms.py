"""Administration: make keys and tenants, set limits, change definitions and queues."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from headway.api.wire.problems import Refused
from headway.dashboard.editing import Stored, change, create
from headway.dashboard.forms import Field, FormState, Refusal, duration_text, edit_form, new_form, text_of, zone_names
from headway.dashboard.shown.numbers import duration
from headway.dashboard.shown.schema_form import inputs_of
from headway.dashboard.table import Form, Page, Pages, Redirect
from headway.dashboard.visit import COUNTED, Visit
from headway.model.access import ROLES
from headway.model.limit import QUOTAS
from headway.model.rate import show_rate
from headway.model.status import FINISHED

pages = Pages()

_ROLE_WORDS = {
    "viewer": "viewer: reads",
    "producer": "producer: enqueues, emits and signals; for applications",
    "operator": "operator: reads, enqueues, cancels, retries, changes",
    "admin": "admin: an operator who also has triggers, templates and keys",
    "worker": "worker: claims and settles jobs",
    "superadmin": "superadmin: everything, in every tenant",
}
_LIFETIMES = (("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"), ("", "never"))
_WITH_YOURS = "yours"
_KEY = (
    Field("name", "Name", required=True, placeholder="billing service", hint="What it is for; the audit says it."),
    Field("role", "Role", "choice", choices=tuple((each, _ROLE_WORDS[each]) for each in ROLES), value="viewer"),
    Field("expires", "Expires", "choice", choices=_LIFETIMES, value="90", beside=True),
    Field("queues", "Only these queues", "words", "Names, with spaces between. Empty: all.", folded=True),
    Field("kinds", "Only these kinds", "words", "Names, with spaces between. Empty: all.", folded=True, beside=True),
    Field("mode", "Mode", "choice", choices=(("live", "live"), ("test", "test")), value="live", folded=True),
)
_TENANT = (
    Field(
        "slug",
        "Name",
        required=True,
        placeholder="acme",
        hint="Lower-case letters, digits, . _ and -. A name is never given twice.",
    ),
    Field(
        "tz",
        "Time zone",
        placeholder="Europe/Berlin",
        hint="What its new schedules start with. Empty: the server's.",
        suggestions=zone_names(),
    ),
)
_QUOTA_WORDS = {
    "max_pending": "Jobs that may wait",
    "max_bytes": "Bytes of payload that may wait",
    "max_events": "Events that may wait",
    "max_schedules": "Schedules and triggers",
    "max_group": "Members of a group",
    "max_fan_out": "Children or followers of a job",
}
_LIMIT = (
    Field(
        "scope",
        "Of which",
        "choice",
        choices=(("queue", "a queue"), ("kind", "a kind"), ("tenant", "a tenant")),
        value="queue",
    ),
    Field(
        "name",
        "Name",
        required=True,
        hint="Of the queue, kind or tenant; * is every tenant without a limit of its own.",
    ),
    Field("max_running", "At once", "number", "How many may run at the same time, on all hosts."),
    Field("rate", "Rate", placeholder="100/min", hint="How many of a kind may start in a time."),
    Field("burst", "Burst", "number", "A bucket of this size, which refills evenly.", folded=True),
    *(Field(name, _QUOTA_WORDS[name], "number", "Of a tenant; more are refused.", folded=True) for name in QUOTAS),
)
_DEFINITION = (
    Field("key", "Kind", required=True, placeholder="send_email"),
    Field("description", "Description", emptied=""),
    Field("queue", "Queue", placeholder="default"),
    Field("max_attempts", "Attempts", "number", placeholder="5", beside=True),
    Field("timeout", "Timeout", placeholder="5m", hint="Of one attempt.", beside=True),
    Field("is_active", "It can be enqueued", "flag", value="true"),
    Field("arg_schema", "Schema of the payload", "json", "JSON Schema. The form of a new job is made from it."),
    Field("tenants", "Tenants", "json", 'JSON: ["acme"]. Empty: every tenant can use it.', folded=True, emptied=None),
    Field("enqueuer_may", "What enqueuers may set", "json", 'JSON: {"priority": [0, 100]}', folded=True, emptied={}),
)
_QUEUE = (
    Field(
        "max_running",
        "At once",
        "number",
        "How many of its jobs may run at the same time, on all hosts. Empty: as many as there are slots.",
    ),
    Field("fair", "Tenants take turns", "flag", "If not, the oldest job is first, no matter whose it is."),
    Field(
        "retention",
        "Keep ended jobs",
        placeholder="30d",
        hint='A duration, or one for each status: {"succeeded": "1d", "dead": "30d"}. Empty: as the server says.',
    ),
)


# keys


@pages.get("/keys/new")
async def new_key(visit: Visit) -> Page:
    visit.check("POST", "/keys")
    return await _key_page(visit, new_form(_key_fields(visit)), 200)


@pages.post("/keys/new")
async def create_key(visit: Visit, given: Form) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return await _key_page(visit, state, status)

    async def store(body: dict[str, Any]) -> Page:
        days = body.pop("expires", "")
        if days == _WITH_YOURS:
            body["expires_at"] = visit.key.expires_at
        elif days:
            body["expires_at"] = visit.now + timedelta(days=int(days))
        made = await visit.ask("POST", "/keys", body=body)
        return Page("key_made.html", {"made": made})

    return await create(_key_fields(visit), given, show, store)


def _key_fields(visit: Visit) -> list[Field]:
    """Only the roles and times that this visitor can give; the API has the last word."""
    roles = ("superadmin", "worker") if visit.is_superadmin and visit.tenant is None else ROLES[:-1]
    role = {"choices": tuple((each, _ROLE_WORDS[each]) for each in roles), "value": roles[0]}
    own = visit.key.expires_at
    expires: dict[str, Any] = {}
    if own is not None:  # a key makes none that lasts longer
        left = own - visit.now
        days = [each for each in _LIFETIMES if each[0] and timedelta(days=int(each[0])) < left]
        last = (_WITH_YOURS, f"with yours, in {duration(left.total_seconds())}")
        expires = {"choices": (*days, last), "value": "90" if left > timedelta(days=90) else _WITH_YOURS}
    return [replace(each, **{"role": role, "expires": expires}.get(each.name, {})) for each in _KEY]


async def _key_page(visit: Visit, state: FormState, status: int) -> Page:
    lead = "Its text is shown once, on the next page."
    if visit.is_superadmin and visit.tenant is None:
        lead += " For a key of one tenant, choose the tenant first."
    return _page(
        state, status, title="New key", lead=lead, crumb="Keys", back=visit.url("/keys"), more="Narrow it down"
    )


# tenants


@pages.get("/tenants/new")
async def new_tenant(visit: Visit) -> Page:
    visit.check("POST", "/admin/tenants")
    return _page(new_form(_TENANT), 200, title="New tenant", crumb="Tenants", back=visit.url("/tenants"))


@pages.post("/tenants/new")
async def create_tenant(visit: Visit, given: Form) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return _page(state, status, title="New tenant", crumb="Tenants", back=visit.url("/tenants"))

    async def store(body: dict[str, Any]) -> Redirect:
        made = await visit.ask("POST", "/admin/tenants", body=body)
        return Redirect(visit.url("/tenants"), f"Tenant {made.slug} is there.")

    return await create(_TENANT, given, show, store)


@pages.get("/tenants/{id}/edit")
async def edit_tenant(visit: Visit, id: str) -> Page:  # noqa: A002 - the path's own word
    visit.check("PATCH", "/admin/tenants/{id}")
    tenant = await visit.ask("GET", "/admin/tenants/{id}", id=id)
    return _tenant_page(visit, edit_form(_TENANT, _tenant_texts(tenant), _tenant_version(tenant)), 200, tenant)


@pages.post("/tenants/{id}/edit")
async def change_tenant(visit: Visit, given: Form, id: str) -> Page | Redirect:  # noqa: A002
    tenant = await visit.ask("GET", "/admin/tenants/{id}", id=id)

    async def show(state: FormState, status: int) -> Page:
        return _tenant_page(visit, state, status, tenant)

    async def store(changes: dict[str, Any], revision: str) -> None:
        if revision != _tenant_version(tenant):
            raise Refused(412, "the tenant was changed meanwhile")
        await visit.ask("PATCH", "/admin/tenants/{id}", id=id, body=changes)

    async def read() -> Stored:
        return _tenant_texts(tenant), _tenant_version(tenant)

    return await change(_TENANT, given, show, store, read, to=visit.url("/tenants"))


def _tenant_texts(tenant: Any) -> dict[str, str]:
    return {each.name: text_of(getattr(tenant, each.name)) for each in _TENANT}


def _tenant_version(tenant: Any) -> str:
    """A tenant has no revision: these are what may have changed."""
    return f"{tenant.slug or '-'} {tenant.tz or '-'}"


def _tenant_page(visit: Visit, state: FormState, status: int, tenant: Any) -> Page:
    lead = "Its id stays. If you rename it, nobody can ever have its old name, and links with that name lead nowhere."
    title = f"Edit {tenant.slug or tenant.id}"
    return _page(state, status, title=title, lead=lead, crumb="Tenants", back=visit.url("/tenants"))


@pages.get("/tenants/{id}/delete")
async def ask_before_deleting(visit: Visit, id: str) -> Page:  # noqa: A002
    """A dry run: what would be gone with it."""
    found = await visit.ask("DELETE", "/admin/tenants/{id}", id=id, query={"dry_run": "true"})
    return Page("delete_tenant.html", {"found": found, "wrong": ""})


@pages.post("/tenants/{id}/delete")
async def delete_tenant(visit: Visit, given: Form, id: str) -> Page | Redirect:  # noqa: A002
    found = await visit.ask("DELETE", "/admin/tenants/{id}", id=id, query={"dry_run": "true"})
    name = found.tenant.slug or found.tenant.id
    wrong = "" if given.get("typed", "").strip() == name else f"type {name} to confirm: nothing was deleted"
    if not wrong:
        try:
            gone = await visit.ask("DELETE", "/admin/tenants/{id}", id=id)
            return Redirect(
                f"{visit.root}/tenants", f"Tenant {name} is deleted, with {sum(gone.rows.values()):,} rows."
            )
        except Refusal as error:
            wrong = str(error)
    return Page("delete_tenant.html", {"found": found, "wrong": wrong}, 422)


# limits


@pages.get("/limits/set")
async def edit_limit(visit: Visit) -> Page:
    visit.check("POST", "/limits")
    scope, name = visit.query.get("scope"), visit.query.get("name")
    fields = await _limit_fields(visit)
    if not scope or not name:
        start = {each.name: visit.query.get(each.name) or each.value for each in fields}
        return _limit_page(visit, new_form(fields, start), 200)
    texts = await _limit_texts(visit, scope, name)
    return _limit_page(visit, edit_form(fields, texts, "-"), 200)


@pages.post("/limits/set")
async def set_limit(visit: Visit, given: Form) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return _limit_page(visit, state, status)

    async def put(body: dict[str, Any]) -> Redirect:
        scope, name = body.pop("scope", "queue"), body.pop("name", "")
        await visit.ask("POST", "/limits", body={scope: name, **body})
        return Redirect(visit.url("/limits"), f"The limit of {scope} {name} is set.")

    async def store(changes: dict[str, Any], _: str) -> None:
        await put({"scope": given.get("scope", ""), "name": given.get("name", ""), **changes})

    async def read() -> Stored:
        return await _limit_texts(visit, given.get("scope", ""), given.get("name", "")), "-"

    fields = await _limit_fields(visit)
    if given.get("revision"):
        return await change(fields, given, show, store, read, to=visit.url("/limits"))
    return await create(fields, given, show, put)


async def _limit_fields(visit: Visit) -> list[Field]:
    queues = [each.name for each in (await visit.ask("GET", "/queues", query=COUNTED)).items]
    kinds = [each["key"] for each in (await visit.ask("GET", "/definitions", query={"limit": 200})).items]
    return [replace(each, suggestions=(*queues, *kinds)) if each.name == "name" else each for each in _LIMIT]


async def _limit_texts(visit: Visit, scope: str, name: str) -> dict[str, str]:
    found = (await visit.ask("GET", "/limits", query={"limit": 200})).items
    limit = next((each for each in found if (each.scope, each.name) == (scope, name)), None)
    texts = {"scope": scope, "name": name}
    if limit is None:
        return texts
    texts |= {each: text_of(getattr(limit, each)) for each in ("max_running", *QUOTAS)}
    rate = show_rate(limit.rate_count, limit.rate_period_ms) if limit.rate_count is not None else ""
    return texts | {"rate": rate, "burst": text_of(limit.rate_burst)}


def _limit_page(visit: Visit, state: FormState, status: int) -> Page:
    lead = "It overrides what jobs carry themselves, from the next claim on. An emptied field is no limit."
    more = "Bursts, and what a tenant may store"
    return _page(state, status, title="Set a limit", lead=lead, crumb="Limits", back=visit.url("/limits"), more=more)


# queues


@pages.get("/queues/{name}/edit")
async def edit_queue(visit: Visit, name: str) -> Page:
    visit.check("PATCH", "/queues/{name}")
    return _queue_page(visit, edit_form(_QUEUE, await _queue_texts(visit, name), "-"), 200, name)


@pages.post("/queues/{name}/edit")
async def change_queue(visit: Visit, given: Form, name: str) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return _queue_page(visit, state, status, name)

    async def store(changes: dict[str, Any], _: str) -> None:
        kept = changes.get("retention")
        if kept and kept.startswith("{"):
            changes["retention"] = Field("retention", "", "json").decode(kept)
        await visit.ask("PATCH", "/queues/{name}", name=name, body=changes)

    async def read() -> Stored:
        return await _queue_texts(visit, name), "-"

    return await change(_QUEUE, given, show, store, read, to=visit.url(f"/queues/{name}"))


async def _queue_texts(visit: Visit, name: str) -> dict[str, str]:
    queue = await visit.ask("GET", "/queues/{name}", query=COUNTED, name=name)
    kept = {status: duration_text(ms) for status, ms in (queue.retention or {}).items()}
    same = len(set(kept.values())) == 1 and len(kept) == len(FINISHED)
    retention = next(iter(kept.values())) if same else json.dumps(kept) if kept else ""
    return {"max_running": text_of(queue.max_running), "fair": text_of(queue.fair), "retention": retention}


def _queue_page(visit: Visit, state: FormState, status: int, name: str) -> Page:
    return _page(state, status, title=f"Settings of {name}", crumb=name, back=visit.url(f"/queues/{name}"))


# definitions


@pages.get("/definitions/new")
async def new_definition(visit: Visit) -> Page:
    visit.check("POST", "/admin/jobs/definitions")
    return await _definition_page(visit, new_form(_DEFINITION), 200)


@pages.post("/definitions/new")
async def create_definition(visit: Visit, given: Form) -> Page | Redirect:
    async def show(state: FormState, status: int) -> Page:
        return await _definition_page(visit, state, status)

    async def store(body: dict[str, Any]) -> Redirect:
        made = await visit.ask("POST", "/admin/jobs/definitions", body=body)
        return Redirect(visit.url("/definitions"), f"{made['key']} is stored.")

    return await create(_DEFINITION, given, show, store)


@pages.get("/definitions/{id}/edit")
async def edit_definition(visit: Visit, id: str) -> Page:  # noqa: A002
    definition = await visit.ask("GET", "/admin/jobs/definitions/{id}", id=id)
    fields = _changeable(definition)
    return await _definition_page(
        visit, edit_form(fields, _definition_texts(definition), definition["revision"]), 200, definition
    )


@pages.post("/definitions/{id}/edit")
async def change_definition(visit: Visit, given: Form, id: str) -> Page | Redirect:  # noqa: A002
    definition = await visit.ask("GET", "/admin/jobs/definitions/{id}", id=id)

    async def show(state: FormState, status: int) -> Page:
        return await _definition_page(visit, state, status, definition)

    async def store(changes: dict[str, Any], revision: str) -> None:
        await visit.ask("PATCH", "/admin/jobs/definitions/{id}", id=id, body=changes, revision=revision)

    async def read() -> Stored:
        newer = await visit.ask("GET", "/admin/jobs/definitions/{id}", id=id)
        return _definition_texts(newer), newer["revision"]

    return await change(_changeable(definition), given, show, store, read, to=visit.url("/definitions"))


def _changeable(definition: Any) -> list[Field]:
    """The fields that can be changed; those that no longer follow the code can be reset."""
    fields = [each for each in _DEFINITION if each.name != "key"]
    if definition["changed"] and definition["origin"] == "code":
        hint = f"Changed here: {', '.join(definition['changed'])}. Names of fields, with spaces between."
        fields.append(
            Field("reset", "Follow the code again", "words", hint, suggestions=tuple(definition["changed"]), emptied=[])
        )
    return fields


def _definition_texts(definition: Any) -> dict[str, str]:
    texts = {each.name: text_of(definition.get(each.name)) for each in _DEFINITION}
    return texts | {"timeout": duration_text(definition["timeout_ms"])}


async def _definition_page(visit: Visit, state: FormState, status: int, definition: Any = None) -> Page:
    schema = next(each.value for each in state.fields if each.field.name == "arg_schema")
    lead = "Callers without its code can enqueue it from now on; a worker that has the code runs it."
    if definition is not None:
        lead = "What is changed here no longer follows the code."
    return _page(
        state,
        status,
        title="New definition" if definition is None else f"Edit {definition['key']}",
        lead=lead,
        crumb="Definitions",
        back=visit.url("/definitions"),
        more="Bounds of what enqueuers may set",
        preview_of="preview_definition.html",
        preview=_form_of(schema),
    )


def _form_of(schema: str) -> dict[str, Any]:
    """The fields that the form of a new job will have."""
    try:
        inputs = inputs_of(msgspec.json.decode(schema or "null"), None, {})
    except (msgspec.DecodeError, RecursionError, AttributeError, TypeError) as error:
        return {"inputs": None, "wrong": f"This is not JSON: {error}"}
    return {"inputs": inputs, "wrong": ""}


def _page(
    state: FormState,
    status: int,
    *,
    title: str,
    crumb: str,
    back: str,
    lead: str = "",
    more: str = "More",
    preview_of: str | None = None,
    preview: Any = None,
) -> Page:
    values: dict[str, Any] = {
        "title": title,
        "lead": lead,
        "crumb": crumb,
        "back": back,
        "tabs": [],
        "state": state,
        "conflict": status == 412,
        "refused": "It was not stored",
        "submit": "Save" if state.revision else "Create",
        "more": more,
        "preview_of": preview_of,
        "preview": preview,
    }
    return Page("form.html", values, status)
