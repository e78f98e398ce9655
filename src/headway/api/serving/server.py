"""Runs the API behind uvicorn: on a socket, until a signal; then what is under way may finish."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import os
import socket
import ssl
import sys
from collections.abc import Sequence
from math import ceil
from typing import Any

import uvicorn

from headway.api.application import Api
from headway.api.serving.acceptor import Acceptor, Shares
from headway.api.serving.connection import HEAD_S, Connection
from headway.api.serving.settings import ServerSettings
from headway.errors import ConfigError
from headway.logs import get_logger, join_lines
from headway.worker import stopped_by_signals, stopped_with_supervisor

_log = get_logger("headway.api")
_BACKLOG = 2_048
_GOODBYE_S = 5.0  # over TLS, for the client to answer the end of a connection: one that keeps it for later does not
_WHY = {
    errno.EADDRINUSE: "another program listens there: stop it, or choose another --port",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "that port is for root: choose one from 1024",
}
_SWITCH_S = 0.001  # how long a thread that does large work keeps the event loop waiting for the interpreter
_GARBAGE = (10_000, 20, 100)
"""How rarely cycles are looked for. A look at all objects holds up every request for 20 to 50 ms while large lists are
answered, and by default one comes with each of these."""
_M_ARENA_MAX = -8  # of malloc.h


def serve(api: Api, listener: socket.socket, *, grace_s: float, shares: Shares | None = None) -> None:
    """Serve until SIGTERM or SIGINT; requests that are under way then have `grace_s` to finish. `shares` is for one of
    several processes that listen on the socket."""
    settings = api.settings
    config = uvicorn.Config(
        api,
        root_path=settings.root_path,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        log_config=None,
        access_log=False,  # the API writes its own, with key and request id
        server_header=False,
        timeout_graceful_shutdown=ceil(grace_s),
        http=Connection,
        ws="none",
    )
    join_lines()
    _use_one_heap()
    sys.setswitchinterval(_SWITCH_S)
    _Server(config, api, shares or Shares.alone()).run(sockets=[listener])


def _collect_rarely() -> None:
    gc.freeze()  # what was imported stays: looking through it again and again takes a twentieth of a busy server
    if 0 < gc.get_threshold()[0] < _GARBAGE[0]:  # else the application has set its own
        gc.set_threshold(*_GARBAGE)


def _use_one_heap() -> None:
    """glibc gives each thread a heap of its own, and what is freed in one is of no use to the others: with 50 tabs
    open, the threads that read from a SQLite file made a server grow by 90 MiB in three minutes."""
    try:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return  # another C library


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises `ConfigError`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = _WHY.get(error.errno or 0) or error.strerror or str(error)
        raise ConfigError(f"cannot listen on {host}, port {port}: {reason}") from None


def check_certificate(settings: ServerSettings) -> None:
    """Raise `ConfigError` for a certificate that cannot be used."""
    if settings.tls_cert is None and settings.tls_key is None:
        return
    if settings.tls_cert is None or settings.tls_key is None:
        raise ConfigError("tls_cert and tls_key go together: give both")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            settings.tls_cert, settings.tls_key, password=_no_password
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificate {settings.tls_cert} and its key {settings.tls_key} cannot be used: {error}"
        ) from None


def _no_password() -> str:
    return ""  # else OpenSSL would ask on the terminal


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, api: Api, shares: Shares) -> None:
        super().__init__(config)
        self._api = api
        self._shares = shares
        self._acceptors: list[Acceptor] = []
        self._connecting: set[asyncio.Task[None]] = set()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        with stopped_by_signals(self._stop), stopped_with_supervisor(self._stop):
            await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._acceptors = [
            Acceptor(each, self._shares, connect=self._connect, count=self._count) for each in sockets or ()
        ]
        _collect_rarely()
        _log.info("ready", pid=os.getpid())

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        self._api.stopping.set()
        while self._acceptors:
            self._acceptors.pop().stop()
        await super().shutdown(list(sockets or ()))

    async def on_tick(self, counter: int) -> bool:
        for each in self._acceptors:
            each.publish()
        return await super().on_tick(counter)

    def _count(self) -> int:
        return len(self.server_state.connections) + len(self._connecting)

    def _connect(self, connection: socket.socket) -> None:
        task = asyncio.create_task(self._talk(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _talk(self, connection: socket.socket) -> None:
        tls: dict[str, Any] = {}
        if self.config.ssl is not None:
            tls = {"ssl": self.config.ssl, "ssl_handshake_timeout": HEAD_S, "ssl_shutdown_timeout": _GOODBYE_S}
        protocol = Connection(self.config, self.server_state, self.lifespan.state)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection, **tls)
        except OSError:  # it went away, or does not speak TLS
            connection.close()
            return
        if self._api.stopping.is_set():  # those that were connected before have been told
            protocol.shutdown()

    def _stop(self) -> None:
        self.force_exit = self.should_exit  # a second signal ends it at once
        self.should_exit = True
