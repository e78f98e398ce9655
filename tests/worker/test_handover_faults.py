"""What goes wrong with a hand-over, at any point: its job is never lost or run twice, and its slot comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from handing import SELDOM, Wire, give, is_still, once, ready
from workshop import FaultyStore, Workshop

from headway import Context
from headway.errors import StoreUnavailable
from headway.worker import Summary, Worker
from headway.worker.fetch import Fetcher
from headway.worker.handover import ahand_over, hand_over


def test_where_the_answer_was_lost_the_job_is_given_back_and_runs_once(shop: Workshop, lines: Any) -> None:
    @shop.job
    async def works() -> None: ...

    worker, store = shop.worker(settings=SELDOM), FaultyStore(shop.store)
    store.loses_answer = lambda _op: True

    async def story() -> str:
        await ready(shop, worker)
        job = works.build()
        with pytest.raises(StoreUnavailable):
            await give(shop, job, store)
        await shop.until_status(job.id, "succeeded")
        return job.id

    job_id, _ = shop.while_working(worker, story)
    once(shop, job_id, fence=2)
    assert len(lines("answer was lost")) == 1
    assert worker._fetcher._slots.taken == 0


def test_where_a_repeat_finds_it_running_the_job_is_given_back_and_runs_once(shop: Workshop) -> None:
    """As a store does it by itself, when a connection breaks between the commit and its answer."""

    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def story() -> str:
        await ready(shop, worker)
        job = works.build()
        kept = shop.wake.keep(job)
        assert kept is not None
        shop.store.run(shop.store.ops.enqueue_claimed(job, kept.worker_id))
        enqueued, taken = await ahand_over(shop.store, job, kept)
        assert (enqueued.created, taken) == (True, False)
        await shop.until_status(job.id, "succeeded")
        return job.id

    job_id, _ = shop.while_working(worker, story)
    once(shop, job_id, fence=2)


def test_where_nothing_was_written_the_slot_is_free_again(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker, store = shop.worker(queues={"default": 1}, settings=SELDOM), FaultyStore(shop.store)
    store.away = True

    async def story() -> str:
        await ready(shop, worker)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await give(shop, works.build(), store)
            await shop.until(lambda: is_still(worker))
        job = works.build()
        assert await give(shop, job)
        await shop.until_status(job.id, "succeeded")
        return job.id

    job_id, summary = shop.while_working(worker, story)
    once(shop, job_id)
    assert summary == Summary(succeeded=1)


def _while_on_its_way(shop: Workshop, worker: Worker, then: Callable[[Wire, str], Any]) -> str:
    """Let something happen between the commit of a hand-over and its answer."""
    (kind,) = shop.registry.kinds.values()
    job = kind.build()

    async def story() -> None:
        wire = Wire(shop.store)
        await ready(shop, worker)
        giving = asyncio.create_task(give(shop, job, wire))
        await wire.committed.wait()
        assert shop.get(job.id).status == "running"
        await then(wire, job.id)
        wire.let_go.set()
        await asyncio.wait([giving])

    shop.while_working(worker, story)
    return job.id


def test_a_worker_in_doubt_does_not_give_back_what_is_on_its_way_to_it(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def doubts(wire: Wire, job_id: str) -> None:
        worker._fetcher._doubts += 1
        worker._fetcher.loop.poke()
        await shop.until(lambda: not worker._fetcher._doubtful)
        assert shop.get(job_id).status == "running"
        wire.let_go.set()
        await shop.until_status(job_id, "succeeded")

    once(shop, _while_on_its_way(shop, worker, doubts))


def test_what_comes_to_a_worker_that_ends_is_given_back(shop: Workshop) -> None:
    finish = asyncio.Event()

    @shop.job
    async def works() -> None:
        await finish.wait()

    worker = shop.worker(settings=SELDOM)
    (held,) = shop.enqueue(works.build())

    async def ends(wire: Wire, job_id: str) -> None:
        await shop.until_status(held, "running")
        worker.stop()
        await shop.until(lambda: worker._fetcher._handover._closed)
        assert shop.get(job_id).status == "running"
        wire.let_go.set()
        await shop.until_status(job_id, "queued")
        finish.set()

    job_id = _while_on_its_way(shop, worker, ends)
    job = shop.get(job_id)
    assert (job.status, job.fence, job.losses, job.started_at) == ("queued", 1, 0, None)
    assert shop.attempts(job_id) == []
    assert shop.drain() == Summary(succeeded=1)


def test_a_worker_that_ends_does_not_sign_off_before_what_is_on_its_way(shop: Workshop) -> None:
    """Else it would be reaped, and charged with a loss."""

    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def ends(_wire: Wire, _job_id: str) -> None:
        worker.stop()
        await shop.until(lambda: worker._fetcher._handover._closed)
        await asyncio.sleep(0.2)  # for a worker that would not wait
        assert len(shop.store.run(shop.store.ops.workers())) == 1

    job = shop.get(_while_on_its_way(shop, worker, ends))
    assert (job.status, job.losses, shop.attempts(job.id)) == ("queued", 0, [])


def test_a_refused_hand_over_wakes_its_worker_by_itself(shop: Workshop) -> None:
    """Whoever stopped waiting for it does not."""

    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def story() -> list[str]:
        await ready(shop, worker)
        first, second = works.build(), works.build()
        kept = shop.wake.keep(second)
        assert kept is not None
        await shop.store.arun(shop.store.ops.enqueue([first]))
        assert not (await ahand_over(shop.store, second, kept))[1]
        for job in (first, second):
            await shop.until_status(job.id, "succeeded")
        return [first.id, second.id]

    for job_id in shop.while_working(worker, story)[0]:
        once(shop, job_id)


def test_what_comes_to_a_worker_that_lost_its_lease_runs_once_more_and_only_that_counts(shop: Workshop) -> None:
    ran: list[int] = []

    @shop.job
    async def works(ctx: Context) -> None:
        ran.append(ctx.fence)

    worker = shop.worker(settings=SELDOM)

    async def is_reaped(wire: Wire, job_id: str) -> None:
        before = worker.worker_id
        shop.store.run(shop.store.ops.reap([before], limit=10))
        shop.make_due(job_id)
        await shop.until(lambda: worker.worker_id != before)
        wire.let_go.set()
        shop.wake.poke("default")
        await shop.until_status(job_id, "succeeded")

    job_id = _while_on_its_way(shop, worker, is_reaped)
    assert ran == [2]
    assert [attempt.status for attempt in shop.attempts(job_id)] == ["lost", "succeeded"]


def test_who_stops_waiting_for_it_leaves_the_job_to_run_once(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def is_cancelled(wire: Wire, job_id: str) -> None:
        giving = next(task for task in asyncio.all_tasks() if "coroutine object give" in repr(task.get_coro()))
        giving.cancel()
        await asyncio.wait([giving])
        assert giving.cancelled()
        assert shop.get(job_id).status == "running"
        wire.let_go.set()
        await shop.until_status(job_id, "succeeded")

    once(shop, _while_on_its_way(shop, worker, is_cancelled))
    assert worker._fetcher._slots.taken == 0


def test_a_commit_that_comes_after_the_doubt_was_resolved_is_found_a_lease_later(shop: Workshop, lines: Any) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings={**SELDOM, "pace_ms": 20, "idle_pace_ms": 20, "lease_ms": 300})
    store = FaultyStore(shop.store)
    store.away = True

    async def story() -> str:
        await ready(shop, worker)
        job = works.build()
        with pytest.raises(StoreUnavailable):
            await give(shop, job, store)
        await shop.until(lambda: not worker._fetcher._doubtful)
        assert worker._fetcher._look_again_at < time.monotonic() + 0.4  # five quarters of its lease
        # only now the server gets to it
        shop.store.run(shop.store.ops.enqueue_claimed(job, worker.worker_id))
        await shop.until_status(job.id, "succeeded")
        return job.id

    job_id, _ = shop.while_working(worker, story)
    once(shop, job_id, fence=2)
    assert len(lines("answer was lost")) == 1


def test_a_claim_that_nobody_knows_of_is_found_sooner_or_later(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker()

    async def story() -> str:
        await ready(shop, worker)
        job = works.build()
        shop.store.run(shop.store.ops.enqueue_claimed(job, worker.worker_id))
        assert 400 < worker._fetcher._look_again_at - time.monotonic() < 800  # its lease is a minute
        worker._fetcher._look_again_at = time.monotonic()
        await shop.until_status(job.id, "succeeded")
        return job.id

    once(shop, shop.while_working(worker, story)[0], fence=2)


def test_a_doubt_waits_for_the_claim_that_a_settle_makes(shop: Workshop, lines: Any) -> None:
    """What a settle has claimed is running in the store before the worker has heard of it."""
    store = FaultyStore(shop.store)
    committed, let_go = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @shop.job(partition="p")
    async def works(number: int) -> None:
        ran.append(number)

    @shop.job
    async def other() -> None: ...

    settle_and_claim, arun = shop.store.ops.settle_and_claim, store.arun
    made: list[Any] = []

    def remember(*args: Any) -> Any:
        made.append(settle_and_claim(*args))
        return made[-1]

    async def hold(op: Any) -> Any:
        answer = await arun(op)
        if any(op is each for each in made) and not committed.is_set():
            committed.set()
            await let_go.wait()
        return answer

    worker = shop.worker(store=store, settings=SELDOM)

    async def story() -> list[str]:
        store.ops.settle_and_claim, store.arun = remember, hold  # type: ignore[method-assign]
        await ready(shop, worker)
        ids = shop.enqueue(*(works.build(number) for number in range(2)))
        await committed.wait()
        assert [shop.get(job_id).status for job_id in ids] == ["succeeded", "running"]
        worker._fetcher._given_up("default", True)
        await asyncio.sleep(0.05)  # for a worker that would give it back
        let_go.set()
        for job_id in ids:
            await shop.until_status(job_id, "succeeded")
        await shop.until(lambda: not worker._fetcher._doubtful)
        return ids

    try:
        ids, _ = shop.while_working(worker, story)
    finally:
        store.ops.settle_and_claim = settle_and_claim
    assert ran == [0, 1]
    for job_id in ids:
        once(shop, job_id)
    assert lines("answer was lost") == []


def test_an_event_loop_that_ends_before_a_hand_over_begins_leaves_no_slot_kept(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker(queues={"default": 1}, settings=SELDOM)

    async def gives_and_ends() -> None:
        asyncio.create_task(give(shop, works.build()))  # noqa: RUF006 - it is cancelled with the rest
        await asyncio.sleep(0)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def story() -> None:
        await ready(shop, worker)
        for _ in range(3):
            await asyncio.to_thread(asyncio.run, gives_and_ends())
            await shop.until(lambda: worker._fetcher._slots.taken == 0)
        assert worker._fetcher._handover.holds() == set()

    shop.while_working(worker, story)


def test_what_interrupts_a_hand_over_at_its_end_neither_runs_it_twice_nor_gives_its_slot_twice(shop: Workshop) -> None:
    """As Ctrl-C does, between any two lines."""

    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def story() -> list[str]:
        await ready(shop, worker)
        ids = []
        for started in (False, True):
            job = works.build()
            kept = shop.wake.keep(job)
            assert kept is not None
            _, claim = await shop.store.arun(shop.store.ops.enqueue_claimed(job, kept.worker_id))
            with suppress(KeyboardInterrupt), kept:
                assert worker._fetcher._handover.take(kept, claim)
                if started:
                    await shop.until_status(job.id, "succeeded")
                raise KeyboardInterrupt
            await shop.until_status(job.id, "succeeded")
            ids.append(job.id)
        return ids

    (early, late), summary = shop.while_working(worker, story)
    once(shop, early, fence=2)
    once(shop, late)
    assert summary == Summary(succeeded=2)
    assert worker._fetcher._slots.taken == 0


def test_a_worker_whose_event_loop_stands_still_is_given_one_job_at_most(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)

    async def story() -> list[str]:
        await ready(shop, worker)
        first, second = works.build(), works.build()
        kept = shop.wake.keep(first)
        assert kept is not None
        assert hand_over(shop.store, first, kept)[1]
        assert shop.wake.keep(second) is None  # nothing was awaited since
        shop.enqueue(second)
        for job in (first, second):
            await shop.until_status(job.id, "succeeded")
        worker._fetcher._lanes["default"].poll_at = time.monotonic() - 1
        assert shop.wake.keep(works.build()) is None
        return [first.id, second.id]

    for job_id in shop.while_working(worker, story)[0]:
        once(shop, job_id)


def test_after_a_refusal_the_next_ones_keep_no_slots_for_a_moment(shop: Workshop) -> None:
    @shop.job
    async def works() -> None: ...

    worker = shop.worker(settings=SELDOM)
    shop.store.run(shop.store.ops.pause("default", actor=None))

    async def story() -> None:
        await ready(shop, worker)
        assert not await give(shop, works.build())
        lane = worker._fetcher._lanes["default"]
        await shop.until(lambda: lane.no_handover_until > 0 and not worker._fetcher._slots.asked)
        lane.no_handover_until += 60
        assert shop.wake.keep(works.build()) is None
        lane.no_handover_until = time.monotonic()
        kept = shop.wake.keep(works.build())
        assert kept is not None
        kept.give_up(doubtful=False)

    shop.while_working(worker, story)


def test_a_claim_that_was_lost_with_the_lease_is_not_begun_while_another_is_asked_for(shop: Workshop) -> None:
    ran: list[int] = []

    @shop.job
    async def works(ctx: Context) -> None:
        ran.append(ctx.fence)

    worker = shop.worker(settings=SELDOM)

    async def renews(wire: Wire, job_id: str) -> None:
        begin, renewing, go_on = worker._lease.begin, asyncio.Event(), asyncio.Event()

        async def begin_slowly() -> None:
            renewing.set()
            await go_on.wait()
            await begin()

        worker._lease.begin, before = begin_slowly, worker.worker_id  # type: ignore[method-assign]
        shop.store.run(shop.store.ops.reap([worker.worker_id], limit=10))
        await renewing.wait()
        wire.let_go.set()
        await shop.until(lambda: not worker._fetcher._handover.holds())
        shop.make_due(job_id)
        go_on.set()
        await shop.until(lambda: worker.worker_id != before)
        shop.wake.poke("default")
        await shop.until_status(job_id, "succeeded")

    _while_on_its_way(shop, worker, renews)
    assert ran == [2]


def test_until_idle_does_not_end_before_what_came_at_its_last_look(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    @shop.job
    async def follows() -> None:
        ran.append("follows")

    @shop.job
    async def leads() -> None:
        ran.append("leads")
        shop.enqueue(follows.build())

    looks = iter([True])
    more_to_come = Fetcher._more_to_come

    async def comes_late(fetcher: Fetcher) -> bool:
        answer = await more_to_come(fetcher)
        if next(looks, False):
            fetcher._lanes["default"].poll_at = time.monotonic() + 60  # it is not late
            assert await give(shop, leads.build())
        return answer

    monkeypatch.setattr(Fetcher, "_more_to_come", comes_late)
    assert shop.drain() == Summary(succeeded=2)
    assert ran == ["leads", "follows"]
