"""A claim brings no more than a worker should have on its way at once, however many slots are free."""

from __future__ import annotations

from typing import Any

import pytest

from headway.model.job import Claim
from headway.worker import Summary, batch_size
from tests.worker_harness import FaultyStore, WorkerHarness

MIB = 1_048_576
BOUND = 4 * MIB


class Weighing(FaultyStore):
    """The real store, and how many bytes of jobs each answer brought."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.brought: list[int] = []

    async def arun(self, op: Any, **options: Any) -> Any:
        answer = await super().arun(op, **options)
        if isinstance(answer, list) and answer and isinstance(answer[0], Claim):
            self.brought.append(sum(claim.size for claim in answer))
        return answer


@pytest.fixture(autouse=True)
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "CLAIM_BYTES", BOUND)


def test_large_jobs_come_in_small_claims(harness: WorkerHarness) -> None:
    store = Weighing(harness.store)

    @harness.job
    async def reads(text: str) -> None: ...

    harness.enqueue(*(reads.build("x" * (MIB - 100)) for _ in range(12)))
    assert harness.drain(store=store, queues={"default": 1_000}) == Summary(succeeded=12)
    assert sum(store.brought) > 11 * MIB
    assert max(store.brought) <= BOUND


def test_large_jobs_after_small_ones_are_noticed(harness: WorkerHarness) -> None:
    """One claim may bring too much; the next ones do not."""
    store = Weighing(harness.store)

    @harness.job
    async def reads(text: str) -> None: ...

    harness.enqueue(*(reads.build("x") for _ in range(100)))
    harness.enqueue(*(reads.build("x" * (MIB // 4)) for _ in range(40)))
    assert harness.drain(store=store, queues={"default": 24}) == Summary(succeeded=140)
    sizes = store.brought
    first = next(place for place, size in enumerate(sizes) if size > BOUND // 2)
    assert max(sizes[first + 1 :]) <= BOUND


def test_small_jobs_fill_the_slots(harness: WorkerHarness) -> None:
    store = Weighing(harness.store)

    @harness.job
    async def reads(text: str) -> None: ...

    harness.enqueue(*(reads.build("x") for _ in range(500)))
    assert harness.drain(store=store, queues={"default": 100}) == Summary(succeeded=500)
    assert len(store.brought) < 30
