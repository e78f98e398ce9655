"""ctx.settle: a handler's outcome and its own rows exist together or not at all, whatever happens around it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from headway import Cancel, Context, Done, Machine, Next, Retry, Snooze, step
from headway.app.why import why
from headway.errors import HeadwayError, InvalidOutcome, InvalidPayload, LeaseLost, NotAllowed
from headway.testing import context
from headway.worker import Summary
from tests.store.db import new_job
from tests.worker.ledger import Ledger
from tests.worker_harness import WorkerHarness

Lines = Callable[[str], list[Any]]


def test_a_plain_function_commits_its_result_with_its_rows(
    harness: WorkerHarness, ledger: Ledger, lines: Lines
) -> None:
    settled: list[Any] = []
    harness.hooks.on("job.settled", lambda event: settled.append(event.settlement))

    @harness.job
    def pay(ctx: Context) -> None:
        ctx.log("paying")
        ledger.settle(ctx, {"paid": 5})

    (job_id,) = harness.enqueue(pay.build())
    assert harness.drain() == Summary(succeeded=1)
    job = harness.get(job_id)
    assert (job.status, job.result, job.tries, ledger.notes()) == ("succeeded", {"paid": 5}, 0, ["done"])
    assert [(a.status, a.stdout_tail) for a in harness.attempts(job_id)] == [("succeeded", "paying")]
    assert [(each.to, each.result) for each in settled] == [("succeeded", '{"paid":5}')]
    assert lines("stands, and not") == []


def test_an_async_handler_awaits_asettle(harness: WorkerHarness, ledger: Ledger) -> None:
    @harness.job
    async def pay(ctx: Context) -> str:
        if harness.store.dialect == "sqlite":
            with ledger.transaction() as conn:
                ledger.write(conn, ctx)
                await ctx.asettle("paid", conn=conn)
        else:
            async with await psycopg.AsyncConnection.connect(harness.store.url) as conn:
                await conn.execute("insert into ledger values (%s, 'done')", (ctx.job_id,))
                await ctx.asettle("paid", conn=conn)
        return "paid"

    (job_id,) = harness.enqueue(pay.build())
    assert harness.drain() == Summary(succeeded=1)
    assert (harness.get(job_id).result, ledger.notes()) == ("paid", ["done"])


@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_after_a_rollback_the_ordinary_policy_applies(harness: WorkerHarness, ledger: Ledger, ends: str) -> None:
    @harness.job(max_attempts=2, backoff=lambda _: 0)
    def pay(ctx: Context) -> str:
        try:
            with ledger.transaction() as conn:
                ledger.write(conn, ctx)
                ctx.settle("committed", conn=conn)
                raise ConnectionError("before the commit")
        except ConnectionError:
            if ends == "raises":
                raise
        return "returned"

    (job_id,) = harness.enqueue(pay.build())
    summary = harness.drain()
    job = harness.get(job_id)
    assert ledger.notes() == []
    if ends == "returns":
        assert (job.status, job.result, summary) == ("succeeded", "returned", Summary(succeeded=1))
    else:
        assert (job.status, summary) == ("dead", Summary(retried=1, dead=1))
        assert "before the commit" in (job.error or "")


def test_after_the_commit_nothing_else_counts(harness: WorkerHarness, ledger: Ledger, lines: Lines) -> None:
    @harness.job
    def raises(ctx: Context) -> None:
        ledger.settle(ctx, 1)
        raise ValueError("too late")

    @harness.job
    async def returns(ctx: Context) -> int:
        with ledger.transaction() as conn:
            await ctx.asettle(1, conn=conn)
        return 2

    ids = harness.enqueue(raises.build(), returns.build())
    assert harness.drain() == Summary(succeeded=2)
    assert [(harness.get(each).status, harness.get(each).result) for each in ids] == [("succeeded", 1)] * 2
    assert [len(harness.attempts(each)) for each in ids] == [1, 1]
    (raised,) = lines("stands, and not what it raised")
    assert "too late" in str(raised.__dict__)
    assert len(lines("stands, and not what it returned")) == 1


def time_out(worker: Any) -> None:
    """The timeouts of all that it runs pass now."""
    for run in list(worker._runner.running.values()):
        worker._runner._time_out(run)


def test_a_function_past_its_timeout_has_what_it_committed(
    harness: WorkerHarness, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.run.STUBBORN_S", 0.02)
    started = threading.Semaphore(0)
    end = threading.Event()

    @harness.job(timeout="1h")
    async def asleep(ctx: Context) -> None:
        with ledger.transaction() as conn:
            await ctx.asettle("asleep", conn=conn)
        started.release()
        await asyncio.sleep(60)

    @harness.job(timeout="1h")
    def stubborn(ctx: Context) -> None:
        ledger.settle(ctx, "stubborn")
        started.release()
        end.wait(60)

    @harness.job(timeout="1h", max_attempts=1)
    def late(ctx: Context) -> None:
        started.release()
        end.wait(60)  # until long after its job was settled without it
        with pytest.raises(LeaseLost, match="does not run under fence 1 any more"):
            ledger.settle(ctx, "late", "late")

    async def story() -> list[str]:
        ids = harness.enqueue(asleep.build(), stubborn.build(), late.build())
        for _ in ids:
            await asyncio.to_thread(started.acquire, timeout=60)
        time_out(worker)
        for each in ids:
            await harness.until_status(each, "succeeded", "dead")
        end.set()
        return ids

    worker = harness.worker()
    ids, summary = harness.while_working(worker, story)
    assert [harness.get(each).status for each in ids] == ["succeeded", "succeeded", "dead"]
    assert [harness.get(each).result for each in ids] == ["asleep", "stubborn", None]
    assert summary == Summary(succeeded=2, dead=1)
    assert ledger.notes() == ["done"]


def test_a_timeout_that_is_settled_beside_the_open_transaction_loses_to_its_commit(
    harness: WorkerHarness, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker gives up on the handler while its transaction is open: the settle waits for it, then finds its
    outcome."""
    monkeypatch.setattr("headway.worker.run.STUBBORN_S", 0.02)
    written, end = threading.Event(), threading.Event()

    @harness.job(timeout="1h")
    def slow(ctx: Context) -> None:
        with ledger.transaction() as conn:
            ledger.write(conn, ctx)
            ctx.settle("slow", conn=conn)
            written.set()
            end.wait(60)

    async def story() -> str:
        (job_id,) = harness.enqueue(slow.build())
        await asyncio.to_thread(written.wait, 60)
        time_out(worker)
        await harness.until(lambda: worker._settler.backlog > 0)
        end.set()
        await harness.until_status(job_id, "succeeded", "scheduled", "dead")
        return job_id

    worker = harness.worker()
    job_id, summary = harness.while_working(worker, story)
    assert (harness.get(job_id).status, harness.get(job_id).result, ledger.notes()) == ("succeeded", "slow", ["done"])
    assert (len(harness.attempts(job_id)), summary) == (1, Summary(succeeded=1))


def test_a_cancel_after_the_commit_changes_no_success(harness: WorkerHarness, ledger: Ledger) -> None:
    committed, end = threading.Event(), threading.Event()

    @harness.job
    def pay(ctx: Context) -> None:
        ledger.settle(ctx, "paid")
        committed.set()
        end.wait(60)

    async def story() -> str:
        (job_id,) = harness.enqueue(pay.build())
        await asyncio.to_thread(committed.wait, 60)
        harness.cancel(job_id)
        end.set()
        await harness.until_status(job_id, "succeeded", "canceled")
        return job_id

    job_id, summary = harness.while_working(harness.worker(), story)
    assert (harness.get(job_id).status, summary) == ("succeeded", Summary(succeeded=1))


def test_a_stale_worker_cannot_commit_and_its_rows_are_rolled_back(harness: WorkerHarness, ledger: Ledger) -> None:
    taken, tried = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    @harness.job
    def pay(ctx: Context) -> None:
        if ctx.fence == 1:
            taken.wait(60)
        try:
            ledger.settle(ctx, f"by execution {ctx.fence}")
        except HeadwayError as error:
            errors.append(error)
            raise
        finally:
            tried.set()

    async def story() -> str:
        (job_id,) = harness.enqueue(pay.build())
        await harness.until_status(job_id, "running")
        # another worker takes the job over, while this one believes that it has it
        gone = harness.get(job_id).worker_id
        await harness.store.arun(harness.store.ops.reap([gone], limit=10))
        await harness.store.arun(harness.store.ops.promote(limit=10))
        harness.make_due(job_id)
        taken.set()
        await asyncio.to_thread(tried.wait, 60)
        await harness.until_status(job_id, "succeeded", "dead")
        return job_id

    job_id, _ = harness.while_working(harness.worker(), story)
    assert [type(error) for error in errors] == [LeaseLost]
    assert (harness.get(job_id).result, ledger.notes()) == ("by execution 2", ["done"])


@pytest.mark.parametrize(
    ("outcome", "status", "summary"),
    [
        (Done(3), "succeeded", Summary(succeeded=1)),
        (Retry("1h", "not yet"), "scheduled", Summary(retried=1)),
        (Snooze("1h"), "scheduled", Summary(snoozed=1)),
        (Cancel("enough"), "canceled", Summary(canceled=1)),
    ],
)
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_every_outcome_of_a_plain_job_can_be_committed(
    harness: WorkerHarness, ledger: Ledger, outcome: Any, status: str, summary: Summary, delivery: Any
) -> None:
    @harness.job(delivery=delivery)
    def pay(ctx: Context) -> None:
        ledger.settle(ctx, outcome)

    (job_id,) = harness.enqueue(pay.build())
    counted = harness.drain()
    assert ledger.notes() == ["done"]
    if delivery == "at_most_once" and status == "scheduled":
        assert harness.get(job_id).status == "failed"
        assert [job.status for job in harness.find(retry_of=job_id)] == ["scheduled"]
    else:
        assert (harness.get(job_id).status, counted) == (status, summary)


def test_what_is_no_outcome_is_refused_before_anything_is_written(harness: WorkerHarness, ledger: Ledger) -> None:
    refused: list[HeadwayError] = []

    @harness.job
    def pay(ctx: Context) -> str:
        with ledger.transaction() as conn:
            for outcome in (ValueError("no"), Retry, Next("second"), object(), "x" * 2_000_000):
                with pytest.raises((InvalidOutcome, InvalidPayload)) as caught:
                    ctx.settle(outcome, conn=conn)
                refused.append(caught.value)
            ledger.write(conn, ctx, "still usable")
            ctx.settle("at last", conn=conn)
        return "ignored"

    (job_id,) = harness.enqueue(pay.build())
    harness.drain()
    assert [type(each) for each in refused] == [InvalidOutcome] * 3 + [InvalidPayload] * 2
    assert "raise any other error" in str(refused[0])
    assert (harness.get(job_id).result, ledger.notes()) == ("at last", ["still usable"])


def test_a_secret_is_not_committed(harness: WorkerHarness, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cr3t-v4lue")

    @harness.job(max_attempts=1)
    def pay(ctx: Context) -> None:
        ledger.settle(ctx, {"token": ctx.secret("API_TOKEN")})

    @harness.job(max_attempts=1)
    def says(ctx: Context) -> None:
        ledger.settle(ctx, Cancel(f"refused with {ctx.secret('API_TOKEN')}"))

    ids = harness.enqueue(pay.build(), says.build())
    harness.drain()
    jobs = [harness.get(each) for each in ids]
    assert [job.status for job in jobs] == ["dead", "canceled"]
    assert "holds the value of the secret API_TOKEN" in (jobs[0].error or "")
    assert "s3cr3t" not in str(jobs)


def test_a_second_settle_is_refused_and_one_after_a_rollback_is_not(harness: WorkerHarness, ledger: Ledger) -> None:
    @harness.job
    def pay(ctx: Context) -> None:
        for result in ("first", "second"):
            try:
                with ledger.transaction() as conn:
                    ledger.write(conn, ctx, result)
                    ctx.settle(result, conn=conn)
                    if result == "first":
                        raise ConnectionError  # a deadlock, say: the loop tries the whole transaction again
            except ConnectionError:
                pass
        with pytest.raises(NotAllowed, match="has its outcome already"):
            ledger.settle(ctx, "third", "third")

    (job_id,) = harness.enqueue(pay.build())
    assert harness.drain() == Summary(succeeded=1)
    assert (harness.get(job_id).result, ledger.notes()) == ("second", ["second"])


def test_the_next_car_and_the_next_of_a_limit_wait_for_the_handler(harness: WorkerHarness, ledger: Ledger) -> None:
    running = 0

    @harness.job(train="t", concurrency=1)
    async def car(ctx: Context, n: int) -> None:
        nonlocal running
        running += 1
        assert running == 1
        with ledger.transaction() as conn:
            ledger.write(conn, ctx, str(n))
            await ctx.asettle(n, conn=conn)
        await asyncio.sleep(0.02)  # committed, and still at work
        running -= 1

    ids = harness.enqueue(*(car.build(n) for n in range(5)))
    assert harness.drain() == Summary(succeeded=5)
    assert [harness.get(each).result for each in ids] == list(range(5))
    starts = [(harness.last(each).started_at, harness.last(each).finished_at) for each in ids]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(starts) if end is not None)


def test_on_sqlite_a_write_beside_the_open_transaction_fails_at_once(harness: WorkerHarness, ledger: Ledger) -> None:
    said: list[str] = []

    def enqueue() -> None:
        try:
            harness.store.run(harness.store.ops.enqueue([new_job(kind="later", queue="other")]))
        except NotAllowed as error:
            said.append(str(error))

    @harness.job
    def pay(ctx: Context) -> None:
        with ledger.transaction() as conn:
            ctx.settle(conn=conn)
            ctx.progress(0.5)
            enqueue()
            harness.store.run_in(conn, harness.store.ops.enqueue([new_job(kind="inside", queue="other")]))
        enqueue()

    @harness.job
    async def apay(ctx: Context) -> None:
        with ledger.transaction() as conn:
            await ctx.asettle(conn=conn)
            try:
                await harness.store.arun(harness.store.ops.enqueue([new_job(kind="later", queue="other")]))
            except NotAllowed as error:
                said.append(str(error))
        await harness.store.arun(harness.store.ops.enqueue([new_job(kind="later", queue="other")]))

    harness.enqueue(pay.build(), apay.build())
    assert harness.drain() == Summary(succeeded=2)
    kinds = sorted(job.kind for job in harness.find(queue="other"))
    if harness.store.dialect == "postgres":
        assert (said, kinds) == ([], ["inside", *["later"] * 4])
    else:
        assert kinds == ["inside", "later", "later"]
        assert len(said) == 2
        assert all("pass conn=" in text and "still open" in text for text in said)


def test_why_tells_of_an_outcome_that_is_committed_and_not_settled_yet(harness: WorkerHarness, ledger: Ledger) -> None:
    ops, said = harness.store.ops, []

    def explain(ctx: Context) -> None:
        said.append(harness.store.run(why(ops, ctx.job_id, tenant_id=None)).reasons)

    @harness.job
    def pay(ctx: Context) -> None:
        explain(ctx)
        ledger.settle(ctx, Snooze("1h"))
        explain(ctx)

    @harness.machine
    class Shop(Machine):
        @step
        def start(self, ctx: Context) -> None:
            ledger.settle(ctx, Done())
            explain(ctx)

    harness.enqueue(pay.build())
    harness.drain()
    harness.enqueue(Shop.build())
    harness.drain()
    assert [reasons[0].partition(" with its own rows")[0] for reasons in said[1:]] == [
        "its handler has committed its outcome (snoozed)",
        "its handler has committed its outcome (done)",
    ]
    assert not any("committed" in reason for reason in said[0])


def test_a_context_without_a_worker_has_nothing_to_settle() -> None:
    with pytest.raises(NotAllowed, match="no worker runs this job"):
        Context(context().claim).settle(conn=object())
