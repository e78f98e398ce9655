"""HTTP by hand, so that a client takes little of the cores that it shares with the server."""

from __future__ import annotations

import asyncio
from typing import Any


class Connection(asyncio.Protocol):
    """One connection, kept alive. An answer has a length: streams are read by `listen`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._received = bytearray()
        self._length = -1
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: Any = None

    async def ask(self, method: str, path: str, headers: str, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the body; connects where it is not."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        self._received.clear()
        self._length = -1
        self._answer = loop.create_future()
        about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}{about}\r\n"
        self._transport.write(head.encode() + body)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._length < 0:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            said = head.partition(b"content-length: ")[2].partition(b"\r")[0]
            self._length = end + 4 + int(said or 0)
            self._head = end + 4
        if len(self._received) >= self._length and self._answer is not None and not self._answer.done():
            status = int(self._received[9:12])
            self._answer.set_result((status, bytes(self._received[self._head : self._length])))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))


async def listen(port: int, path: str, headers: str) -> None:
    """Read a stream until it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode())
        while await reader.read(65_536):
            pass
    finally:
        writer.close()
