"""ctx.settle while the database fails or the worker dies: what was committed is settled once."""

from __future__ import annotations

from typing import Any

from headway import Context
from headway.errors import StoreFailed
from headway.worker import Summary
from tests.store.db import new_worker
from tests.worker.ledger import Ledger
from tests.worker_harness import FaultyStore, WorkerHarness


class ForeignFaulty(FaultyStore):
    def run_in(self, conn: Any, op: Any) -> Any:
        return self._store.run_in(conn, op)


def is_settling_committed(op: Any) -> bool:
    return "settle_committed" in op.steps.__qualname__


def test_a_lost_answer_to_the_settle_is_no_second_settle(harness: WorkerHarness, ledger: Ledger) -> None:
    @harness.job
    def pay(ctx: Context) -> None:
        ledger.settle(ctx, "paid")

    store = ForeignFaulty(harness.store)
    asked = 0

    def loses(op: Any) -> bool:
        nonlocal asked
        if not is_settling_committed(op):
            return False
        asked += 1
        return asked == 1

    store.loses_answer = loses
    (job_id,) = harness.enqueue(pay.build())
    assert harness.drain(store=store) == Summary(succeeded=1)
    assert (asked, harness.get(job_id).result, len(harness.attempts(job_id))) == (1, "paid", 1)


def test_one_that_the_database_fails_at_is_settled_later_and_holds_up_no_other(
    harness: WorkerHarness, ledger: Ledger
) -> None:
    fails = True

    @harness.job
    def pay(ctx: Context) -> None:
        ledger.settle(ctx, "paid")

    @harness.job
    async def other() -> None: ...

    store = ForeignFaulty(harness.store)
    store.refuses = lambda op: StoreFailed("out of memory") if fails and is_settling_committed(op) else None

    async def story() -> str:
        nonlocal fails
        (job_id,) = harness.enqueue(pay.build())
        await harness.until(lambda: worker._settler.backlog > 0)
        (second,) = harness.enqueue(other.build())
        await harness.until_status(second, "succeeded")
        fails = False
        await harness.until_status(job_id, "succeeded")
        return job_id

    worker = harness.worker(store=store)
    job_id, summary = harness.while_working(worker, story)
    assert (harness.get(job_id).result, summary) == ("paid", Summary(succeeded=2))


def test_a_worker_that_dies_after_the_commit_leaves_nothing_to_run_again(
    harness: WorkerHarness, ledger: Ledger
) -> None:
    runs: list[int] = []

    @harness.job(train="t")
    def pay(ctx: Context) -> None:
        runs.append(ctx.fence)

    first, second = harness.enqueue(pay.build(), pay.build())
    dead = registered(harness)
    (claim,) = harness.store.run(harness.store.ops.claim(dead, "default", 1))
    with ledger.transaction() as conn:
        settled = pay.settlement_of(Context(claim), "by the dead", result_limit=100)
        harness.store.run_in(conn, harness.store.ops.commit_outcome(settled))
    harness.store.run(harness.store.ops.unregister(dead))
    harness.while_working(harness.worker(), lambda: harness.until_status(second, "succeeded"))
    assert (harness.get(first).result, harness.get(first).losses, runs) == ("by the dead", 0, [1])
    assert [attempt.status for attempt in harness.attempts(first)] == ["succeeded"]


def registered(harness: WorkerHarness) -> str:
    worker = new_worker()
    harness.store.run(harness.store.ops.register(worker))
    return worker.id
