"""ctx.settle in a step: its result and the step's own rows exist together or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Context, Flow, SyncFlow
from headway.errors import LeaseLost, NotAllowed
from tests.worker.ledger import Ledger
from tests.worker_harness import WorkerHarness


def test_a_step_commits_its_result_with_its_rows(harness: WorkerHarness, ledger: Ledger) -> None:
    def pay(ctx: Context) -> Any:
        ledger.settle(ctx, {"paid": 5})
        return "not this"

    @harness.flow
    async def f(flow: Flow) -> Any:
        paid = await flow.step(pay)
        await flow.receive("go")
        return paid

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert ledger.notes() == ["done"]
    assert harness.journal(job_id) == [("settled", "pay"), ("done", "pay")]
    harness.signal(job_id, "go")
    harness.drain()
    assert (harness.get(job_id).result, ledger.notes()) == ({"paid": 5}, ["done"])


def test_a_step_whose_answer_was_never_recorded_is_not_run_again(harness: WorkerHarness, ledger: Ledger) -> None:
    """Killed between the caller's commit and the answer: here by a lost lease."""
    ran: list[int] = []

    def pay(ctx: Context) -> str:
        ran.append(ctx.fence)
        ledger.settle(ctx, "paid")
        if len(ran) == 1:
            harness.sql("update {}jobs set status = 'queued', worker_id = null, attempt_started_at = null")
        return "returned"

    @harness.flow
    async def f(flow: Flow) -> str:
        return await flow.step(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain()
    assert (harness.get(job_id).result, len(ran), ledger.notes()) == ("paid", 1, ["done"])


@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_after_a_rollback_what_the_step_gives_counts(harness: WorkerHarness, ledger: Ledger, ends: str) -> None:
    tries: list[int] = []

    def pay(ctx: Context) -> str:
        tries.append(ctx.tries)
        try:
            with ledger.transaction() as conn:
                ledger.write(conn, ctx)
                ctx.settle("committed", conn=conn)
                raise ConnectionError("before the commit")
        except ConnectionError:
            if ends == "raises" and ctx.tries == 0:
                raise
        return "returned"

    @harness.flow
    def f(flow: SyncFlow) -> str:
        return flow.using(backoff=0.01).step(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert (harness.get(job_id).result, ledger.notes()) == ("returned", [])
    assert tries == ([0] if ends == "returns" else [0, 1])


def test_a_step_settles_once(harness: WorkerHarness, ledger: Ledger) -> None:
    def pay(ctx: Context) -> str:
        ledger.settle(ctx, "first")
        with pytest.raises(NotAllowed, match="settled already"):
            ledger.settle(ctx, "second")
        return "returned"

    @harness.flow
    async def f(flow: Flow) -> str:
        return await flow.step(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert (harness.get(job_id).result, ledger.notes()) == ("first", ["done"])


def test_a_step_that_lost_its_claim_writes_nothing(harness: WorkerHarness, ledger: Ledger) -> None:
    def pay(ctx: Context) -> str:
        if ctx.fence == 1:
            harness.sql("update {}jobs set status = 'queued', worker_id = null, attempt_started_at = null")
            with pytest.raises(LeaseLost):
                ledger.settle(ctx, "stale")
            return "stale"
        return "fresh"

    @harness.flow
    async def f(flow: Flow) -> str:
        return await flow.step(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain()
    assert (harness.get(job_id).result, ledger.notes()) == ("fresh", [])
