"""Definitions: what is stored of kinds, so that callers without their code can use them."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from headway.api.call import Answer, Call
from headway.api.routes import EVERYBODY, SUPERADMINS, Routes
from headway.api.wire.pages import PageQuery, given, page, revision_tag
from headway.api.wire.problems import Refused
from headway.api.wire.views import Listed
from headway.errors import NotFound
from headway.model.definition import Definition

routes = Routes("definitions")

U = msgspec.UnsetType
_ALIASES = {"key": "kind", "arg_schema": "schema", "timeout_seconds": "timeout", "is_active": "active"}
_SHOWN: list[tuple[str, Any]] = [
    ("id", str),
    ("key", str),
    ("arg_schema", Any),
    ("timeout_seconds", float | None),
    ("is_active", bool),
]
DefinitionView = msgspec.defstruct(
    "Definition",
    [*_SHOWN, *((field.name, field.type) for field in msgspec.structs.fields(Definition))],
    namespace={"__doc__": "A kind as it is stored."},
)


def definition_view(found: Definition, *, whole: bool = True) -> dict[str, Any]:
    """`whole`: with the tenants that it is for, which only super admins see."""
    if not whole:
        found = msgspec.structs.replace(found, tenants=None, tenant_ids=None)
    return {
        "id": found.id,
        "key": found.kind,
        "arg_schema": found.schema,
        "timeout_seconds": None if found.timeout_ms is None else found.timeout_ms / 1_000,
        "is_active": found.active,
        **msgspec.structs.asdict(found),
    }


class DefinitionList(msgspec.Struct):
    items: list[DefinitionView]  # type: ignore[valid-type]
    next_cursor: str | None


class DefinitionChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    description: str | U = msgspec.UNSET
    arg_schema: dict[str, Any] | U | None = msgspec.UNSET
    schema: dict[str, Any] | U | None = msgspec.UNSET
    timeout_seconds: float | U | None = msgspec.UNSET
    timeout: str | float | U | None = msgspec.UNSET
    max_attempts: int | U = msgspec.UNSET
    queue: str | U = msgspec.UNSET
    enqueuer_may: dict[str, Any] | U = msgspec.UNSET
    tenants: list[str] | U | None = msgspec.UNSET
    is_active: bool | U = msgspec.UNSET
    active: bool | U = msgspec.UNSET
    reset: list[str] | U = msgspec.UNSET


class DefinitionIn(DefinitionChange, forbid_unknown_fields=True, kw_only=True):
    key: str | U = msgspec.UNSET
    kind: str | U = msgspec.UNSET


@routes.get("/definitions", roles=EVERYBODY, query=PageQuery, answers={200: DefinitionList}, problems=(422,))
async def list_definitions(call: Call[None, PageQuery]) -> Listed:
    """List the kinds that can be enqueued, by name."""
    return await _list(call)


@routes.get("/definitions/{id}", roles=EVERYBODY, answers={200: DefinitionView}, problems=(404,), tagged=True)
async def get_definition(call: Call[None, None]) -> Answer:
    """Show a kind, by its id or key."""
    return _tagged(await _named(call), whole=call.key.role == "superadmin")


@routes.get(
    "/admin/jobs/definitions", roles=SUPERADMINS, query=PageQuery, answers={200: DefinitionList}, problems=(422,)
)
async def list_all_definitions(call: Call[None, PageQuery]) -> Listed:
    """List the kinds that are stored, by name."""
    return await _list(call)


@routes.post(
    "/admin/jobs/definitions",
    roles=SUPERADMINS,
    body=DefinitionIn,
    answers={201: DefinitionView},
    problems=(409, 422),
    tagged=True,
)
async def create_definition(call: Call[DefinitionIn, None]) -> Answer:
    """Store a kind before any worker has declared it."""
    changes = given(call.body, _ALIASES)
    kind = changes.pop("kind", None)
    if not kind:
        raise Refused(422, "which kind? Give key (or kind)")
    if any(each.kind == kind for each in await call.app.adefinitions()):
        raise Refused(409, f"kind {kind!r} has a definition already", fix="change it with PATCH")
    made = await call.app.achange_definition(kind, actor=call.actor, **({"active": True} | changes))
    return _tagged(made, 201)


@routes.get(
    "/admin/jobs/definitions/{id}", roles=SUPERADMINS, answers={200: DefinitionView}, problems=(404,), tagged=True
)
async def show_definition(call: Call[None, None]) -> Answer:
    """Show a kind, by its id or key, with its revision as `ETag`."""
    return _tagged(await _named(call))


@routes.patch(
    "/admin/jobs/definitions/{id}",
    roles=SUPERADMINS,
    body=DefinitionChange,
    answers={200: DefinitionView},
    problems=(404, 412, 422),
    tagged=True,
)
async def change_definition(call: Call[DefinitionChange, None]) -> Answer:
    """Change a kind for new jobs. What is changed no longer follows the code, until `reset` names it."""
    found = await _named(call)
    changes = given(call.body, _ALIASES)
    changed = await call.app.achange_definition(found.kind, actor=call.actor, if_match=call.if_match, **changes)
    return _tagged(changed)


def _tagged(found: Definition, status: int = 200, *, whole: bool = True) -> Answer:
    return Answer(status, definition_view(found, whole=whole), revision_tag(found))


async def _list(call: Call[None, PageQuery]) -> Listed:
    async def fetch(count: int, after: str | None) -> list[Definition]:
        found = await call.app.adefinitions()
        return [each for each in found if after is None or each.kind > after][:count]

    return await page(
        "definitions",
        call.query,
        fetch,
        key=lambda each: each.kind,
        show=partial(definition_view, whole=call.key.role == "superadmin"),
        visible=lambda each: _is_visible(call, each),
    )


async def _named(call: Call[Any, Any]) -> Definition:
    """The definition of the path, if the key may see it."""
    ref = call.params["id"]
    found = [each for each in await call.app.adefinitions() if ref in (each.id, each.kind) and _is_visible(call, each)]
    if not found:
        raise NotFound(f"there is no definition {ref!r}: a worker that has the kind writes one at its start")
    return found[0]


def _is_visible(call: Call[Any, Any], definition: Definition) -> bool:
    tenant_id = call.key.tenant_id
    if tenant_id is not None and not definition.is_for(tenant_id):
        return False
    return not call.key.kinds or definition.kind in call.key.kinds
