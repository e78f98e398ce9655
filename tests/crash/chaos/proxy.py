"""A TCP proxy before PostgreSQL that loses replies: the server has done what it was asked, and nobody hears of it."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path


class Proxy:
    """Listens on a port of its own and passes everything on to a server's socket, until it is told to lose replies."""

    def __init__(self, folder: Path, *, swallows: bool) -> None:
        self._server = next(path for path in folder.glob(".s.PGSQL.*") if path.suffix != ".lock")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.chance = 0.0  # how likely a reply is lost
        self.lost = 0
        self._swallows = swallows  # the connection stays open then, as if nobody had asked; else it breaks
        self._random = random.Random(7)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                for source, target, replies in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, target, replies), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, replies: bool) -> None:
        began = time.monotonic()
        with suppress(OSError):
            while data := source.recv(65_536):
                # not while a session begins: that is a refused connection, and another experiment
                if replies and time.monotonic() > began + 0.3 and self._random.random() < self.chance:
                    self.lost += 1
                    if self._swallows:
                        continue
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
