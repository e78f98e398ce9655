"""GuardedNetwork: the only way a connector opens a socket. A name is resolved once, every address of it is checked, and
the connection is made to a checked address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore2

from headway.connectors.addresses import Network, check

_MOST_TRIED = 8
"""How many addresses of one name are tried. All are checked, but a hostile DNS answer must not make one job try
thousands."""


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens the connections of `httpcore2`. TLS and the Host header still use the name: only the address is fixed
    here."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Raises `Denied` before any socket is opened, and what the network raises."""
        addresses = check(host, await _resolved(host, port), self._allowed)[:_MOST_TRIED]
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise NotImplementedError("connectors reach no sockets of this machine")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


async def _resolved(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # with its zone, so that the check sees one
    return list(dict.fromkeys(str(each[4][0]) for each in found))
