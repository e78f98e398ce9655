"""A claim brings no more than a worker should have on its way at once, however many slots are free."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from headway import Context, Done, Machine, step
from headway.model import job as model
from headway.model.job import Claim, SettledAndClaimed
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import FaultyStore, WorkerHarness

MIB = 1_048_576
KIB = 1_024
BOUND = MIB


class Weighing(FaultyStore):
    """The real store, and how many bytes of jobs each answer brought."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.brought: list[int] = []

    async def arun(self, op: Any, **options: Any) -> Any:
        answer = await super().arun(op, **options)
        claims = answer.claims if isinstance(answer, SettledAndClaimed) else answer
        if isinstance(claims, list) and claims and isinstance(claims[0], Claim):
            self.brought.append(sum(claim.size for claim in claims))
        return answer


_BYTES = "create or replace function headway.claim_bytes() returns bigint language sql immutable as 'select {}::bigint'"


@pytest.fixture(autouse=True)
def small_answers(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    side = getattr(harness.store, "side", None)
    whole = model.CLAIM_BYTES
    monkeypatch.setattr(model, "CLAIM_BYTES", BOUND)
    if side is not None:
        side.execute(_BYTES.format(BOUND))
    yield
    if side is not None:
        side.execute(_BYTES.format(whole))


@pytest.mark.parametrize("limited", [False, True])
def test_no_claim_brings_more_than_its_bytes_even_after_small_jobs(harness: WorkerHarness, limited: bool) -> None:
    store = Weighing(harness.store)

    @harness.job(concurrency=50 if limited else None)
    async def reads(text: str) -> None: ...

    texts = ["x" * 10] * 60 + [random.randbytes(32 * KIB).hex() for _ in range(40)] + ["x" * (128 * KIB)] * 20
    harness.enqueue(*(reads.build(text) for text in texts))
    assert harness.drain(store=store, queues={"default": 100}) == Summary(succeeded=120)
    assert sum(store.brought) > 19 * MIB // 4
    assert BOUND // 2 < max(store.brought) <= BOUND


@pytest.mark.parametrize("limited", [False, True])
def test_the_unread_signals_of_machines_count_too(harness: WorkerHarness, limited: bool) -> None:
    store = Weighing(harness.store)

    @harness.machine
    class Reads(Machine, concurrency=50 if limited else None):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done(len(ctx.inbox))

    jobs = [Reads.build() for _ in range(16)]
    jobs[10:] = [msgspec.structs.replace(job, checkpoint=None) for job in jobs[10:]]  # enqueued by their kind alone
    ids = harness.enqueue(*jobs)
    for job_id in ids:
        harness.signal(job_id, "small")
        harness.signal(job_id, "packed", "x" * (128 * KIB))
        harness.signal(job_id, "large", random.randbytes(64 * KIB).hex())
    assert harness.drain(store=store, queues={"default": 100}) == Summary(succeeded=16)
    assert [harness.get(job_id).result for job_id in ids] == [3] * 16
    assert sum(store.brought) > 15 * MIB // 4
    assert BOUND // 2 < max(store.brought) <= BOUND


def test_an_inbox_beyond_what_a_step_gets_counts_as_that(harness: WorkerHarness) -> None:
    store = Weighing(harness.store)

    @harness.machine
    class Reads(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done(len(ctx.inbox))

    flooded, *_ = harness.enqueue(*(Reads.build() for _ in range(30)))
    for _ in range(20):
        harness.signal(flooded, "packed", "x" * MIB)
    assert harness.drain(store=store, queues={"default": 100}) == Summary(succeeded=30)
    assert harness.get(flooded).result == 7
    assert len(store.brought) == 2


def test_small_jobs_fill_the_slots(harness: WorkerHarness) -> None:
    store = Weighing(harness.store)

    @harness.job
    async def reads(text: str) -> None: ...

    harness.enqueue(*(reads.build("x") for _ in range(500)))
    assert harness.drain(store=store, queues={"default": 100}) == Summary(succeeded=500)
    assert len(store.brought) < 30
