"""Workers with patterns and an order of queues, and what operators change of a live one, on both stores."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway import Headway
from headway.errors import ConfigError, NotAllowed, NotFound

BRISK = {"lease": "3s", "heartbeat": "100ms", "promote_every": "50ms", "hints": False}


@pytest.fixture
def app(url: str) -> Iterator[Headway]:
    app = Headway(url, **BRISK)
    yield app
    app.close()


@pytest.fixture
def ran(app: Headway) -> list[str]:
    """The queues of the jobs that ran, in order."""
    found: list[str] = []

    @app.job
    def work(queue: str) -> None:
        found.append(queue)

    return found


def enqueue(app: Headway, **counts: int) -> None:
    for queue, count in counts.items():
        app.enqueue_many([app.kinds["work"].using(queue=queue).build(queue=queue) for _ in range(count)])


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def working(app: Headway, *args: Any, **options: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(app.arun(*args, **options))
    try:
        await until(app.workers)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_patterns_take_the_queues_that_exist(app: Headway, ran: list[str]) -> None:
    enqueue(app, mail=2, report_eu=2, report_us=1, other=1)
    app.run(["mail", "report_*"], until_idle=True)
    assert Counter(ran) == {"mail": 2, "report_eu": 2, "report_us": 1}
    app.run("*", until_idle=True)
    assert Counter(ran)["other"] == 1


def test_a_strict_order_ends_the_first_queue_first(app: Headway, ran: list[str]) -> None:
    enqueue(app, low=20, high_a=20, high_b=5)
    app.run(["high_*", "low"], concurrency=2, order="strict", until_idle=True)
    assert ran[25:] == ["low"] * 20
    assert set(ran[:25]) == {"high_a", "high_b"}


def test_weights_share_the_slots(app: Headway, ran: list[str]) -> None:
    enqueue(app, mail=90, report_eu=40)
    app.run(["mail", "report_*"], concurrency=1, order={"mail": 3}, until_idle=True)
    assert abs(ran[:80].count("mail") - 60) <= 5
    assert len(ran) == 130


def test_an_entry_has_its_slots_for_all_its_queues_together(app: Headway) -> None:
    most: Counter[str] = Counter()
    now: Counter[str] = Counter()

    @app.job
    async def work(queue: str) -> None:
        group = queue[0]
        now[group] += 1
        most[group] = max(most[group], now[group])
        await asyncio.sleep(0.01)
        now[group] -= 1

    enqueue(app, a1=10, a2=10, b=10)
    summary = app.run({"a*": 2, "b": 3}, until_idle=True)
    assert summary.succeeded == 30
    assert (most["a"], most["b"]) == (2, 3)


def test_a_new_queue_is_picked_up_by_a_running_worker(app: Headway, ran: list[str], url: str) -> None:
    asyncio.run(_a_new_queue_is_picked_up_by_a_running_worker(app, ran, url))


async def _a_new_queue_is_picked_up_by_a_running_worker(app: Headway, ran: list[str], url: str) -> None:
    other = Headway(url, hints=False, strict_kinds=False)  # nobody in the worker's process knows of its jobs
    async with working(app, "report_*"):
        await other.aenqueue("work", {"queue": "report_new"}, queue="report_new")
        await until(lambda: ran == ["report_new"])
        await until(lambda: app.workers()[0].queues == {"report_new": 20})
        app.enqueue("work", {"queue": "report_here"}, queue="report_here")  # by itself, it knows at once
        await until(lambda: len(ran) == 2)
    other.close()


def test_a_live_worker_is_given_other_queues_and_slots(app: Headway) -> None:
    asyncio.run(_a_live_worker_is_given_other_queues_and_slots(app))


async def _a_live_worker_is_given_other_queues_and_slots(app: Headway) -> None:
    gate = asyncio.Event()
    ran: list[str] = []

    @app.job
    async def work(queue: str) -> None:
        ran.append(queue)
        await gate.wait()

    enqueue(app, a=1)
    async with working(app, ["a"], concurrency=4):
        await until(lambda: ran == ["a"])
        (worker,) = app.workers()
        app.set_worker(worker.id, queues="b")  # also where no pattern has to be looked up
        await until(lambda: app.workers()[0].queues == {"b": 4})
        app.set_worker(worker.id, queues={"b": 2, "c*": 1}, actor="ann")
        await until(lambda: app.workers()[0].queues == {"b": 2} and app.workers()[0].concurrency == 3)
        enqueue(app, a=1, b=5, c1=5)
        # the dropped queue's job runs on in a slot: two are left
        await until(lambda: len(ran) == 3)
        app.set_worker(worker.id, concurrency=6)
        await until(lambda: app.workers()[0].concurrency == 6 and len(ran) == 4)
        assert sorted(ran) == ["a", "b", "b", "c1"]
        assert app.workers()[0].wanted["total"] == 6
        gate.set()
        await until(lambda: len(ran) == 11)
        assert app.counts()["queued"] == 1  # of the queue that it does not serve any more
        await until(lambda: app.counts().get("succeeded") == 11)


def test_what_cannot_be_set_is_refused(app: Headway) -> None:
    nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
    with pytest.raises(NotFound, match=f"there is no worker {nobody}"):
        app.set_worker(nobody, concurrency=3)
    with pytest.raises(ConfigError, match="what to change"):
        app.set_worker(nobody)
    with pytest.raises(ConfigError, match="concurrency=0 must be"):
        app.set_worker(nobody, concurrency=0)
    with pytest.raises(NotAllowed, match="workers are shared by all tenants"):
        app.tenant("acme").set_worker(nobody, concurrency=3)


def test_by_strict_order_the_next_car_of_a_later_queue_waits_for_an_earlier_queue(app: Headway) -> None:
    ran = []

    @app.job
    def work(name: str) -> None:
        ran.append(name)
        if name == "first car":
            work.using(queue="early").enqueue("urgent")

    for name in ("first car", "second car"):
        work.using(queue="late", train="t").enqueue(name)
    app.run(queues=["early", "late"], order="strict", concurrency=1, until_idle=True)
    assert ran == ["first car", "urgent", "second car"]
