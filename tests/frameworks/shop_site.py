"""A FastAPI site with a worker beside it for each database of its command line; the tests end it by a signal.

Arguments: the folder in which its jobs say that they have begun, the socket to serve on, and the URLs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

import headway
from headway import Headway


def shop(url: str, folder: Path) -> Headway:
    app = Headway(url, grace="3s")
    dialect = url.partition(":")[0]
    go = folder / "go"

    @app.job
    async def finishes() -> str:
        (folder / f"finishes {dialect}").touch()
        while not go.exists():
            await asyncio.sleep(0.01)
        return "in time"

    @app.job
    def blocks() -> str:
        (folder / f"blocks {dialect}").touch()
        while not go.exists():
            time.sleep(0.01)
        return "in time"

    @app.job
    async def lasts() -> None:
        (folder / f"lasts {dialect}").touch()
        await asyncio.sleep(3_600)

    return app


def main(folder: str, socket: str, *urls: str) -> None:
    logging.basicConfig(level="INFO")
    apps = [shop(url, Path(folder)) for url in urls]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            workers = [await stack.enter_async_context(app.working()) for app in apps]
            yield
            for worker in workers:  # all at a time, and not one after the other's grace
                worker.stop()

    site = FastAPI(lifespan=lifespan)
    for number, app in enumerate(apps):
        site.mount(f"/work{number}", headway.asgi(app))

    @site.post("/jobs/{kind}")
    async def enqueue(kind: str) -> list[str]:
        return [(await app.aenqueue(kind)).id for app in apps]

    uvicorn.run(site, uds=socket, log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
