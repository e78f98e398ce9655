"""Outcomes that a database cannot take all at once, or not now: none is lost, none condemned that could be written."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from headway.errors import StoreFailed, StoreUnavailable
from headway.model.ids import new_id
from headway.model.job import NewJob, Settlement
from headway.store.postgres import store as postgres_store
from headway.worker import Summary
from tests.worker_harness import FaultyStore, WorkerHarness


def _watch(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[Settlement]]:
    """What each op settles, by the op's id."""
    settling: dict[int, list[Settlement]] = {}
    made: list[Any] = []  # so that no two have one id
    settle = store.ops.settle

    def remember(worker_id: str, settlements: list[Settlement]) -> Any:
        op = settle(worker_id, settlements)
        made.append(op)
        settling[id(op)] = settling[id(op.fallback)] = [*settlements]
        return op

    monkeypatch.setattr(store.ops, "settle", remember, raising=False)
    return settling


def test_large_outcomes_are_written_in_batches_of_few(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.worker.settle.BATCH_BYTES", 300_000)
    store = FaultyStore(harness.store)
    settling = _watch(store, monkeypatch)

    @harness.job
    async def works() -> str:
        return "x" * 100_000

    harness.enqueue(*(works.build() for _ in range(30)))
    assert harness.drain(store=store, queues={"default": 30}) == Summary(succeeded=30)
    assert max(len(batch) for batch in settling.values()) == 2  # with its quotes, the third is over it


def test_nothing_is_claimed_while_large_outcomes_wait(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.worker.settle.BACKLOG_BYTES", 250_000)
    store = FaultyStore(harness.store)
    settling = _watch(store, monkeypatch)
    away = [True]
    began: list[int] = []

    def refuse(op: Any) -> Exception | None:
        return StoreUnavailable("no settle now") if away[0] and settling.get(id(op)) else None

    store.refuses = refuse

    @harness.job
    async def works(number: int) -> str:
        began.append(number)
        return "x" * 100_000

    worker = harness.worker(store=store, queues={"default": 1})

    async def story() -> None:
        ids = harness.enqueue(*(works.build(number) for number in range(6)))
        await harness.until(lambda: worker._settler.backlog >= 3)
        await worker._fetcher._round()
        assert (began, worker._settler.backlog) == ([0, 1, 2], 3)
        away[0] = False
        await harness.until(lambda: all(harness.get(job_id).status == "succeeded" for job_id in ids))
        await harness.until(lambda: worker._settler._size == 0)

    harness.while_working(worker, story)


def test_what_the_database_fails_at_is_tried_in_smaller_parts(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultyStore(harness.store)
    settling = _watch(store, monkeypatch)
    store.refuses = lambda op: StoreFailed("too slow") if len(settling.get(id(op), ())) > 3 else None

    @harness.job
    async def works() -> None: ...

    harness.enqueue(*(works.build() for _ in range(40)))
    assert harness.drain(store=store, queues={"default": 40}) == Summary(succeeded=40)


def test_what_takes_too_long_for_one_call_is_tried_in_smaller_parts(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that got no answer in time looks like a database that is away: it may have been too much for the time."""
    store = FaultyStore(harness.store)
    settling = _watch(store, monkeypatch)
    refused: list[int] = []

    def refuse(op: Any) -> Exception | None:
        many = len(settling.get(id(op), ()))
        if many <= 20 or len(refused) == 3:
            return None
        refused.append(many)
        return StoreUnavailable("no answer in time")

    store.refuses = refuse
    began = 0
    all_began = asyncio.Event()

    @harness.job
    async def works() -> None:
        nonlocal began
        began += 1
        if began == 40:
            all_began.set()
        await all_began.wait()

    harness.enqueue(*(works.build() for _ in range(40)))
    assert harness.drain(store=store, queues={"default": 40}) == Summary(succeeded=40)
    assert len(refused) == 1, refused


def test_an_outcome_that_the_database_fails_at_is_kept_and_not_condemned(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultyStore(harness.store)
    settling = _watch(store, monkeypatch)
    failures: list[Any] = []

    def fail(op: Any) -> Exception | None:
        if len(failures) < 8 and any(each.result == '"unlucky"' for each in settling.get(id(op), ())):
            failures.append(op)
            return StoreFailed("cache lookup failed for function 4711")
        return None

    store.refuses = fail

    @harness.job
    async def gives(what: str) -> str:
        return what

    ids = harness.enqueue(*(gives.build("unlucky" if number == 2 else "fine") for number in range(5)))
    assert harness.drain(store=store) == Summary(succeeded=5)
    assert len(failures) == 8
    assert {(harness.get(job_id).status, harness.get(job_id).fence) for job_id in ids} == {("succeeded", 1)}


# as PostgreSQL itself fails


@pytest.fixture
def pg(postgres_store: Any) -> WorkerHarness:
    return WorkerHarness(postgres_store)


def _on_every_attempt(harness: WorkerHarness, body: str) -> None:
    """Somebody's trigger on what a settle writes."""
    with psycopg.connect(harness.store.url, autocommit=True) as conn:
        conn.execute("create sequence public.calls")
        conn.execute(f"create function public.hinder() returns trigger language plpgsql as $$ begin {body} end $$")
        conn.execute("create trigger hinder before insert on headway.attempts for each row execute function hinder()")


def test_under_a_statement_timeout_outcomes_are_written_in_batches_that_meet_it(pg: WorkerHarness) -> None:
    _on_every_attempt(pg, "perform pg_catalog.pg_sleep(0.04); return new;")

    @pg.job
    async def works() -> None: ...

    ids = pg.enqueue(*(works.build() for _ in range(40)))
    with psycopg.connect(pg.store.url, autocommit=True) as conn:
        conn.execute(f"alter database {conn.info.dbname} set statement_timeout = '1s'")
    pg.store.close()
    assert pg.drain(queues={"default": 40}) == Summary(succeeded=40)
    assert {pg.get(job_id).fence for job_id in ids} == {1}


@pytest.mark.parametrize("code", ["XX000", "53200", "P0001"])
def test_an_internal_error_is_not_the_jobs_fault(pg: WorkerHarness, code: str) -> None:
    _on_every_attempt(
        pg,
        f"if nextval('public.calls') <= 12 then raise 'lookup failed' using errcode = '{code}'; end if; return new;",
    )

    @pg.job
    async def works() -> str:
        return "done"

    ids = pg.enqueue(*(works.build() for _ in range(3)))
    assert pg.drain() == Summary(succeeded=3)
    assert {(pg.get(job_id).result, pg.get(job_id).fence) for job_id in ids} == {("done", 1)}


@pytest.mark.parametrize("code", ["22P02", "54000"])
def test_an_error_of_its_data_ends_that_job_alone(pg: WorkerHarness, code: str) -> None:
    _on_every_attempt(
        pg, f"if new.status = 'succeeded' then raise 'unfit' using errcode = '{code}'; end if; return new;"
    )

    @pg.job
    async def works() -> None: ...

    (job_id,) = pg.enqueue(works.build())
    assert pg.drain() == Summary(dead=1)
    assert f"refused the operation ({code}): unfit" in (pg.get(job_id).error or "")


def test_what_is_too_large_for_one_statement_is_refused_before_it_is_sent(
    pg: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "_LARGEST", 10_000)
    jobs = [NewJob(id=new_id(), kind="k", payload='"' + "x" * 900 + '"') for _ in range(20)]
    with pytest.raises(Exception, match="Nothing was written: do it in smaller parts"):
        pg.store.run(pg.store.ops.enqueue(jobs))
    assert len(pg.store.run(pg.store.ops.enqueue(jobs[:5]))) == 5

    @pg.job
    async def works(size: int) -> str:
        return "x" * size

    large, small = pg.enqueue(works.build(20_000), works.build(1_000))
    assert pg.drain() == Summary(succeeded=1, dead=1)
    assert "in smaller parts" in (pg.get(large).error or "")
    assert pg.get(small).status == "succeeded"
    asyncio.run(pg.store.leave_loop())
