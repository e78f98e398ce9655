"""A worker's life: finding work, sharing slots, hooks, starting and stopping."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from headway.define import Context
from headway.errors import ConfigError, HeadwayError
from headway.model.listing import Filter
from headway.model.outcome import Done
from headway.model.trigger import Declaration
from headway.worker import Event, Summary, Worker
from tests.conftest import START
from tests.worker_harness import FaultyStore, WorkerHarness


def test_a_job_enqueued_in_this_process_does_not_wait_for_a_poll(harness: WorkerHarness) -> None:
    @harness.job
    async def quick() -> None:
        pass

    async def story() -> None:
        (first,) = await asyncio.to_thread(harness.enqueue, quick.build())
        await harness.until_status(first, "succeeded")
        (second,) = harness.enqueue(quick.build())
        await harness.until_status(second, "succeeded")

    # nobody would live to see the next poll
    never = {"pace_ms": 10**9, "idle_pace_ms": 10**9, "promote_every_ms": 10**9}
    harness.while_working(harness.worker(settings=never), story)


def test_a_job_enqueued_elsewhere_is_found_by_polling(harness: WorkerHarness) -> None:
    @harness.job
    async def quick() -> None:
        pass

    async def story() -> None:
        job = quick.build()
        harness.store.run(harness.store.ops.enqueue([job]))
        await harness.until_status(job.id, "succeeded")

    harness.while_working(harness.worker(), story)


def test_slots_are_never_exceeded_neither_of_a_queue_nor_in_all(harness: WorkerHarness) -> None:
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    full = asyncio.Event()

    @harness.job
    async def counts(ctx: Context) -> None:
        for key in (ctx.queue, "all"):
            now[key] += 1
            most[key] = max(most[key], now[key])
        if now["all"] == 6:
            full.set()
        await full.wait()
        for key in (ctx.queue, "all"):
            now[key] -= 1

    harness.enqueue(*(counts.using(queue=queue).build() for queue in ("mail", "slow") for _ in range(60)))
    assert harness.drain(queues={"mail": 5, "slow": 2}, concurrency=6) == Summary(succeeded=120)
    assert most["mail"] <= 5
    assert most["slow"] <= 2
    assert most["all"] == 6


def test_no_queue_starves_behind_another_queues_backlog(harness: WorkerHarness) -> None:
    order: list[str] = []

    @harness.job
    async def notes(ctx: Context) -> None:
        order.append(ctx.queue)

    harness.enqueue(*(notes.using(queue="long").build() for _ in range(40)))
    harness.enqueue(*(notes.using(queue="short").build() for _ in range(3)))
    harness.drain(queues={"long": 2, "short": 2}, concurrency=2)
    assert order.index("short") < 10


def test_a_retry_that_is_due_soon_is_run_without_waiting_for_the_usual_round(harness: WorkerHarness) -> None:
    @harness.job(backoff=lambda tries: 0.05)
    async def second_time(ctx: Context) -> None:
        if not ctx.tries:
            raise OSError("not yet")

    async def story() -> None:
        (job_id,) = harness.enqueue(second_time.build())
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(settings={"promote_every_ms": 60_000}), story)


def test_until_idle_does_not_wait_for_what_is_due_later(harness: WorkerHarness) -> None:
    @harness.job
    async def quick() -> None:
        pass

    later, now = harness.enqueue(quick.using(delay="1h").build(), quick.build())
    assert harness.drain() == Summary(succeeded=1)
    assert (harness.get(later).status, harness.get(now).status) == ("scheduled", "succeeded")


def test_until_idle_runs_what_its_jobs_enqueue(harness: WorkerHarness) -> None:
    @harness.job
    def grows(depth: int) -> None:
        if depth:
            harness.enqueue(grows.build(depth=depth - 1), grows.build(depth=depth - 1))

    harness.enqueue(grows.build(depth=4))
    assert harness.drain() == Summary(succeeded=31)


def test_a_paused_queue_is_left_alone(harness: WorkerHarness) -> None:
    @harness.job
    async def quick() -> None:
        pass

    (job_id,) = harness.enqueue(quick.build())
    harness.store.run(harness.store.ops.pause("default", actor=None))
    assert harness.drain() == Summary()
    assert harness.get(job_id).status == "queued"


# cancel


def test_an_async_handler_is_cancelled_on_request(harness: WorkerHarness) -> None:
    started = asyncio.Event()

    @harness.job
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    async def story() -> str:
        (job_id,) = harness.enqueue(endless.build())
        await started.wait()
        harness.store.run(harness.store.ops.cancel([job_id], tenant_id=None, reason="too late", actor="ann"))
        await harness.until_status(job_id, "canceled")
        return job_id

    job_id, summary = harness.while_working(harness.worker(), story)
    assert (harness.last(job_id).status, harness.get(job_id).error) == ("canceled", "too late")
    assert summary == Summary(canceled=1)


def test_a_sync_handler_sees_that_it_was_canceled(harness: WorkerHarness) -> None:
    started = threading.Event()

    @harness.job
    def patient(ctx: Context) -> None:
        from headway.define import Cancel

        started.set()
        while not ctx.canceled:
            threading.Event().wait(0.01)
        raise Cancel

    async def story() -> None:
        (job_id,) = harness.enqueue(patient.build())
        await asyncio.to_thread(started.wait, 60)
        harness.store.run(harness.store.ops.cancel([job_id], tenant_id=None, reason=None, actor=None))
        await harness.until_status(job_id, "canceled")

    harness.while_working(harness.worker(), story)


@pytest.mark.parametrize("how", ["returns", "is done", "did not look", "swallows", "swallows and is done"])
def test_what_a_canceled_handler_returns(harness: WorkerHarness, how: str) -> None:
    """It ends canceled once it has noticed, unless it says that it is done; one that did not notice has finished."""
    started = threading.Event()

    @harness.job
    def looks(ctx: Context) -> Any:
        started.set()
        while not (ctx._canceled if how == "did not look" else ctx.canceled):
            threading.Event().wait(0.01)
        return Done("all") if how == "is done" else "half"

    @harness.job
    async def swallows() -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Done("all") if how == "swallows and is done" else "half"

    async def story() -> str:
        (job_id,) = harness.enqueue((swallows if how.startswith("swallows") else looks).build())
        await asyncio.to_thread(started.wait, 60)
        harness.store.run(harness.store.ops.cancel([job_id], tenant_id=None, reason="too late", actor="ann"))
        await harness.until(lambda: harness.get(job_id).finished_at is not None)
        return job_id

    job_id, _ = harness.while_working(harness.worker(), story)
    job = harness.get(job_id)
    if how in ("returns", "swallows"):
        assert (job.status, job.result, job.error) == ("canceled", None, "too late")
        assert harness.last(job_id).status == "canceled"
    else:
        assert (job.status, job.result, job.error) == ("succeeded", "half" if how == "did not look" else "all", None)


# stopping


def test_a_stopping_worker_lets_its_jobs_finish(harness: WorkerHarness) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    @harness.job
    async def works() -> str:
        started.set()
        await finish.wait()
        return "done"

    worker = harness.worker()

    async def story() -> str:
        (job_id,) = harness.enqueue(works.build())
        await started.wait()
        worker.stop()
        (late,) = harness.enqueue(works.build())
        finish.set()
        assert harness.get(late).status == "queued"
        return job_id

    job_id, summary = harness.while_working(worker, story, stop=False)
    assert harness.get(job_id).result == "done"
    assert summary == Summary(succeeded=1)
    assert harness.store.run(harness.store.ops.workers()) == []


def test_after_the_grace_jobs_are_given_back_without_a_charge(harness: WorkerHarness) -> None:
    started: list[str] = []
    cleaned: list[str] = []

    @harness.job
    async def endless(ctx: Context) -> None:
        started.append(ctx.job_id)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(ctx.job_id)

    @harness.job
    def looks(ctx: Context) -> None:
        started.append(ctx.job_id)
        try:
            while not ctx.canceled:
                threading.Event().wait(0.01)
        finally:
            cleaned.append(ctx.job_id)

    @harness.job(delivery="at_most_once")
    async def once(ctx: Context) -> None:
        started.append(ctx.job_id)
        await asyncio.Event().wait()

    async def story() -> list[str]:
        ids = harness.enqueue(endless.build(), looks.build(), once.build())
        await harness.until(lambda: len(started) == 3)
        return ids

    ids, summary = harness.while_working(harness.worker(settings={"grace_ms": 0}), story)
    assert [harness.get(job_id).status for job_id in ids] == ["queued", "queued", "failed"]
    assert [harness.get(job_id).tries for job_id in ids[:2]] == [0, 0]
    assert [harness.last(job_id).status for job_id in ids] == ["released"] * 3
    assert sorted(cleaned) == sorted(ids[:2])
    assert summary == Summary(released=3)
    # it had begun and may not run again under its own id
    (again,) = harness.store.run(harness.store.ops.find(Filter(retry_of=ids[2]), limit=5))
    assert again.status == "queued"


def test_a_second_stop_ends_at_once_and_gives_the_jobs_back(harness: WorkerHarness) -> None:
    started = asyncio.Event()

    @harness.job
    async def stubborn() -> None:
        started.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling() > 1:  # type: ignore[union-attr]
                    raise

    worker = harness.worker(settings={"grace_ms": 10**9})

    async def story() -> str:
        (job_id,) = harness.enqueue(stubborn.build())
        await started.wait()
        worker.stop()
        worker.stop()
        return job_id

    job_id, _ = harness.while_working(worker, story, stop=False)
    assert (harness.get(job_id).status, harness.get(job_id).losses) == ("queued", 0)
    assert harness.store.run(harness.store.ops.workers()) == []


def test_a_worker_whose_task_is_cancelled_gives_its_jobs_back(harness: WorkerHarness) -> None:
    started = asyncio.Event()

    @harness.job
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    async def story() -> str:
        (job_id,) = harness.enqueue(endless.build())
        task = asyncio.create_task(harness.worker().run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return job_id

    job_id = harness.run(story())
    assert (harness.get(job_id).status, harness.get(job_id).losses) == ("queued", 0)


# hooks and lifespan


def test_hooks_are_told_after_the_commit_and_their_errors_go_nowhere(harness: WorkerHarness, lines: Any) -> None:
    told: list[tuple[str, str | None, str | None]] = []

    def note(event: Event) -> None:
        told.append((event.name, event.kind, event.job_id and harness.get(event.job_id).status))

    async def note_later(event: Event) -> None:
        await asyncio.sleep(0)
        note(event)

    def fails(event: Event) -> None:
        raise ValueError("a hook's own fault")

    for name in ("worker.started", "job.started", "job.succeeded", "job.dead", "job.retried", "worker.stopped"):
        harness.hooks.on(name, note)
    harness.hooks.on("job.settled", note_later)
    harness.hooks.on("job.settled", fails)

    @harness.job(max_attempts=1)
    async def dies() -> None:
        raise ValueError

    @harness.job
    async def lives() -> None:
        pass

    harness.enqueue(dies.build())
    harness.drain()
    harness.enqueue(lives.build())
    harness.drain()
    assert [each for each in told if each[0] != "job.settled"] == [
        ("worker.started", None, None),
        ("job.started", "dies", "running"),
        ("job.dead", "dies", "dead"),
        ("worker.stopped", None, None),
        ("worker.started", None, None),
        ("job.started", "lives", "running"),
        ("job.succeeded", "lives", "succeeded"),
        ("worker.stopped", None, None),
    ]
    assert [each for each in told if each[0] == "job.settled"] == [
        ("job.settled", "dies", "dead"),
        ("job.settled", "lives", "succeeded"),
    ]
    assert len(lines("a hook failed")) == 2


def test_an_unknown_event_is_refused(harness: WorkerHarness) -> None:
    with pytest.raises(ConfigError, match=r"job\.finished.*job\.settled"):
        harness.hooks.on("job.finished", print)


def test_startup_and_shutdown_surround_the_work(harness: WorkerHarness) -> None:
    order: list[str] = []

    async def open_pool() -> None:
        order.append("startup")

    def close_pool() -> None:
        order.append("shutdown")

    @harness.job
    async def works() -> None:
        order.append("job")

    harness.enqueue(works.build())
    harness.drain(startup=[open_pool], shutdown=[close_pool])
    assert order == ["startup", "job", "shutdown"]


def test_a_startup_error_ends_the_worker_before_it_claims(harness: WorkerHarness) -> None:
    def open_pool() -> None:
        raise OSError("no route")

    @harness.job
    async def works() -> None:
        pass

    (job_id,) = harness.enqueue(works.build())
    with pytest.raises(HeadwayError, match=r"open_pool raised OSError: no route"):
        harness.drain(startup=[open_pool])
    assert harness.get(job_id).status == "queued"


def test_a_worker_told_to_stop_while_it_starts_leaves_no_row(harness: WorkerHarness) -> None:
    def workers() -> list[Any]:
        return list(harness.store.run(harness.store.ops.workers()))

    def told(_: datetime) -> Declaration:
        assert len(workers()) == 1
        worker.stop()
        return Declaration()

    class Unanswered(FaultyStore):
        """Registers the worker, and gives no answer."""

        async def arun(self, op: Any, **options: Any) -> Any:
            result = await super().arun(op, **options)
            if not worker.is_stopping:
                told(START)
                await asyncio.Event().wait()
            return result

    for worker in (harness.worker(declare=told), harness.worker(store=Unanswered(harness.store))):
        harness.run(worker.run())
        assert not worker.started.is_set()
        assert workers() == []


def test_a_worker_that_fails_to_start_leaves_no_row(harness: WorkerHarness) -> None:
    def declare(_: datetime) -> Declaration:
        assert harness.store.run(harness.store.ops.workers())
        raise ConfigError("no such schedule")

    with pytest.raises(ConfigError, match="no such schedule"):
        harness.run(harness.worker(declare=declare).run())
    assert harness.store.run(harness.store.ops.workers()) == []


def test_a_worker_introduces_itself(harness: WorkerHarness) -> None:
    import os

    @harness.job
    async def works() -> None:
        pass

    worker: Worker = harness.worker(queues={"mail": 5, "default": 20})

    async def story() -> Any:
        await harness.until(lambda: len(harness.store.run(harness.store.ops.workers())) == 1)
        return harness.store.run(harness.store.ops.workers())[0]

    row, _ = harness.while_working(worker, story)
    assert (row.id, row.pid, row.version) == (worker.worker_id, os.getpid(), "1.2.3")
    assert (row.queues, row.kinds, row.concurrency) == ({"mail": 5, "default": 20}, ("works",), 25)


def test_the_event_loop_standing_still_is_told_with_whose_code(
    harness: WorkerHarness, lines: Callable[[str], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.watchdog.BLOCKED_S", 0.02)
    monkeypatch.setattr("headway.worker.watchdog.TICK_S", 0.01)

    def named() -> list[Any]:
        """On a busy machine the loop is late without any job, too."""
        return [record for record in lines("has been blocked") if "kind" in record.headway]

    @harness.job
    async def blocks() -> None:
        for _ in range(1_000):
            threading.Event().wait(0.01)
            if named():
                return

    (job_id,) = harness.enqueue(blocks.build())
    harness.drain()
    record = named()[0]
    assert (record.headway["kind"], record.headway["job_id"]) == ("blocks", job_id)
    assert "threading.py" in record.headway["at"]
