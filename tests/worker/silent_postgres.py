"""A wire to PostgreSQL that can swallow the answer to one statement while the connection stays open."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import psycopg


class Wire:
    """Passes on what both sides say. It gives out keys for cancelling of its own, as poolers do: nothing is prepared,
    and every statement can be seen by its text."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._silence: bytes | None = None
        self.swallowed = threading.Event()

    def swallow(self, text: str) -> None:
        """Once: of the next statement with this text, no answer comes through, nor anything after it."""
        self.swallowed.clear()
        self._silence = text.encode()

    def serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = self._connect()
                deaf = threading.Event()
                threading.Thread(target=self._ask, args=(client, server, deaf), daemon=True).start()
                threading.Thread(target=_answer, args=(server, client, deaf), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def _ask(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := client.recv(65_536):
                if self._silence is not None and self._silence in chunk:
                    self._silence = None
                    deaf.set()
                    self.swallowed.set()
                server.sendall(chunk)
        _hang_up(client, server)


def _answer(server: socket.socket, client: socket.socket, deaf: threading.Event) -> None:
    with contextlib.suppress(OSError, struct.error):
        stream = server.makefile("rb")
        kind = b""
        while kind != b"K":
            kind, length = stream.read(1), stream.read(4)
            body = stream.read(struct.unpack("!I", length)[0] - 4)
            if kind == b"K":
                body = struct.pack("!i", struct.unpack("!i", body[:4])[0] + 1) + body[4:]
            client.sendall(kind + length + body)
        while chunk := stream.read1():
            if not deaf.is_set():
                client.sendall(chunk)
    if not deaf.is_set():
        _hang_up(client, server)


def _hang_up(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@contextlib.contextmanager
def wired(url: str) -> Iterator[tuple[str, Wire]]:
    """The URL of the same database through a wire, and that wire."""
    with psycopg.connect(url) as conn:
        where = conn.info.get_parameters() | {"password": conn.info.password or None}
        host, port = conn.info.host, conn.info.port
    wire = Wire(host, port)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=wire.serve, args=(listener,), daemon=True).start()
        own = {"host": "127.0.0.1", "port": listener.getsockname()[1], "sslmode": "disable", "gssencmode": "disable"}
        yield psycopg.conninfo.make_conninfo(**where | own), wire
