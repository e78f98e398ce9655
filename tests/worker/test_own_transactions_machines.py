"""ctx.settle in batches and machines: each call and each turn is committed with the handler's own rows."""

from __future__ import annotations

from typing import Any

from headway import Await, Call, Done, Machine, Next, Snooze, Spawn, step
from headway.errors import InvalidJob
from headway.model.job import NewJob
from headway.worker import Summary
from tests.store.db import new_job
from tests.worker.ledger import Ledger
from tests.worker_harness import WorkerHarness


def test_the_calls_of_a_batch_are_settled_in_one_transaction_each_by_its_own_outcome(
    harness: WorkerHarness, ledger: Ledger
) -> None:
    @harness.job(batch=10, batch_wait="20s", max_attempts=1)
    def pay(calls: list[Call]) -> None:
        with ledger.transaction() as conn:
            for call in calls:
                ledger.write(conn, call.ctx, str(call.args["n"]))
                call.ctx.settle(Snooze("1h") if call.args["n"] == 3 else call.args["n"], conn=conn)
        raise ConnectionError("after the commit")

    ids = harness.enqueue(*(pay.build(n=n) for n in range(10)))
    assert harness.drain() == Summary(succeeded=9, snoozed=1)
    assert [harness.get(each).result for each in ids] == [None if n == 3 else n for n in range(10)]
    assert harness.get(ids[3]).status == "scheduled"
    assert ledger.notes() == [str(n) for n in range(10)]


def test_machines_commit_their_turns(harness: WorkerHarness, ledger: Ledger) -> None:
    @harness.job
    def part(n: int) -> int:
        return n * n

    handled: list[BaseException] = []

    @harness.machine
    class Order(Machine):
        @step
        async def start(self, ctx: Any) -> Any:
            with ledger.transaction() as conn:
                ledger.write(conn, ctx, "1 start")
                await ctx.asettle(Next("ask"), conn=conn)

        @step
        def ask(self, ctx: Any) -> Any:
            ledger.settle(ctx, Await("paid", then="ship"), "2 ask")
            raise RuntimeError("after the commit")

        @step
        def ship(self, ctx: Any) -> Any:
            assert [signal.name for signal in ctx.signals] == ["paid"]
            ledger.settle(ctx, Spawn([part.build(3), part.build(4)], then="done"), "3 ship")

        @step
        def done(self, ctx: Any) -> Any:
            ledger.settle(ctx, Done(sum(child.result for child in ctx.children)), "4 done")

        def handle(self, error: BaseException, _ctx: Any) -> Any:
            handled.append(error)
            return Done("handled")

    (job_id,) = harness.enqueue(Order.build())
    harness.drain()
    assert harness.get(job_id).status == "waiting"
    harness.signal(job_id, "paid")
    harness.drain()
    assert (harness.get(job_id).result, handled) == (25, [])
    assert ledger.notes() == ["1 start", "2 ask", "3 ship", "4 done"]
    assert harness.outcomes(job_id) == [("start", "next"), ("ask", "await"), ("ship", "spawn"), ("done", "done")]
    assert [signal.status for signal in harness.signals(job_id)] == ["consumed"]


def test_children_that_the_store_refuses_end_the_job_and_do_not_repeat_the_step(
    harness: WorkerHarness, ledger: Ledger
) -> None:
    @harness.machine
    class Order(Machine):
        @step
        def start(self, ctx: Any) -> Any:
            child = NewJob(id=new_job().id, kind="part", after=(new_job().id,))
            ledger.settle(ctx, Spawn([child]))

    (job_id,) = harness.enqueue(Order.build())
    summary = harness.drain()
    job = harness.get(job_id)
    assert (job.status, len(harness.attempts(job_id)), summary) == ("dead", 1, Summary(dead=1))
    assert f"could not be applied: {InvalidJob.__name__}" in (job.error or "")
    assert ledger.notes() == ["done"]
