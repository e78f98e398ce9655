"""Requests that create something: the same request, sent again, creates nothing new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headway.errors import Duplicate, Replayed

KEPT_MS = 24 * 60 * 60 * 1_000
"""How long a request is known by its key."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, by the key that its sender chose for it; `body_hash` tells whether it is the same one."""

    tenant_id: str
    key_id: str  # of the sender's API key
    route: str  # its method and path
    key: str
    body_hash: bytes


Requests = Request | Sequence[Request | None] | None
"""The request that an enqueue is for; or one for each of its jobs, None where that has no key."""


class Created(msgspec.Struct, frozen=True, array_like=True):
    """What one request made or met."""

    id: str
    created: bool


def replayed(request: Request, body_hash: bytes, answer: str) -> Any:
    """Raises `Replayed` with what the request created the first time; or `Duplicate` if that was another request."""
    created = msgspec.json.decode(answer, type=list[Created])
    if body_hash != request.body_hash:
        raise Duplicate(
            f"Idempotency-Key {request.key!r} came with another body before: give each request a key of its own",
            created[0].id if created else None,
        )
    raise Replayed([(each.id, each.created) for each in created])


def answer_of(done: Any) -> str:
    """What is kept of an answer: the id of each job, event or signal, and whether it was new."""
    found = [Created(each, True) if isinstance(each, str) else Created(each.id, each.created) for each in done]
    return msgspec.json.encode(found).decode()
