"""Idempotency-Key: a request that creates something, sent again, gets the same answer and creates nothing."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from starlette.requests import Request as HttpRequest

from headway.api.wire.problems import Fault, Refused
from headway.app.verbs import Verbs
from headway.errors import HeadwayError
from headway.model.access import ApiKey
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.request import Request
from headway.store.ops import Op, Steps

REPLAYED = {"Idempotent-Replayed": "true"}
_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


class UnlessReplayed:
    """Around what a request needs before it is done. Where that is refused and the request was done before, raises
    `Replayed`: what has changed since then, such as a kind that is not active any more, does not change its answer."""

    def __init__(self, verbs: Verbs, request: Request | None) -> None:
        self._verbs = verbs
        self._request = request

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if self._request is None or not isinstance(error, Refused | HeadwayError):
            return

        def steps() -> Steps[list[Any]]:
            yield from ()
            raise error

        op = Op(steps, writes=True, refusable=True, atomic=True)
        await self._verbs._store.arun(self._verbs._once(self._request, op))


def request_with_key(request: HttpRequest, body: bytes, verbs: Verbs, key: ApiKey) -> Request:
    """The request as it is known by its Idempotency-Key. Raises `Refused`."""
    given = request.headers.getlist("idempotency-key")
    if len(given) > 1 or not _KEY.match(given[0]):
        raise Refused(
            400,
            "Idempotency-Key is one text of 1 to 255 printable ASCII characters without spaces",
            faults=[Fault("not valid", "Idempotency-Key")],
            fix="send a new UUID with each new request, and the same one again when you repeat it",
        )
    return Request(
        tenant_id=verbs.tenant_id or DEFAULT_TENANT_ID,
        key_id=key.id,
        route=f"{request.method} {request.url.path}",
        key=given[0],
        body_hash=sha256(body).digest(),
    )
