"""Handing jobs over in tests, as an app does it, with a wire that can hold the answer back."""

from __future__ import annotations

import asyncio
from typing import Any

from workshop import FaultyStore, Workshop

from headway.model.job import NewJob
from headway.worker import Worker
from headway.worker.handover import ahand_over

SELDOM = {"pace_ms": 10**6, "idle_pace_ms": 10**6}
"""A worker that looks once and then waits to be told."""


class Wire(FaultyStore):
    """Holds back the answer to `enqueue_claimed`, which is committed by then, until it is let go."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.committed, self.let_go = asyncio.Event(), asyncio.Event()

    async def arun(self, op: Any) -> Any:
        answer = await super().arun(op)
        if isinstance(answer, tuple) and len(answer) == 2:
            self.committed.set()
            await self.let_go.wait()
        return answer


async def give(shop: Workshop, job: NewJob, store: Any = None) -> bool:
    """Enqueue it as an app does; gives whether it was handed over."""
    kept = shop.wake.keep(job)
    if kept is None:
        shop.enqueue(job)
        return False
    _, taken = await ahand_over(store or shop.store, job, kept)
    if not taken:
        shop.wake.poke(job.queue)
    return taken


async def ready(shop: Workshop, worker: Worker) -> None:
    """Wait until the worker has looked at its queues and found nothing."""
    await shop.until(lambda: hasattr(worker, "_fetcher") and bool(shop.wake._keepers))
    await shop.until(lambda: all(lane.poll_at for lane in worker._fetcher._lanes.values()))
    await shop.until(lambda: is_still(worker))


def is_still(worker: Worker) -> bool:
    """Whether it has nothing to look for, and so keeps its slots for whoever comes."""
    fetcher = worker._fetcher
    return not (fetcher._slots.asked or fetcher._doubtful or any(lane.woken for lane in fetcher._lanes.values()))


def once(shop: Workshop, job_id: str, *, fence: int = 1) -> None:
    """It ran once, and nothing was charged."""
    job = shop.get(job_id)
    assert (job.status, job.fence, job.tries, job.losses) == ("succeeded", fence, 0, 0)
    assert [attempt.status for attempt in shop.attempts(job_id)] == ["succeeded"]
