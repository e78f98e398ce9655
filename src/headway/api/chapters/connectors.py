"""Connectors: where requests go and what they carry, stored under a name; no secret is ever in an answer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from headway.api.call import Answer, Call
from headway.api.routes import ADMINS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, given, page, revision_tag
from headway.api.wire.problems import Refused
from headway.api.wire.views import Listed
from headway.errors import NotFound
from headway.model.connector import Connector
from headway.model.ids import is_id

routes = Routes("connectors")

U = msgspec.UnsetType


class ConnectorQuery(PageQuery, kw_only=True):
    kind: str | None = None


class ConnectorChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str | U = msgspec.UNSET
    url: str | U = msgspec.UNSET
    headers: dict[str, Any] | U | None = msgspec.UNSET
    options: dict[str, Any] | U | None = msgspec.UNSET
    events: list[str] | U | None = msgspec.UNSET
    description: str | U | None = msgspec.UNSET
    enabled: bool | U = msgspec.UNSET


class NewConnector(ConnectorChange, forbid_unknown_fields=True, kw_only=True):
    kind: str | U = msgspec.UNSET


class ConnectorList(msgspec.Struct):
    items: list[Connector]
    next_cursor: str | None


@routes.get("/connectors", roles=VIEWERS, query=ConnectorQuery, answers={200: ConnectorList}, problems=(422,))
async def list_connectors(call: Call[None, ConnectorQuery]) -> Listed:
    """List connectors' configurations, oldest first."""
    await call.verbs.alearn(None)  # a kind's queue, for keys of some queues

    async def fetch(count: int, after: str | None) -> list[Connector]:
        return await call.verbs.aconnectors(kind=call.query.kind, limit=count, after=after)

    return await page(
        "connectors", call.query, fetch, key=lambda each: each.id, visible=lambda each: _is_visible(call, each)
    )


@routes.post("/connectors", roles=ADMINS, body=NewConnector, answers={201: Connector}, problems=(403, 409, 422))
async def create_connector(call: Call[NewConnector, None]) -> Answer:
    """Store a configuration: name and url, and headers whose secrets are references to the worker's environment."""
    fields = given(call.body, {})
    if not fields.get("name") or not fields.get("url"):
        raise Refused(422, "a connector needs a name and a url")
    made = await call.verbs.acreate_connector(actor=call.actor, **fields)
    return Answer(201, made, revision_tag(made))


@routes.get("/connectors/{id}", roles=VIEWERS, answers={200: Connector}, problems=(404,))
async def get_connector(call: Call[None, None]) -> Answer:
    """Show a configuration, with its revision as `ETag`."""
    found = await _visible(call)
    return Answer(200, found, revision_tag(found))


@routes.patch(
    "/connectors/{id}", roles=ADMINS, body=ConnectorChange, answers={200: Connector}, problems=(403, 404, 409, 412, 422)
)
async def change_connector(call: Call[ConnectorChange, None]) -> Answer:
    """Change a configuration; requests that are under way go on with what they read."""
    connector = await _visible(call)
    changes = given(call.body, {})
    if not changes:
        raise Refused(422, "what to change? Give some of name, url, headers, options, events, description, enabled")
    if "name" in changes:
        changes["new_name"] = changes.pop("name")
    changed = await call.verbs.achange_connector(
        UUID(connector.id), actor=call.actor, if_match=call.if_match, **changes
    )
    return Answer(200, changed, revision_tag(changed))


@routes.delete("/connectors/{id}", roles=ADMINS, answers={204: None}, problems=(404, 412))
async def delete_connector(call: Call[None, None]) -> Answer:
    """Delete a configuration; jobs that name it end dead."""
    connector = await _visible(call)
    await call.verbs.adelete_connector(UUID(connector.id), actor=call.actor, if_match=call.if_match)
    return Answer(204)


async def _visible(call: Call[Any, Any]) -> Connector:
    """The configuration of the path, by its id or name, if the key may see it."""
    ref = call.params["id"]
    await call.verbs.alearn(None)
    connector = await call.verbs.aget_connector(UUID(ref) if is_id(ref) else ref)
    if not _is_visible(call, connector):
        raise NotFound(f"there is no connector {ref!r}")
    return connector


def _is_visible(call: Call[Any, Any], connector: Connector) -> bool:
    definition = call.verbs._definitions.get(connector.kind)
    return call.may_touch(queue="default" if definition is None else definition.queue, kind=connector.kind)
