"""What a handler gets: one request, decoded and allowed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request as HttpRequest

from headway.api.access.callers import Callers
from headway.api.access.noted import Noted, actor_of
from headway.api.access.places import Place
from headway.api.access.sessions import Sessions
from headway.api.aside import Aside
from headway.api.enqueues import Enqueues
from headway.api.streams import Streams
from headway.api.wire.bodies import LARGE
from headway.api.wire.problems import Refused
from headway.api.workers.gateway import Gateway
from headway.app import Headway
from headway.app.verbs import Verbs
from headway.errors import NotAllowed
from headway.model.access import KINDS_OF_ROLES, ApiKey, Session
from headway.model.actor import Caller
from headway.model.definition import Definition
from headway.model.request import Request
from headway.model.restricted import restricted
from headway.model.trace import carried

B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")


class ServerParts(msgspec.Struct, frozen=True, eq=False):
    """What the requests of one server share."""

    stopping: asyncio.Event  # set when the server is asked to end: handlers that wait or stream return
    workers: Gateway  # the workers that work through this server
    streams: Streams  # the open streams of this server
    enqueues: Enqueues  # stores the jobs of requests that come at the same time
    callers: Callers
    sessions: Sessions
    noted: Noted  # what the audit keeps of requests that change nothing
    aside: Aside  # for work that would hold up the event loop


class Call(msgspec.Struct, Generic[B, Q], frozen=True, eq=False):
    """One request: whose it is, what it asks, and the verbs that it may use."""

    app: Headway  # all tenants: only for what belongs to all of them
    verbs: Verbs  # what this key sees: its tenant, or all of them for a super admin who names none
    key: ApiKey
    params: Mapping[str, str]
    query: Q
    body: B
    headers: Mapping[str, str]
    request_id: str
    address: str  # of the client, for the audit; from X-Forwarded-For only where the proxy is trusted
    server: ServerParts
    http: HttpRequest
    place: Place  # of this request, among those that are under way
    size: int = 0  # of its body, in bytes
    upload: AsyncIterator[bytes] | None = None  # the body, where it is a file
    request: Request | None = None  # its Idempotency-Key, where it has one

    async def gone(self) -> None:
        """Returns when the client has gone away; its body must have been read."""
        while (await self.http.receive())["type"] != "http.disconnect":
            pass

    async def allowed(self) -> None:
        """Raises `Refused` where the key is not valid any more."""
        await self.server.callers.check(self.http)

    async def aside(self, work: Callable[[], T]) -> T:
        """Do this with what the body has: beside the event loop, if that is much."""
        if self.size <= LARGE:
            return work()
        return await self.server.aside.run(self.verbs.tenant_id, work)

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Around waiting for what others do: the request's place is free meanwhile."""
        self.place.leave()
        yield
        await self.place.come_back()  # not where it was canceled, or failed

    async def begin_session(self) -> tuple[Session, str]:
        """A session of this key; gives the cookie to set, too."""
        return await self.server.sessions.begin(self.http, self.key)

    async def end_session(self) -> str:
        """Gives the cookie to set."""
        return await self.server.sessions.end(self.http)

    @property
    def actor(self) -> Caller:
        """Who the audit says it was, with the request."""
        return actor_of(self.key, request_id=self.request_id, address=self.address)

    @property
    def trace(self) -> str | None:
        """The trace that the request belongs to, passed on to what it creates."""
        return carried(self.headers.get("traceparent"), self.headers.get("tracestate"))

    @property
    def if_match(self) -> tuple[str, ...] | None:
        """The versions of what it changes that the request is about; None: any."""
        given = self.headers.get("if-match")
        if given is None or given.strip() == "*":
            return None
        return tuple(re.findall(r'"([^"]*)"', given)) or (given.strip(),)

    def may_touch(self, *, queue: str, kind: str) -> bool:
        """Whether the key is for this queue and kind."""
        return (not self.key.queues or queue in self.key.queues) and (not self.key.kinds or kind in self.key.kinds)

    def check_bounds(self, kind: str, definition: Definition | None, asked: Mapping[str, Any]) -> None:
        """Raises `Refused` for a queue, timeout or key that the kind's definition does not let enqueuers choose."""
        if self.key.role == "superadmin" or not asked:
            return
        try:
            restricted(kind, definition, asked)
        except NotAllowed as error:
            raise Refused(403, str(error), code="NotAllowed") from None

    def check_options(self, kind: str, options: Mapping[str, Any]) -> None:
        """The same for options; None removes what the definition sets."""
        if self.key.role == "superadmin":
            return
        try:
            self.verbs._definitions.check_bounds(kind, options)
        except NotAllowed as error:
            raise Refused(403, str(error), code="NotAllowed") from None

    def check_kind(self, kind: str) -> None:
        """Raises `Refused` for a connector that does what the key's role may not: a report lists all jobs, and a
        delivery is signed as ours."""
        roles = KINDS_OF_ROLES.get(kind)
        if roles is not None and self.key.role not in roles:
            raise Refused(
                403,
                f"a key of role {self.key.role} may not enqueue {kind}",
                code="NotAllowed",
                fix=f"use a key of role {' or '.join(roles)}",
            )

    def check_touch(self, *, queue: str, kind: str) -> None:
        if not self.may_touch(queue=queue, kind=kind):
            raise Refused(
                403,
                f"this key is not for kind {kind} on queue {queue}",
                fix="use a key that names them, or one without queues and kinds",
            )


@dataclass(frozen=True)
class Answer:
    """An answer other than 200 with a body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
