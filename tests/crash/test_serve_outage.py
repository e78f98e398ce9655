"""The HTTP API while its database dies, hangs, is read-only or is migrated: 503, nothing lost, itself again after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import psycopg

from headway import Headway
from headway.api import Api
from headway.store import migrate
from tests.crash.crash_site import CrashSite, Server

ASKERS = 4


class Asker:
    """Enqueues over HTTP without a pause, and keeps what it was answered."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.statuses: list[int] = []
        self.made: list[str] = []

    async def ask(self) -> int:
        said = await self._client.post("/api/v1/jobs", json={"kind": "work", "payload": {}})
        self.statuses.append(said.status_code)
        if said.status_code == 201:
            self.made.append(said.json()["id"])
        else:
            assert said.headers["retry-after"] == "1", said.text
            assert "postgresql://" not in said.text
        return int(said.status_code)

    async def until(self, status: int) -> None:
        while await self.ask() != status:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def asking(app: Headway) -> AsyncIterator[list[Asker]]:
    key = app.tenant("acme").create_api_key("shop", "operator").text
    api = Api(app)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=api), base_url="http://127.0.0.1", headers=headers, timeout=180
    ) as client:
        yield [Asker(client) for _ in range(ASKERS)]
    await api.aclose()
    await app.aclose()


def run(site: CrashSite, test: Callable[[list[Asker], Headway], Awaitable[None]]) -> None:
    """Run the test; afterwards every job that was answered 201 is there, and no other answer was given than 503."""
    app = Headway(site.url)
    app.store.run(app.store.ops.declare(site.app._declaration(site.app.store.run(site.app.store.ops.now()))))
    migrate.roles(app.store)

    async def go() -> list[Asker]:
        async with asking(app) as askers:
            await asyncio.gather(*(each.until(201) for each in askers))
            await test(askers, app)
            await asyncio.gather(*(each.until(201) for each in askers))
        return askers

    askers = asyncio.run(go())
    app.close()
    assert {status for each in askers for status in each.statuses} == {201, 503}
    made = [each for asker in askers for each in asker.made]
    assert set(made) <= site.rows.jobs().keys()


def test_a_database_that_dies_loses_nothing_that_was_answered(durable_server: Server, postgres_site: CrashSite) -> None:
    async def dies(askers: list[Asker], app: Headway) -> None:
        under_way = [asyncio.create_task(each.until(503)) for each in askers]
        await asyncio.to_thread(durable_server.stop, "immediate")
        try:
            await asyncio.gather(*under_way)
        finally:
            await asyncio.to_thread(durable_server.start)

    run(postgres_site, dies)


def test_a_database_that_hangs_is_noticed(durable_server: Server, postgres_site: CrashSite) -> None:
    async def hangs(askers: list[Asker], app: Headway) -> None:
        with durable_server.frozen():
            # far sooner than a write may take: the first ones are ended, the next ones refused at once
            async with asyncio.timeout(app.settings.database_timeout_ms / 2_000):
                for _ in range(2):
                    assert {await each for each in [asyncio.create_task(each.ask()) for each in askers]} == {503}

    run(postgres_site, hangs)


def test_a_database_that_is_read_only_or_migrated(postgres_site: CrashSite) -> None:
    async def changes(askers: list[Asker], app: Headway) -> None:
        name = urlsplit(postgres_site.url).path[1:]
        with psycopg.connect(postgres_site.url, autocommit=True) as owner:
            owner.execute(f"alter database {name} set default_transaction_read_only = on")
            await app.store.aclose()  # sessions that begin now
            assert [await each.ask() for each in askers] == [503] * ASKERS
            owner.execute(f"alter database {name} reset default_transaction_read_only")
            await app.store.aclose()
            before: Any = [each.made[-1] for each in askers]
            for each in askers:
                await each.ask()
            owner.execute("comment on table headway.jobs is 'headway schema version 1 functions 0123'")
            done = await asyncio.to_thread(migrate.apply, Headway(postgres_site.url).store, None)
            assert done == ["install the functions"]
            assert [await each.ask() for each in askers] == [201] * ASKERS, "the functions are new, and found"
            assert before != [each.made[-1] for each in askers]

    run(postgres_site, changes)
