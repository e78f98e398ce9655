"""One request as the server sees it: its id and address, who asks, how it ended; one line of the log at its end."""

from __future__ import annotations

import re
import time
from random import getrandbits
from typing import Any

from starlette.types import Message, Scope, Send

from headway.api.serving.settings import LOOPBACK
from headway.logs import get_logger
from headway.model.trace import is_traceparent, trace_id

_log = get_logger("headway.api")
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}\Z", re.ASCII)
_SCOPE = "headway"
# no browser guesses what an answer is, or keeps it, unless the answer says otherwise
_SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")


class Exchange:
    """What is known of a request while it is answered. `key_id` and `tenant_id` are filled in when it is allowed."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._started = time.monotonic()
        self._scope = scope
        self._send = send
        # the first of each name, as in Starlette, which searches all of them at every lookup
        self.sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        given = self.sent.get("x-request-id", "")
        self.request_id = given if _REQUEST_ID.match(given) else f"{getrandbits(128):032x}"
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        self.key_id: str | None = None
        self.tenant_id: str | None = None
        self.headers: list[tuple[bytes, bytes]] = []  # beside those that the answer has
        self.route: str | None = None  # the template of its path, under the root path
        self.status = 0
        parent = self.sent.get("traceparent")
        self.trace_id = trace_id(parent, "") if parent is not None and is_traceparent(parent) else None
        scope[_SCOPE] = self

    @staticmethod
    def of(request: Any) -> Exchange:
        found: Exchange = request.scope[_SCOPE]
        return found

    @property
    def root_path(self) -> str:
        """The path below which everything is, as the client sees it."""
        return str(self._scope.get("root_path", ""))

    def asks_one_of(self, hosts: tuple[str, ...]) -> bool:
        """Whether the Host header names this server. A page whose name was pointed at this address (DNS rebinding)
        sends its own name."""
        host = self.sent.get("host", "").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return name in LOOPBACK or any(
            each in ("*", name) or (each.startswith("*.") and name.endswith(each[1:])) for each in hosts
        )

    async def send(self, message: Message) -> None:
        """Send a part of the answer; it says the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            about = (b"x-request-id", self.request_id.encode())
            given = message.get("headers", ())
            names = {name.lower() for name, _ in given}
            safe = [each for each in _SAFE if each[0] not in names]
            if self._scope.get("scheme") == "https":
                safe.append(_TLS_ONLY)
            message = {**message, "headers": [*given, *self.headers, *safe, about]}
        await self._send(message)

    def log(self) -> None:
        traced = {} if self.trace_id is None else {"trace_id": self.trace_id}
        _log.info(
            "request",
            method=self._scope["method"],
            path=self._scope["path"],
            status=self.status,
            request_id=self.request_id,
            key_id=self.key_id,
            tenant_id=self.tenant_id,
            address=self.address,
            ms=round((time.monotonic() - self._started) * 1_000, 1),
            **traced,
        )
