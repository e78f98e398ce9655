"""uvicorn's HTTP connection, with limits on how long a request's head is and how long it takes to arrive."""

from __future__ import annotations

import asyncio
import socket
import struct
from email.utils import formatdate
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from headway.api.streams import ABORT
from headway.api.wire.bodies import ARRIVED
from headway.api.wire.problems import MEDIA_TYPE, Refused, problem_of

HEAD_S = 10.0
"""How long a request's line and headers may take to arrive; the body has a time of its own."""
LARGEST_HEAD = 65_536
MOST_DISCARDED = 16 * 2**20
"""Bytes of a body that are thrown away after its request was refused. Many clients read an answer only when they have
sent everything; without it they would see a broken connection."""
DISCARDED_PER_S = 4 * 2**20
"""How fast a connection reads what it throws away. Reading is work, too: a refusal has to cost less than what was asked
for, also of clients that never stop."""
_NOT_HTTP = "this is not HTTP/1.1, or not unambiguously so"
_TOO_LONG = f"the head of the request is longer than {LARGEST_HEAD:,} bytes"
_MOST_JOINED = 65_536
_NO_LINGER = struct.pack("ii", 1, 0)


class Connection(HttpToolsProtocol):
    """Closes connections that send a head bit by bit, or without end, or a body that nobody reads any more: each would
    hold a connection forever."""

    _in_head = True  # a request's head has not arrived completely; at first none has
    _received = 0  # bytes of that head
    _in_body = False  # a request's body has not arrived completely
    _discarded = 0  # bytes of that body, since its request was answered
    _offers_upgrade = False  # the head that has just arrived would like to go on in another protocol
    _may_be_too_long = False  # what has just arrived may complete a head that is
    _refused = False  # what came is not HTTP, and nothing after it is read; an earlier request is being answered
    _deadline: asyncio.TimerHandle | None = None
    _answering: RequestResponseCycle | None = None  # uvicorn's `cycle` is the last that came, and may wait for its turn

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport: Any = _JoinedWrites(transport, self.loop)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return  # over TLS the client goes on sending until it is told
        self._may_be_too_long = self._received + len(data) > LARGEST_HEAD
        self._unset_keepalive_if_required()
        self._parse(data)
        if self.transport.is_closing():
            self._cancel_deadline()
        elif self._in_head:
            self._received += len(data)
            if self._received > LARGEST_HEAD:
                self.send_400_response(_TOO_LONG)
            else:
                self._set_deadline()
        elif self.cycle is None or not self.cycle.response_complete:
            self._cancel_deadline()
        elif self._in_body:
            self._discarded += len(data)
            if self._discarded > MOST_DISCARDED:
                self.transport.close()
            else:
                self._set_deadline()
                self.flow.pause_reading()
                self.loop.call_later(len(data) / DISCARDED_PER_S, self._read_on)
        else:
            # the rest of a refused body, or an empty line: uvicorn has stopped its timer, and would not start it again
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _parse(self, data: bytes) -> None:
        """As uvicorn does it, but for offers to go on in another protocol, such as Java's client makes with each of its
        requests (`Upgrade: h2c`): the parser would skip the body, and take it for the next request."""
        try:
            while True:
                try:
                    return self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as offer:
                    data = self._head_without_offer() + data[offer.args[0] :]
                    self.parser = httptools.HttpRequestParser(self)
                    self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        except httptools.HttpParserError:
            self.send_400_response(_NOT_HTTP)

    def _head_without_offer(self) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":  # which is one by itself
            raise httptools.HttpParserError
        kept = [b"%s: %s\r\n" % each for each in self.headers if each[0] != b"upgrade"]
        version = self.parser.get_http_version().encode()
        return b"%s %s HTTP/%s\r\n%s\r\n" % (method, self.url, version, b"".join(kept))

    def on_message_begin(self) -> None:
        self._in_head, self._received = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self._may_be_too_long and self._head_size() > LARGEST_HEAD:
            raise ValueError(_TOO_LONG)  # which ends the parsing, and the connection: see `send_400_response`
        if sum(name == b"host" for name, _ in self.headers) > 1:
            raise ValueError(_NOT_HTTP)  # a proxy may have believed the other one
        self._offers_upgrade = self.parser.should_upgrade()
        if self._offers_upgrade:
            return
        self._in_head, self._in_body, self._discarded = False, True, 0
        self.scope[ABORT] = self._abort  # type: ignore[literal-required]
        # workers measure their lease from it: uvicorn's own is a second old, and older on a busy machine
        date = formatdate(usegmt=True).encode()
        self.server_state.default_headers = [(b"date", date), *self.config.encoded_headers]
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        if self._offers_upgrade:
            return
        self._in_body = False
        self._cancel_deadline()
        super().on_message_complete()
        if self.scope is not None:
            self.scope[ARRIVED] = True  # type: ignore[literal-required]

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered as every other bad request is. Requests before it are answered first, and then
        the connection ends: their clients would take this for the answer to what was done."""
        self._cancel_deadline()
        if self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body):
            self.cycle.keep_alive = False
            self._refused = True
            return
        if self._may_be_too_long and self._in_head and self._head_size() > LARGEST_HEAD:
            msg = _TOO_LONG
        body = msgspec.json.encode(problem_of(Refused(400, msg), "")[0])
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[400] + head.encode() + body)
        self.transport.close()

    def _abort(self) -> None:
        """End the connection at once; what the client has not read is lost."""
        found = self.transport.get_extra_info("socket")
        if found is not None:  # a reset: else the system keeps what was sent for minutes, megabytes of it
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _too_late(self) -> None:
        self._deadline = None
        if self.cycle is not None and not self.cycle.response_complete:
            # an earlier request of this connection is still being answered
            self._deadline = self.loop.call_later(HEAD_S, self._too_late)
        else:
            self.transport.close()

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _set_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self._too_late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _JoinedWrites:
    """A transport that sends what is written within one turn of the event loop at once: an answer's head and body are
    one packet. Sent apart, they would cost the server and its client as much time as decoding the request."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, part: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(part)
        self._size += len(part)
        if self._size > _MOST_JOINED:  # the transport tells its writers to pause, once it has that much
            self._flush()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts, self._size = self._parts, [], 0
            if not self._transport.is_closing():
                self._transport.write(b"".join(parts))
