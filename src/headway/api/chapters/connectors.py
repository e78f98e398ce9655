"""Connectors: where requests go and what they carry, stored under a name. The only secrets in an answer are those of
webhook endpoints, which are derived and shown once, to the admin who creates or rotates them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from headway.api.access.narrowed import may_see_kind, queue_of
from headway.api.call import Answer, Call
from headway.api.routes import ADMINS, VIEWERS, Routes
from headway.api.wire.pages import PageQuery, changes_of, given, page, revision_tag
from headway.api.wire.problems import Refused
from headway.api.wire.views import Listed
from headway.app.webhooks import WebhookKeys, keys_of
from headway.errors import ConfigError, NotFound
from headway.model.connector import HTTP, WEBHOOK, Connector
from headway.model.ids import is_id
from headway.shell import command

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


class CreatedConnector(Connector, kw_only=True, frozen=True):
    """A new configuration; that of a webhook endpoint has the keys that its receiver verifies by, or why not."""

    secret: str | U = msgspec.UNSET
    public_key: str | U = msgspec.UNSET
    secret_missing: str | U = msgspec.UNSET


class RotateBody(msgspec.Struct, forbid_unknown_fields=True):
    overlap: str | float = "1d"  # for how long the old secret signs, too


class TestJob(msgspec.Struct):
    id: str
    created: bool


@routes.get("/connectors", roles=VIEWERS, query=ConnectorQuery, answers={200: ConnectorList}, problems=(422,))
async def list_connectors(call: Call[None, ConnectorQuery]) -> Listed:
    """List connectors' configurations, oldest first."""
    await call.verbs.alearn(None)  # a kind's queue, for keys of some queues

    async def fetch(count: int, after: str | None) -> list[Connector]:
        return await call.verbs.aconnectors(kind=call.query.kind, limit=count, after=after)

    return await page(
        "connectors", call.query, fetch, key=lambda each: each.id, visible=lambda each: may_see_kind(call, each.kind)
    )


@routes.post(
    "/connectors",
    roles=ADMINS,
    body=NewConnector,
    answers={201: CreatedConnector},
    problems=(403, 409, 422),
    tagged=True,
)
async def create_connector(call: Call[NewConnector, None]) -> Answer:
    """Store a configuration, whose headers name secrets by reference; a webhook endpoint's own secret is shown, once.

    Where this server lacks the master secret, the answer says how to get one.
    """
    fields = given(call.body, {})
    if not fields.get("name") or not fields.get("url"):
        raise Refused(422, "a connector needs a name and a url")
    await call.verbs.alearn(None)
    kind = fields.get("kind") or HTTP
    call.check_touch(queue=queue_of(call, kind, {}), kind=kind)
    made = await call.verbs.acreate_connector(actor=call.actor, **fields)
    shown: dict[str, Any] = {}
    if made.kind == WEBHOOK:
        try:
            keys = keys_of(made)
            shown = {"secret": keys.secret, "public_key": keys.public_key}
        except ConfigError as error:
            # a server that only serves need not have it: the endpoint works, and a process that has it can show the
            # secret
            how = f"{command('webhooks rotate', made.name)}, where it is set, shows a secret"
            shown = {"secret_missing": f"{error}; or {how}"}
    return Answer(201, CreatedConnector(**msgspec.structs.asdict(made), **shown), revision_tag(made))


@routes.get("/connectors/{id}", roles=VIEWERS, answers={200: Connector}, problems=(404,), tagged=True)
async def get_connector(call: Call[None, None]) -> Answer:
    """Show a configuration, with its revision as `ETag`."""
    found = await _visible(call)
    return Answer(200, found, revision_tag(found))


@routes.patch(
    "/connectors/{id}",
    roles=ADMINS,
    body=ConnectorChange,
    answers={200: Connector},
    problems=(403, 404, 409, 412, 422),
    tagged=True,
)
async def change_connector(call: Call[ConnectorChange, None]) -> Answer:
    """Change a configuration; requests that are under way go on with what they read."""
    connector = await _visible(call)
    changes = changes_of(call.body, {})
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


@routes.post(
    "/connectors/{id}/rotate",
    roles=ADMINS,
    body=RotateBody,
    answers={200: WebhookKeys},
    problems=(404, 409, 412, 422),
    tagged=True,
)
async def rotate_connector(call: Call[RotateBody, None]) -> Answer:
    """Give a webhook endpoint a new secret and show it, once. The old one signs, too, for the time of `overlap`."""
    connector = await _visible(call)
    try:
        keys = await call.verbs.arotate_webhook(
            UUID(connector.id), overlap=call.body.overlap, actor=call.actor, if_match=call.if_match
        )
    except ConfigError as error:
        fix = f"set it for the server, or {command('webhooks rotate', connector.name)} where it is set"
        raise Refused(409, f"this server cannot show a new secret: {error}", code="ConfigError", fix=fix) from None
    return Answer(200, keys, revision_tag(keys.endpoint))


@routes.post("/connectors/{id}/test", roles=ADMINS, answers={201: TestJob}, problems=(403, 404, 409, 422, 429))
async def test_connector(call: Call[None, None]) -> Answer:
    """Enqueue a delivery of the event headway.webhook.test to a webhook endpoint; gives its job."""
    connector = await _visible(call)
    made = await call.verbs.atest_webhook(UUID(connector.id), actor=call.actor)
    return Answer(201, TestJob(made.id, made.created))


async def _visible(call: Call[Any, Any]) -> Connector:
    """The configuration of the path, by its id or name, if the key may see it."""
    ref = call.params["id"]
    await call.verbs.alearn(None)
    connector = await call.verbs.aget_connector(UUID(ref) if is_id(ref) else ref)
    if not may_see_kind(call, connector.kind):
        raise NotFound(f"there is no connector {ref!r}")
    return connector
