"""Steps of flows: what is kept of them, under which name, how often they are tried, and what comes of their errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from headway import Cancel, Context, Flow
from headway.define import flow_step
from headway.errors import StepFailed
from headway.worker import flow_execution
from tests.worker.ledger import Ledger
from tests.worker_harness import FaultyStore, WorkerHarness


def test_a_record_has_the_name_that_was_given_or_the_function_s_and_its_number(harness: WorkerHarness) -> None:
    def fetch(x: int) -> int:
        return x * x

    @harness.flow
    async def f(flow: Flow) -> list[int]:
        load = flow.using(name="load")
        got = [
            await flow.step(fetch, 1),
            await load.step(fetch, 2),
            await flow.step(fetch, 3),
            await load.step(fetch, 4),
        ]
        await flow.receive("go")
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert [place for _, place in harness.journal(job_id)[:4]] == ["fetch", "load", "fetch#2", "load#2"]
    assert harness.get(job_id).result == [1, 4, 9, 16]


def test_options_of_using_come_before_those_of_the_step_before_those_of_the_flow(harness: WorkerHarness) -> None:
    @flow_step(max_attempts=3, backoff=0.001)
    def marked() -> None:
        raise ValueError

    def plain() -> None:
        raise ValueError

    async def tries(flow: Flow, f: Callable[[], None]) -> int:
        try:
            await flow.step(f)
        except StepFailed as failed:
            return failed.tries
        return 0

    @harness.flow(max_attempts=2, backoff=0.001)
    async def f(flow: Flow) -> list[int]:
        return [await tries(each, step) for each in (flow, flow.using(max_attempts=4)) for step in (plain, marked)]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == [2, 3, 4, 4]
    with pytest.raises(ValueError, match=r"^$"):
        marked()  # a plain function outside of a flow


def test_the_next_line_runs_when_the_row_is_committed(harness: WorkerHarness) -> None:
    store = FaultyStore(harness.store)
    seen: list[bool] = []

    def charge() -> str:
        store.away = True  # before its row can be written
        return "charged"

    @harness.flow
    async def f(flow: Flow) -> None:
        await flow.step(charge)
        seen.append(store.away)

    (job_id,) = harness.enqueue(f.build())

    async def story() -> None:
        await harness.until(lambda: store.away)
        await asyncio.sleep(0.05)  # time enough for a wrong line
        assert seen == []
        assert harness.journal(job_id) == []
        store.away = False
        await harness.until_status(job_id, "succeeded")

    harness.while_working(harness.worker(store=store), story)
    assert seen == [False]


def test_a_function_whose_claim_is_lost_ends_at_its_next_record(harness: WorkerHarness) -> None:
    ran: list[tuple[str, int]] = []

    def lose(ctx: Context) -> str:
        ran.append(("lose", ctx.fence))
        if ctx.fence == 1:
            harness.sql("update {}jobs set status = 'queued', worker_id = null, attempt_started_at = null")
        return f"by {ctx.fence}"

    def after(ctx: Context) -> None:
        ran.append(("after", ctx.fence))

    @harness.flow
    async def f(flow: Flow) -> str:
        got = await flow.step(lose)
        await flow.step(after)
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.drain()
    assert ran == [("lose", 1), ("lose", 2), ("after", 2)]
    assert harness.get(job_id).result == "by 2"


def test_steps_of_except_and_finally_run_once(harness: WorkerHarness) -> None:
    ran: list[str] = []

    def do(what: str) -> None:
        ran.append(what)
        if what == "fails":
            raise ValueError(what)

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> None:
        try:
            await flow.step(do, "works")
            await flow.receive("go")
            await flow.step(do, "fails")
        except StepFailed:
            await flow.step(do, "undo")
            await flow.receive("go")
        finally:
            await flow.step(do, "finally")
            await flow.receive("go")

    (job_id,) = harness.enqueue(f.build())
    for _ in range(3):
        harness.drain()
        assert harness.get(job_id).status == "waiting"
        harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).status == "succeeded"
    assert ran == ["works", "fails", "undo", "finally"]


async def _asked_later(error: BaseException) -> bool:
    await asyncio.sleep(0)
    return "again" in str(error)


@pytest.mark.parametrize("ask", [lambda error: "again" in str(error), _asked_later], ids=["sync", "async"])
def test_a_predicate_says_whether_another_try_is_worth_it(
    harness: WorkerHarness, ask: Callable[[BaseException], bool | Awaitable[bool]]
) -> None:
    asked: list[str] = []

    def retry_if(error: BaseException) -> bool | Awaitable[bool]:
        asked.append(str(error))
        return ask(error)

    def fails(ctx: Context, *errors: str) -> None:
        raise ValueError(errors[ctx.tries])

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        careful = flow.using(max_attempts=2, backoff=0.001, retry_if=retry_if)
        got = []
        for errors in (["again 1", "again 2"], ["for good", "again 3"]):
            try:
                await careful.step(fails, *errors)
            except StepFailed as failed:
                got.append([failed.tries, failed.reason])
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == [[2, "again 2"], [1, "for good"]]
    assert asked == ["again 1", "again 2", "for good"]  # on the last try, too


def test_tries_before_a_stop_count(still: WorkerHarness, clock: Any) -> None:
    """Parked between two tries, then run by another worker."""
    tries: list[int] = []

    def charge(ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise ValueError(f"declined {ctx.attempt}")

    @still.flow(max_attempts=1)
    async def f(flow: Flow) -> list[Any]:
        try:
            await flow.using(max_attempts=3, backoff="1h").step(charge)
        except StepFailed as failed:
            return [failed.tries, failed.reason]
        return []

    (job_id,) = still.enqueue(f.build())
    for count in (1, 2, 3):
        still.drain()
        still.drain()  # nothing before its time
        assert len(tries) == count
        clock.advance("6h")
    assert still.get(job_id).result == [3, "declined 3"]
    rows = still.store.run(still.store.ops.journal([job_id])).rows
    assert [row.error.splitlines()[-1] for row in rows if row.error] == [
        "ValueError: declined 1",
        "ValueError: declined 2",
        "declined 3",
    ]


def test_no_try_begins_once_the_worker_stops(still: WorkerHarness, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tries it only waits, so it parks at once, also if the next one is near; the tries so far count."""
    monkeypatch.setattr(flow_execution, "IN_MEMORY_S", 600.0)
    tries: list[int] = []

    def charge(ctx: Context) -> None:
        tries.append(ctx.attempt)
        raise ValueError("declined")

    @still.flow(max_attempts=1)
    async def f(flow: Flow) -> None:
        await flow.using(max_attempts=2, backoff="5m").step(charge)

    (job_id,) = still.enqueue(f.build())

    async def tried() -> None:
        await still.until(lambda: ("tried", "charge") in still.journal(job_id))

    still.while_working(still.worker(settings={"grace_ms": 500_000}), tried)
    assert (still.get(job_id).status in ("waiting", "queued"), tries) == (True, [1])
    monkeypatch.undo()
    still.drain()
    assert (still.get(job_id).status, tries) == ("waiting", [1])
    clock.advance("10m")
    still.drain()
    assert (still.get(job_id).status, tries) == ("dead", [1, 2])


def test_a_retry_gives_a_step_all_its_tries_again(harness: WorkerHarness) -> None:
    tries: list[int] = []

    def charge(ctx: Context) -> str:
        tries.append(ctx.attempt)
        if len(tries) < 5:
            raise ValueError("declined")
        return "charged"

    @harness.flow
    async def f(flow: Flow) -> str:
        return await flow.using(max_attempts=3, backoff=0.001).step(charge)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert (harness.get(job_id).status, tries) == ("dead", [1, 2, 3])
    harness.retry(job_id)
    harness.drain()
    assert harness.get(job_id).result == "charged"
    assert tries == [1, 2, 3, 1, 2]


def test_tries_of_a_step_and_of_its_flow_are_counted_apart(harness: WorkerHarness) -> None:
    ran: list[str] = []

    def step(ctx: Context) -> None:
        ran.append(f"step {ctx.tries}")
        if ctx.tries < 2:
            raise ValueError

    @harness.flow(max_attempts=3, backoff=0.001)
    async def f(flow: Flow) -> None:
        await flow.using(max_attempts=3).step(step)
        ran.append("flow")
        if ran.count("flow") < 3:
            raise KeyError("a bug")

    (job_id,) = harness.enqueue(f.build())
    harness.while_working(harness.worker(), lambda: harness.until_status(job_id, "succeeded", "dead"))
    assert harness.get(job_id).status == "succeeded"
    assert ran == ["step 0", "step 1", "step 2", "flow", "flow", "flow"]


def test_an_error_that_is_final_is_not_tried_again_and_may_be_looked_at(harness: WorkerHarness) -> None:
    ran: list[str] = []

    def refuse(how: str) -> None:
        ran.append(how)
        raise Cancel("stolen card") if how == "cancel" else KeyError(how)

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        got: list[Any] = []
        for how in ("cancel", "discarded"):
            try:
                await flow.using(discard_on=KeyError, backoff=0.001).step(refuse, how)
            except StepFailed as failed:
                got.append([failed.kind, failed.reason, failed.tries])
        return [*got, await flow.step(str, "on")]

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == [["Cancel", "stolen card", 1], ["KeyError", "'discarded'", 1], "on"]
    assert ran == ["cancel", "discarded"]


def test_a_timeout_as_a_step_ends_leaves_what_it_gave_or_raised(harness: WorkerHarness) -> None:
    async def hear(ends: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:  # its timeout: it ends by itself meanwhile
            if ends == "raises":
                raise KeyError("its own") from None
        return "done after all"

    @harness.flow
    async def f(flow: Flow) -> list[Any]:
        timed = flow.using(timeout=0.01, max_attempts=1)
        got: list[Any] = [await timed.step(hear, "returns")]
        try:
            await timed.step(hear, "raises")
        except StepFailed as failed:
            got.append(failed.kind)
        await flow.receive("go")
        return got

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert harness.get(job_id).result == ["done after all", "KeyError"]


def test_a_transaction_that_the_database_gives_up_is_a_failed_try(harness: WorkerHarness, ledger: Ledger) -> None:
    tries: list[int] = []

    def pay(ctx: Context) -> str:
        tries.append(ctx.tries)
        with ledger.transaction() as conn:
            ledger.write(conn, ctx, f"try {ctx.tries}")
            ctx.settle(f"paid by try {ctx.tries}", conn=conn)
            if ctx.tries == 0:
                raise psycopg.errors.SerializationFailure("could not serialize access")
        return "not this"

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> str:
        return await flow.using(max_attempts=2, backoff=0.001).step(pay)

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    assert harness.get(job_id).result == "paid by try 1"
    assert (tries, ledger.notes()) == ([0, 1], ["try 1"])
    assert harness.outcomes(job_id) == [("$flow", "done")]


def test_an_error_in_a_step_s_own_transaction_is_kept_though_its_rows_are_not(
    harness: WorkerHarness, ledger: Ledger
) -> None:
    def pay(ctx: Context) -> None:
        with ledger.transaction() as conn:
            ledger.write(conn, ctx)
            raise ValueError("declined")

    @harness.flow(max_attempts=1)
    async def f(flow: Flow) -> str:
        try:
            await flow.step(pay)
        except StepFailed as failed:
            await flow.receive("go")
            return failed.reason
        return ""

    (job_id,) = harness.enqueue(f.build())
    harness.drain()
    harness.signal(job_id, "go")
    harness.drain()
    assert (harness.get(job_id).result, ledger.notes()) == ("declined", [])
