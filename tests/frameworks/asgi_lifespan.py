"""An ASGI server's part of the lifespan protocol, and requests to the application meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2


@asynccontextmanager
async def served(site: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Start the application as a server does, send it requests, shut it down; raises what it fails with."""
    inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    outbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    life = asyncio.create_task(site(scope, inbox.get, outbox.put))
    inbox.put_nowait({"type": "lifespan.startup"})
    assert await outbox.get() == {"type": "lifespan.startup.complete"}
    transport = httpx2.ASGITransport(app=site, raise_app_exceptions=False)
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client
    finally:
        inbox.put_nowait({"type": "lifespan.shutdown"})
        assert await outbox.get() == {"type": "lifespan.shutdown.complete"}
        await life
