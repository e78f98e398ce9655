"""An app that enqueues where it also works: a plain job begins with the commit of its enqueue, all others as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import Headway
from headway.model.job import Enqueued

Enqueue = Callable[[Headway, Any], Awaitable[Enqueued]]


async def _in_thread(app: Headway, kind: Any) -> Enqueued:
    return await asyncio.to_thread(kind.enqueue, 1)


async def _on_the_loop(app: Headway, kind: Any) -> Enqueued:
    return await kind.aenqueue(1)


async def _by_name(app: Headway, kind: Any) -> Enqueued:
    return await app.aenqueue("works", {"number": 1})


async def _of_another_tenant(app: Headway, kind: Any) -> Enqueued:
    return await app.aenqueue("works", {"number": 1}, tenant="acme")


async def _for_one_tenant(app: Headway, kind: Any) -> Enqueued:
    return await app.tenant("default").aenqueue("works", {"number": 1})


async def _with_a_key(app: Headway, kind: Any) -> Enqueued:
    return await kind.using(unique_key="k").aenqueue(1)


async def _many(app: Headway, kind: Any) -> Enqueued:
    return (await app.aenqueue_many([kind.build(1)]))[0]


@pytest.mark.parametrize(
    ("enqueue", "handed"),
    [
        (_in_thread, True),
        (_on_the_loop, True),
        (_by_name, True),
        (_many, True),
        (_of_another_tenant, False),
        (_for_one_tenant, False),
        (_with_a_key, False),
    ],
)
def test_a_job_enqueued_beside_an_idle_worker_runs_once(url: str, enqueue: Enqueue, handed: bool) -> None:
    app = Headway(url, pace="1h", idle_pace="1h")  # a claim that is on its way has all the slots: it looks once
    ran = asyncio.Event()

    @app.job
    async def works(number: int) -> int:
        ran.set()
        return number

    async def story() -> Enqueued:
        working = asyncio.create_task(app.arun())
        while not app._wake._keepers:
            await asyncio.sleep(0.005)
        fetcher = app._wake._keepers[0].__self__  # type: ignore[attr-defined]
        while not fetcher._lanes["default"].poll_at or fetcher._slots.asked:
            await asyncio.sleep(0.005)
        enqueued = await enqueue(app, works)
        async with asyncio.timeout(20):
            await ran.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await app.aclose()
        return enqueued

    enqueued = asyncio.run(story())
    assert (enqueued.status, enqueued.created) == ("queued", True)
    job = app.get(enqueued.id)
    assert (job.status, job.fence, len(app.attempts(job.id))) == ("succeeded", 1, 1)
    assert (job.queued_at == job.started_at) == handed
    app.close()
