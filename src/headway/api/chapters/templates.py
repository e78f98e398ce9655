"""Templates: a kind, a payload and options, stored under a name."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from headway.api.access.narrowed import (
    check_others,
    is_narrowed,
    may_see_kind,
    queue_of,
    refuse_hidden,
    shown_duplicate,
)
from headway.api.call import Answer, Call
from headway.api.chapters.enqueue import JobIn
from headway.api.routes import ADMINS, PRODUCERS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, changes_of, given, page, revision_tag, size_of_payload
from headway.api.wire.problems import Refused
from headway.api.wire.replays import REPLAYED, UnlessReplayed
from headway.api.wire.views import Listed
from headway.define.options import stored_options
from headway.errors import Duplicate, NotFound, Replayed
from headway.model.actor import is_caller
from headway.model.ids import is_id
from headway.model.job import NewJob
from headway.model.template import Template

routes = Routes("templates")

_TRIGGERS_AT_ONCE = 200

U = msgspec.UnsetType
_ALIASES = {"definition_key": "kind"}
# what a job can be enqueued with; not those that only code in the process may set
_OPTIONS = {*JobIn.__struct_fields__, "backoff"} - {
    *("kind", "definition_key", "template", "payload", "dedupe_key"),
}


class TemplateChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str | U = msgspec.UNSET
    kind: str | U = msgspec.UNSET
    definition_key: str | U = msgspec.UNSET
    payload: dict[str, Any] | U | None = msgspec.UNSET
    options: dict[str, Any] | U | None = msgspec.UNSET
    description: str | U = msgspec.UNSET


TemplateView = msgspec.defstruct(
    "Template",
    [*((field.name, field.type) for field in msgspec.structs.fields(Template)), ("definition_key", str)],
    namespace={"__doc__": "A kind, a payload and options under a name."},
)


def template_view(template: Template) -> Any:
    return TemplateView(**msgspec.structs.asdict(template), definition_key=template.kind)


class TemplateList(msgspec.Struct):
    items: list[TemplateView]  # type: ignore[valid-type]
    next_cursor: str | None


@routes.get("/templates", roles=VIEWERS, query=PageQuery, answers={200: TemplateList}, problems=(422,))
async def list_templates(call: Call[None, PageQuery]) -> Listed:
    """List templates, oldest first."""
    await call.verbs.alearn(None)  # a kind's queue, for keys of some queues

    async def fetch(count: int, after: str | None) -> list[Template]:
        return await call.verbs.atemplates(limit=count, after=after)

    return await page(
        "templates",
        call.query,
        fetch,
        key=lambda each: each.id,
        show=template_view,
        visible=lambda each: may_see_kind(call, each.kind, each.options),
        size=size_of_payload,
    )


@routes.post(
    "/templates", roles=ADMINS, body=TemplateChange, answers={201: TemplateView}, problems=(403, 409, 422), tagged=True
)
async def create_template(call: Call[TemplateChange, None]) -> Answer:
    """Store a template. Its payload may be incomplete: it is validated when a job is made from it."""
    fields = given(call.body, _ALIASES)
    if not fields.get("name") or not fields.get("kind"):
        raise Refused(422, "a template needs a name and a kind")
    await _check_bounds(call, fields["kind"], fields.get("options") or {})
    made = await call.verbs.acreate_template(actor=call.actor, **fields)
    return _tagged(made, 201)


@routes.get("/templates/{id}", roles=VIEWERS, answers={200: TemplateView}, problems=(404,), tagged=True)
async def get_template(call: Call[None, None]) -> Answer:
    """Show a template, with its revision as `ETag`."""
    return _tagged(await _visible(call))


@routes.patch(
    "/templates/{id}",
    roles=ADMINS,
    body=TemplateChange,
    answers={200: TemplateView},
    problems=(403, 404, 409, 412, 422),
    tagged=True,
)
async def change_template(call: Call[TemplateChange, None]) -> Answer:
    """Change a template; jobs made before stay as they are."""
    template = await _visible(call)
    changes = changes_of(call.body, _ALIASES)
    options = changes["options"] or {} if "options" in changes else template.options
    kind = changes.get("kind", template.kind)
    await _check_bounds(call, kind, options)
    if not {"kind", "payload", "options"}.isdisjoint(changes):
        await _check_triggers(call, template.id, kind, options)
    changed = await call.verbs.achange_template(UUID(template.id), actor=call.actor, if_match=call.if_match, **changes)
    return _tagged(changed)


@routes.delete("/templates/{id}", roles=ADMINS, answers={204: None}, problems=(404, 409, 412))
async def delete_template(call: Call[None, None]) -> Answer:
    """Delete a template; not while a trigger uses it."""
    template = await _visible(call)
    await call.verbs.adelete_template(UUID(template.id), actor=call.actor, if_match=call.if_match)
    return Answer(204)


class TemplateRun(msgspec.Struct, forbid_unknown_fields=True):
    payload: dict[str, Any] | None = None
    options: dict[str, Any] = {}


class TemplateJob(msgspec.Struct):
    id: str
    created: bool


@routes.post(
    "/templates/{id}/run",
    roles=PRODUCERS,
    body=TemplateRun,
    answers={201: TemplateJob, 200: TemplateJob},
    problems=(403, 404, 409, 422, 429),
    creates=True,
)
async def run_template(call: Call[TemplateRun, None]) -> Answer:
    """Enqueue a job of a template, with these fields over its payload and these options over its own."""
    existing = partial(refuse_hidden, call) if is_narrowed(call) else None
    headers: dict[str, str] = {}
    try:
        async with UnlessReplayed(call.verbs, call.request):
            built = await _built(call)
        (done,) = await call.verbs.aenqueue_many([built], request=call.request, existing=existing)
        made = TemplateJob(done.id, done.created)
    except Replayed as again:
        made, headers = TemplateJob(*again.created[0]), REPLAYED
    except Duplicate as taken:
        raise await shown_duplicate(call, taken) from None
    return Answer(201 if made.created else 200, made, headers)


async def _built(call: Call[TemplateRun, None]) -> NewJob:
    """The job, as the key may enqueue it; raises `Refused`."""
    template = await _visible(call)
    unknown = sorted(call.body.options.keys() - _OPTIONS)
    if unknown:
        raise Refused(422, f"there is no option {unknown[0][:80]!r}", fix=f"known: {', '.join(sorted(_OPTIONS))}")
    options = stored_options(template.options, call.body.options)
    call.check_kind(template.kind)  # no matter who stored it, its job is the caller's
    await _check_bounds(call, template.kind, options)
    own = {"created_by": str(call.actor)} | ({} if call.trace is None else {"trace_id": call.trace})
    new = await call.verbs.abuild_from_template(
        UUID(template.id), call.body.payload, stored=True, **{**call.body.options, **own}
    )
    await check_others(call, [new])
    return new


def _tagged(template: Template, status: int = 200) -> Answer:
    return Answer(status, template_view(template), revision_tag(template))


async def _check_bounds(call: Call[Any, Any], kind: str, options: dict[str, Any]) -> None:
    """A template gives no more than an enqueue; raises `Refused`."""
    await call.verbs.alearn(None)
    call.check_touch(queue=queue_of(call, kind, options), kind=kind)
    call.check_options(kind, options)


async def _check_triggers(call: Call[Any, Any], template_id: str, kind: str, options: dict[str, Any]) -> None:
    """Raises `Refused` where the code's own triggers use the template with options that the caller may not set: they
    would fill those jobs. Fires of triggers that were made over HTTP are checked anyway."""
    after = None
    while found := await call.verbs.atriggers(type="any", limit=_TRIGGERS_AT_ONCE, after=after):
        for each in found:
            if each.template_id == template_id and not is_caller(each.created_by):
                call.check_options(kind, stored_options(options, each.options))
        after = found[-1].id


async def _visible(call: Call[Any, Any]) -> Template:
    """The template of the path, by its id or name, if the key may see it."""
    ref = call.params["id"]
    await call.verbs.alearn(None)
    template = await call.verbs.aget_template(UUID(ref) if is_id(ref) else ref)
    if not may_see_kind(call, template.kind, template.options):
        raise NotFound(f"there is no template {ref!r}")
    return template
