"""Requests that enqueue at the same time: stored together, and each with its own answer or error."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx2 as httpx

from headway import Headway
from headway.api import Api
from headway.api.enqueues import _AT_ONCE
from headway.app.verbs import Verbs
from headway.artifacts.folder import Folder
from headway.errors import QueueFull, StoreUnavailable
from headway.model.ids import new_id
from headway.model.job import NewJob

WELCOME = {"kind": "welcome", "payload": {"user_id": 7}}


def at_once(
    api: Api, loop: asyncio.AbstractEventLoop, key: str, bodies: list[dict[str, Any]], *, twice: bool = False
) -> list[httpx.Response]:
    async def client(http: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
        said = await http.post("/api/v1/jobs", json=body)
        return await http.post("/api/v1/jobs", json=body) if twice else said

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {key}"},
        ) as http:
            return await asyncio.gather(*(client(http, body) for body in bodies))

    return loop.run_until_complete(asyncio.wait_for(run(), 60))


def counted(monkeypatch: Any) -> list[int]:
    """How many jobs each transaction stores from now on."""
    sizes: list[int] = []
    enqueue_many = Verbs.aenqueue_many

    async def count(self: Verbs, jobs: list[Any], **options: Any) -> Any:
        sizes.append(len(jobs))
        return await enqueue_many(self, jobs, **options)

    monkeypatch.setattr(Verbs, "aenqueue_many", count)
    return sizes


def test_each_of_many_has_its_own_answer(
    app: Headway,
    api: Api,
    loop: asyncio.AbstractEventLoop,
    keys: dict[str, str],
    monkeypatch: Any,
) -> None:
    sizes = counted(monkeypatch)
    enqueue_many = Verbs.aenqueue_many
    bodies: list[dict[str, Any]] = [{**WELCOME, "priority": n, "delay": "1h" if n % 3 == 0 else 0} for n in range(20)]
    bodies[5]["payload"] = {"user_id": "seven"}  # not valid: it gets no further than the definition's schema
    answers = at_once(api, loop, keys["producer"], bodies, twice=True)
    assert [said.status_code for said in answers] == [422 if n == 5 else 201 for n in range(20)]
    assert max(sizes) > 1, "they were stored one by one"
    ids = [said.json()["id"] for n, said in enumerate(answers) if n != 5]
    assert len(set(ids)) == 19
    stored = {job.id: job for job in app.jobs(ids=ids, limit=100)}
    for n, said in enumerate(answers):
        if n != 5:
            job, shown = stored[said.json()["id"]], said.json()
            assert (job.priority, job.status) == (n, "scheduled" if n % 3 == 0 else "queued")
            assert (shown["status"], shown["tenant_id"]) == (job.status, job.tenant_id)
            assert (shown["queued_at"] is None) == (n % 3 == 0)

    # one is refused by the database: the others are stored, and it gets its own answer
    async def refusing(self: Verbs, jobs: list[Any], **options: Any) -> Any:
        if any(job.priority == 3 for job in jobs):
            raise QueueFull("full")
        return await enqueue_many(self, jobs, **options)

    sizes.clear()
    monkeypatch.setattr(Verbs, "aenqueue_many", refusing)
    answers = at_once(api, loop, keys["producer"], [{**WELCOME, "priority": n} for n in range(10)])
    assert [said.status_code for said in answers] == [429 if n == 3 else 201 for n in range(10)]
    assert len({said.json()["id"] for n, said in enumerate(answers) if n != 3}) == 9

    async def away(self: Verbs, jobs: list[Any], **options: Any) -> Any:
        raise StoreUnavailable("away")

    # the jobs may have been stored: nothing is tried again
    sizes.clear()
    monkeypatch.setattr(Verbs, "aenqueue_many", away)
    assert {said.status_code for said in at_once(api, loop, keys["producer"], [WELCOME] * 5)} == {503}
    assert api._parts.enqueues._lanes == {}


def test_requests_that_come_shortly_after_one_another_share_a_transaction(
    app: Headway, api: Api, loop: asyncio.AbstractEventLoop, keys: dict[str, str], monkeypatch: Any
) -> None:
    """The first of clients that were answered together must not get a transaction of its own."""
    sizes = counted(monkeypatch)
    acme = app.tenant("acme")

    async def one(passes: int) -> None:
        for _ in range(passes):
            await asyncio.sleep(0)
        await api._parts.enqueues.enqueue(acme, NewJob(id=new_id(), kind="welcome"), None)

    async def run() -> None:
        await asyncio.gather(*map(one, range(20)))

    loop.run_until_complete(asyncio.wait_for(run(), 60))
    assert sizes == [20]


def test_payloads_on_their_way_to_a_slow_object_store_keep_no_small_job_waiting(
    app: Headway, api: Api, loop: asyncio.AbstractEventLoop, keys: dict[str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    app.configure(artifacts=str(tmp_path / "artifacts"), payload_limit=1_000)

    @app.job(spill=True)
    def large(text: str) -> None: ...

    app.run("none", until_idle=True)  # declares it
    answers, writing = threading.Event(), threading.Semaphore(0)
    write = Folder.write

    def wait(*given: Any) -> Any:
        writing.release()
        answers.wait(20)
        return write(*given)

    monkeypatch.setattr(Folder, "write", wait)

    async def run() -> list[int]:
        headers = {"Authorization": f"Bearer {keys['producer']}"}
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
            slow = []
            for _ in range(_AT_ONCE[app.store.dialect]):
                body = {"kind": "large", "payload": {"text": "x" * 2_000}}
                slow.append(asyncio.create_task(http.post("/api/v1/jobs", json=body)))
                assert await asyncio.to_thread(writing.acquire, timeout=20)
            quick = await asyncio.wait_for(http.post("/api/v1/jobs", json=WELCOME), 10)
            answers.set()
            return [said.status_code for said in (quick, *await asyncio.gather(*slow))]

    assert set(loop.run_until_complete(run())) == {201}
