"""A server on loopback that answers as a test says and keeps what it was asked, in a thread."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2


@dataclass
class Asked:
    """One request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    closed: threading.Event = field(default_factory=threading.Event)  # the client has hung up


def answer(status: int = 200, body: bytes | str = b"", **headers: str) -> bytes:
    body = body.encode() if isinstance(body, str) else body
    given = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} Some\r\n{head}\r\n".encode() + body


Script = Callable[[Asked], bytes | Iterator[bytes] | None]


class Server:
    """`script(asked)` gives the answer, or its parts as they come; None: it waits until the client hangs up."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.asked: list[Asked] = []
        self.sni: list[str | None] = []
        self.came = threading.Semaphore(0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        if tls is not None:
            tls.sni_callback = lambda _sock, name, _context: self.sni.append(name)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        # shutdown wakes the accept
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(conn,), daemon=True).start()

    def _talk(self, conn: socket.socket) -> None:
        try:
            with conn if self._tls is None else self._tls.wrap_socket(conn, server_side=True) as talk:
                asked = _read(talk)
                self.asked.append(asked)
                self.came.release()
                said = self._script(asked)
                if said is not None:
                    for part in (said,) if isinstance(said, bytes) else said:
                        talk.sendall(part)
                    return
                while talk.recv(1_024):
                    pass
                asked.closed.set()
        except (OSError, httpx2.TransportError):
            pass  # whoever asked has gone, or the server behind this one


def _read(conn: Any) -> Asked:
    data = b""
    while b"\r\n\r\n" not in data:
        data += conn.recv(65_536) or b"\r\n\r\n"
    if data == b"\r\n\r\n":
        raise ConnectionError("it hung up before it asked")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += conn.recv(65_536)
    return Asked(method, target, headers, body)


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(script, tls)
    try:
        yield server
    finally:
        server.close()
