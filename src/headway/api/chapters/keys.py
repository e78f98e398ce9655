"""API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headway.api.call import Answer, Call
from headway.api.routes import ADMINS, Routes
from headway.api.wire.pages import PageQuery, part
from headway.api.wire.problems import Refused
from headway.api.wire.views import Listed
from headway.errors import NotAllowed, NotFound
from headway.model.access import ApiKey, NewApiKey, Role, check_no_wider, is_no_wider
from headway.model.key_text import Mode

routes = Routes("keys")


class KeyIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    role: Role
    queues: list[str] = []
    kinds: list[str] = []
    expires_at: datetime | None = None
    mode: Mode = "live"


class KeyMade(msgspec.Struct):
    """A new key; its text is shown only now."""

    text: str
    key: ApiKey


class KeyList(msgspec.Struct):
    items: list[ApiKey]
    next_cursor: str | None


@routes.post("/keys", roles=ADMINS, body=KeyIn, answers={201: KeyMade}, problems=(409, 422))
async def create_key(call: Call[KeyIn, None]) -> Answer:
    """Make a key, no wider than this one."""
    body = call.body
    if call.verbs is call.app and body.role not in ("superadmin", "worker"):
        raise Refused(422, f"which tenant is the {body.role}'s key for?", fix="name it: Headway-Tenant: acme")
    new = NewApiKey(
        id="",
        secret_hash=b"",
        name=body.name,
        role=body.role,
        tenant_id=call.key.tenant_id,
        queues=tuple(body.queues),
        kinds=tuple(body.kinds),
        expires_at=body.expires_at,
    )
    try:
        check_no_wider(call.key, new)
    except NotAllowed as error:
        raise Refused(403, str(error), code="NotAllowed") from None
    made = await call.verbs.acreate_api_key(
        body.name,
        body.role,
        queues=body.queues,
        kinds=body.kinds,
        expires=body.expires_at,
        mode=body.mode,
        actor=call.actor,
    )
    return Answer(201, KeyMade(made.text, made.key))


@routes.get("/keys", roles=ADMINS, query=PageQuery, answers={200: KeyList}, problems=(422,))
async def list_keys(call: Call[None, PageQuery]) -> Listed:
    """List keys, oldest first, without their secrets; revoked and expired ones too."""
    found = [each for each in await call.verbs.aapi_keys() if is_no_wider(call.key, each)]
    return part("keys", call.query, found, key=lambda each: each.id)


@routes.get("/keys/{id}", roles=ADMINS, answers={200: ApiKey}, problems=(404,))
async def get_key(call: Call[None, None]) -> ApiKey:
    """Show a key, without its secret."""
    return await _visible(call)


class RevokeQuery(msgspec.Struct, forbid_unknown_fields=True):
    with_made: bool = False


@routes.delete("/keys/{id}", roles=ADMINS, query=RevokeQuery, answers={200: ApiKey}, problems=(404, 422))
async def revoke_key(call: Call[None, RevokeQuery]) -> ApiKey:
    """Revoke a key, forever; `with_made` revokes the keys that it made, too, and disables their triggers."""
    key = await _visible(call)
    return await call.verbs.arevoke_api_key(key.id, with_made=call.query.with_made, actor=call.actor)


async def _visible(call: Call[None, Any]) -> ApiKey:
    """The key of the path, if this one may handle it."""
    found = await call.verbs.aapi_key(call.params["id"])
    if not is_no_wider(call.key, found):
        raise NotFound(f"there is no key {call.params['id']}")
    return found
