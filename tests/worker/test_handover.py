"""Jobs enqueued in the process of a worker that has a slot: handed over as claimed, in order, within its slots."""

from __future__ import annotations

import asyncio
import random
import threading
import time

from handing import SELDOM, give, once, ready
from workshop import Workshop

from headway import Context, Done, Machine, step
from headway.model.job import NewJob
from headway.worker import Summary
from headway.worker.errand import Errand
from headway.worker.handover import hand_over


def test_a_job_is_handed_over_to_an_idle_worker_without_a_claim(shop: Workshop) -> None:
    ran: list[int] = []

    @shop.job
    async def works(number: int) -> None:
        ran.append(number)

    worker = shop.worker(settings=SELDOM)

    async def story() -> str:
        await ready(shop, worker)
        job = works.build(1)
        assert await give(shop, job)
        await shop.until_status(job.id, "succeeded")
        return job.id

    job_id, summary = shop.while_working(worker, story)
    once(shop, job_id)
    job = shop.get(job_id)
    assert job.queued_at == job.started_at
    assert (ran, summary) == ([1], Summary(succeeded=1))


def test_a_sync_handler_gets_its_job_from_another_thread(shop: Workshop) -> None:
    @shop.job
    def works() -> str:
        return threading.current_thread().name

    worker = shop.worker(settings=SELDOM)

    async def story() -> str:
        await ready(shop, worker)
        job = works.build()
        kept = shop.wake.keep(job)
        assert kept is not None
        _, taken = await asyncio.to_thread(hand_over, shop.store, job, kept)
        assert taken
        await shop.until_status(job.id, "succeeded")
        return job.id

    job_id, _ = shop.while_working(worker, story)
    once(shop, job_id)


def test_slots_are_never_exceeded_by_threads_that_hand_over_beside_claims(shop: Workshop) -> None:
    now, most = 0, 0
    handed: list[bool] = []
    threads, each = 3, 60
    done = [threading.Event() for _ in range(threads * each)]

    @shop.job
    async def works(number: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        done[number].set()

    worker = shop.worker(queues={"default": 2})

    def enqueue_one_after_another(thread: int) -> None:
        for number in range(thread * each, thread * each + each):
            job = works.build(number)
            kept = shop.wake.keep(job) if number % 3 else None  # the others are left to be claimed
            if kept is None:
                shop.enqueue(job)
            else:
                _, taken = hand_over(shop.store, job, kept)
                handed.append(taken)
                if not taken:
                    shop.wake.poke(job.queue)
            assert done[number].wait(20)
            time.sleep(random.uniform(0, 0.005))  # so that the queue is empty at times

    async def story() -> None:
        await ready(shop, worker)
        await asyncio.gather(*(asyncio.to_thread(enqueue_one_after_another, thread) for thread in range(threads)))

    _, summary = shop.while_working(worker, story)
    assert summary == Summary(succeeded=each * threads)
    assert most == 2
    assert any(handed)
    assert worker._fetcher._slots.taken == 0


def test_without_a_free_slot_nothing_is_handed_over(shop: Workshop) -> None:
    release = asyncio.Event()

    @shop.job
    async def works() -> None:
        await release.wait()

    worker = shop.worker(queues={"default": 1, "other": 1}, concurrency=1, settings=SELDOM)

    async def story() -> list[str]:
        await ready(shop, worker)
        jobs = [works.build(), works.build(), works.using(queue="other").build()]
        assert [await give(shop, job) for job in jobs] == [True, False, False]
        assert [shop.get(job.id).status for job in jobs] == ["running", "queued", "queued"]
        release.set()
        for job in jobs:
            await shop.until_status(job.id, "succeeded")
        return [job.id for job in jobs]

    ids, _ = shop.while_working(worker, story)
    for job_id in ids:
        once(shop, job_id)


def test_only_plain_jobs_of_its_own_kinds_and_queues_are_taken(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    @shop.machine
    class Walk(Machine, version=1):
        @step
        async def start(self, ctx: Context) -> Done:
            return Done()

    worker = shop.worker(settings=SELDOM)

    async def story() -> None:
        await ready(shop, worker)
        keep = shop.wake.keep
        assert keep(works.using(queue="other").build()) is None
        assert keep(works.using(delay="1m").build()) is None
        assert keep(works.using(unique_key="k").build()) is None
        assert keep(NewJob(id="x", kind="unheard_of")) is None
        assert keep(Walk.build()) is None
        kept = keep(works.build())
        assert kept is not None
        with kept:
            pass
        worker._fetcher._lanes["default"].full = True  # others wait for slots
        assert keep(works.build()) is None

    shop.while_working(worker, story)


def test_an_errand_takes_nothing_but_its_own_job(shop: Workshop) -> None:
    release = asyncio.Event()

    @shop.job
    async def works() -> None:
        await release.wait()

    (job_id,) = shop.enqueue(works.build())
    errand = Errand(
        shop.store,
        shop.registry.kinds,
        wake=shop.wake,
        queues={"default": 2},
        job_id=job_id,
        reservation_id=None,
    )

    async def story() -> None:
        await shop.until_status(job_id, "running")
        assert shop.wake.keep(works.build()) is None
        release.set()

    shop.while_working(errand, story)


def test_until_idle_does_not_end_before_what_was_handed_over(shop: Workshop) -> None:
    ran: list[int] = []

    @shop.job
    async def follows(number: int) -> None:
        ran.append(number)

    @shop.job
    async def leads(number: int) -> None:
        await give(shop, follows.build(number))

    @shop.job
    def leads_in_thread(number: int) -> None:
        job = follows.build(number)
        kept = shop.wake.keep(job)
        if kept is None:
            shop.enqueue(job)
        else:
            hand_over(shop.store, job, kept)

    shop.enqueue(*(kind.build(number) for number in range(10) for kind in (leads, leads_in_thread)))
    assert shop.drain() == Summary(succeeded=40)
    assert sorted(ran) == sorted([*range(10), *range(10)])


def test_what_is_enqueued_behind_a_backlog_waits_its_turn(shop: Workshop) -> None:
    order: list[int] = []
    release = asyncio.Event()

    @shop.job
    async def works(number: int) -> None:
        await release.wait()
        order.append(number)

    worker = shop.worker(queues={"default": 1}, settings=SELDOM)
    shop.enqueue(*(works.build(number) for number in range(5)))

    async def story() -> None:
        await shop.until(lambda: bool(shop.wake._keepers) and worker._fetcher._slots.taken == 1)
        assert not await give(shop, works.build(5))
        release.set()
        await shop.until(lambda: len(order) == 6)

    shop.while_working(worker, story)
    assert order == [0, 1, 2, 3, 4, 5]
