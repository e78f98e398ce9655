"""Several processes listen on one socket: each gets its share of the connections, and none is left waiting."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any

import uvicorn

from headway import Headway
from headway.api import Api
from headway.api.serving import acceptor, connection
from headway.api.serving.acceptor import Acceptor, Shares
from headway.api.serving.server import _Server


class Listener(socket.socket):
    """Counts the tries; the first ones can fail."""

    failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


def accepted(shares: Shares, *, failures: int = 0) -> int:
    """How many of a burst of 20 connections this process took, while nobody else did."""

    async def run() -> int:
        listener = Listener()
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        taken: list[socket.socket] = []
        listener.failures = failures
        found = Acceptor(listener, shares, connect=taken.append, count=lambda: len(taken))
        clients = [socket.create_connection(listener.getsockname()) for _ in range(20)]
        async with asyncio.timeout(30):
            while len(taken) < 20:
                await asyncio.sleep(0.001)
        found.stop()
        for each in (*clients, *taken, listener):
            each.close()
        return len(taken)

    return asyncio.run(run())


def test_a_process_that_is_ahead_leaves_the_next_connections_to_others() -> None:
    with Shares.file(2) as file:
        shares, other = Shares.inherited(file.fileno(), 0), Shares.inherited(file.fileno(), 1)
        assert not shares.is_ahead()
        shares.set(acceptor._LEAD)
        assert (shares.is_ahead(), other.is_ahead()) == (True, False)
        other.set(1)
        assert not shares.is_ahead()
        Shares.inherited(file.fileno(), 0)
        assert not shares.is_ahead(), "a process that is started again has none"


def test_connections_are_taken_though_the_other_process_takes_none() -> None:
    with Shares.file(2) as file:
        other = Shares.inherited(file.fileno(), 1)
        assert accepted(Shares.inherited(file.fileno(), 0)) == 20
        other.set(1_000)
        assert not other.is_ahead(), "nobody waits for one that has stopped"


def test_it_goes_on_when_it_has_files_again() -> None:
    with Shares.file(1) as file:
        assert accepted(Shares.inherited(file.fileno(), 0), failures=3) == 20


def test_a_connection_that_comes_while_the_server_stops_is_closed(sqlite_migrated_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 3_600.0)  # else it would be closed for its silence
    app = Headway(f"sqlite:///{sqlite_migrated_path}")
    api = Api(app)
    server = _Server(uvicorn.Config(api, http=connection.Connection, log_config=None), api, Shares.alone())

    async def stop() -> bytes:
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        running = asyncio.create_task(server._serve([socket.create_server(("127.0.0.1", 0))]))
        while not server.started:
            await asyncio.sleep(0.001)
        api.stopping.set()
        server._connect(ours)
        closed = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 100), 20)
        server.should_exit = True
        await running
        theirs.close()
        return closed

    assert asyncio.run(stop()) == b""
    app.close()
