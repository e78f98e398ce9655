"""What goes wrong between a worker and its database, and what is not lost by it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from headway import Context
from headway.errors import StoreError
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.job import Settlement
from headway.store.ops import Op, Statement, Steps
from headway.worker import Event, Summary, host
from headway.worker.wake import folder_of
from tests.worker_harness import FaultyStore, WorkerHarness


def test_outcomes_are_kept_while_the_database_is_away(harness: WorkerHarness, lines: Any) -> None:
    store = FaultyStore(harness.store)
    started, finish = asyncio.Event(), asyncio.Event()

    @harness.job
    async def works() -> str:
        started.set()
        await finish.wait()
        return "kept"

    async def story() -> str:
        (job_id,) = harness.enqueue(works.build())
        await started.wait()
        store.away = True
        finish.set()
        await harness.until(lambda: bool(lines("cannot be reached")))
        assert harness.get(job_id).status == "running"
        store.away = False
        await harness.until_status(job_id, "succeeded")
        return job_id

    job_id, summary = harness.while_working(harness.worker(store=store), story)
    assert harness.get(job_id).result == "kept"
    assert len(harness.attempts(job_id)) == 1
    assert summary == Summary(succeeded=1)
    assert len(lines("cannot be reached")) == 1
    assert len(lines("the database is back")) == 1


def test_jobs_of_a_claim_whose_answer_was_lost_are_run_once(harness: WorkerHarness) -> None:
    store = FaultyStore(harness.store)
    calls: list[int] = []

    @harness.job
    async def works(number: int) -> None:
        calls.append(number)

    cut = iter([True])
    # the only op that may not be repeated
    store.loses_answer = lambda op: not op.repeatable and next(cut, False)
    ids = harness.enqueue(*(works.build(number=number) for number in range(5)))
    assert harness.drain(store=store) == Summary(succeeded=5)
    assert sorted(calls) == list(range(5))
    for job_id in ids:
        job = harness.get(job_id)
        assert (job.tries, job.losses, job.fence, len(harness.attempts(job_id))) == (0, 0, 2, 1)


def test_an_outcome_that_the_store_refuses_ends_its_job_and_no_other(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultyStore(harness.store)
    settling: dict[int, list[Settlement]] = {}
    settle = store.ops.settle

    def remember(worker_id: str, settlements: list[Settlement]) -> Any:
        op = settle(worker_id, settlements)
        settling[id(op)] = [*settlements]
        return op

    monkeypatch.setattr(store.ops, "settle", remember, raising=False)

    def refuse(op: Any) -> Exception | None:
        refused = any(each.result == '"poison"' for each in settling.get(id(op), ()))
        return StoreError("violates a constraint") if refused else None

    store.refuses = refuse

    @harness.job
    async def gives(what: str) -> str:
        return what

    ids = harness.enqueue(*(gives.build("poison" if number == 6 else "fine") for number in range(10)))
    assert harness.drain(store=store) == Summary(succeeded=9, dead=1)
    assert [harness.get(job_id).status for job_id in ids] == ["succeeded"] * 6 + ["dead"] + ["succeeded"] * 3
    assert "StoreError: violates a constraint" in (harness.get(ids[6]).error or "")


def test_an_outcome_that_the_store_will_not_take_is_kept_and_its_job_not_run_again(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultyStore(harness.store)
    settle, stubborn, refusals = store.ops.settle, [], []

    def remember(worker_id: str, settlements: list[Settlement]) -> Any:
        op = settle(worker_id, settlements)
        if any(each.id == ids[3] for each in settlements):
            stubborn.append(op)
        return op

    monkeypatch.setattr(store.ops, "settle", remember, raising=False)

    def refuse(op: Any) -> Exception | None:
        if len(refusals) < 12 and any(op is each or op is each.fallback for each in stubborn):
            refusals.append(op)
            return StoreError("the file is read-only")
        return None

    store.refuses = refuse
    runs: list[int] = []

    @harness.job(delivery="at_most_once")
    async def works(number: int) -> None:
        runs.append(number)

    jobs = [works.build(number) for number in range(6)]
    ids = [job.id for job in jobs]
    harness.enqueue(*jobs)
    assert harness.drain(store=store).succeeded + harness.drain().succeeded >= 5
    assert sorted(runs) == [0, 1, 2, 3, 4, 5]
    assert len(refusals) == 12
    assert [len(harness.store.run(harness.store.ops.attempts(job_id, tenant_id=None))) for job_id in ids] == [1] * 6


def test_a_claim_that_is_answered_after_its_lease_was_lost_is_not_run(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may run these jobs by now."""
    runs: list[int] = []
    renewed = asyncio.Event()

    @harness.job
    async def works(ctx: Context) -> None:
        runs.append(ctx.fence)

    class Late(FaultyStore):
        async def arun(self, op: Any, **options: Any) -> Any:
            answer = await super().arun(op, **options)
            if claims.pop(id(op), None) is not None and answer and not renewed.is_set():
                old = worker._lease.worker_id
                await harness.store.arun(harness.store.ops.declare_dead(old, actor=None))
                await harness.until(lambda: worker._lease.worker_id != old)
                renewed.set()
            return answer

    store, claims = Late(harness.store), {}
    claim = store.ops.claim

    def remember(*args: Any, **options: Any) -> Any:
        op = claim(*args, **options)
        claims[id(op)] = op
        return op

    monkeypatch.setattr(store.ops, "claim", remember, raising=False)
    worker = harness.worker(store=store)

    async def story() -> None:
        (job_id,) = harness.enqueue(works.build())
        await renewed.wait()
        await harness.until(lambda: harness.get(job_id).status == "scheduled")
        harness.make_due(job_id)
        await harness.until_status(job_id, "succeeded")

    harness.while_working(worker, story)
    assert runs == [2]


def test_a_worker_that_was_reaped_starts_over_and_nothing_it_did_is_written(harness: WorkerHarness, lines: Any) -> None:
    started = asyncio.Event()
    cancelled: list[int] = []

    @harness.job(backoff="0s")
    async def works() -> str:
        if cancelled:
            return "second"
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)
        return "first"

    worker = harness.worker()

    async def story() -> tuple[str, str, str]:
        (job_id,) = harness.enqueue(works.build())
        await started.wait()
        before = worker.worker_id
        harness.store.run(harness.store.ops.reap([before], limit=10))
        await harness.until(lambda: worker.worker_id != before)
        await harness.until_status(job_id, "succeeded")
        return job_id, before, worker.worker_id

    (job_id, before, after), summary = harness.while_working(worker, story)
    first, second = harness.attempts(job_id)
    assert (first.status, first.worker_id) == ("lost", before)
    assert (second.status, second.worker_id, harness.get(job_id).result) == ("succeeded", after, "second")
    assert summary == Summary(succeeded=1, lost=1)
    (line,) = lines("the lease was lost")
    assert line.exc_info is None


def test_the_outcome_of_a_reaped_job_is_a_warning_and_not_written(harness: WorkerHarness, lines: Any) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    @harness.job
    async def works() -> str:
        started.set()
        await finish.wait()
        return "stale"

    # no beat comes before the outcome, so that the settle is what finds out
    worker = harness.worker(settings={"heartbeat_ms": 10**6, "pace_ms": 10**6, "idle_pace_ms": 10**6})

    async def story() -> str:
        (job_id,) = harness.enqueue(works.build())
        await started.wait()
        harness.store.run(harness.store.ops.reap([worker.worker_id], limit=10))
        finish.set()
        await harness.until(lambda: bool(lines("lost claims were not written")))
        return job_id

    job_id, summary = harness.while_working(worker, story)
    assert [attempt.status for attempt in harness.attempts(job_id)] == ["lost"]
    assert harness.get(job_id).result is None
    assert summary.lost == 1


@contextmanager
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """A process of this machine that stands for a worker's."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def _dead_process() -> tuple[int, str]:
    """The pid and start time of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = host.process_started(process.pid)
        process.communicate(b"\n")
    assert started is not None
    return process.pid, started


def _register(harness: WorkerHarness, pid: int, started: str | None) -> str:
    worker = NewWorker(
        id=new_id(),
        hostname=host.hostname(),
        pid=pid,
        machine=host.machine(),
        process_started=started,
        version="0",
        queues={"default": 1},
        kinds=(),
        concurrency=1,
        lease_ms=3_600_000,
    )
    harness.store.run(harness.store.ops.register(worker))
    return worker.id


@pytest.mark.skipif(host.machine() is None, reason="needs /proc")
def test_a_starting_worker_reaps_the_dead_of_its_machine_and_nobody_else(harness: WorkerHarness) -> None:
    reaped: list[Event] = []
    harness.hooks.on("worker.reaped", reaped.append)

    @harness.job(backoff="0s")
    async def works() -> None:
        pass

    pid, started = _dead_process()
    gone = _register(harness, pid, started)
    alive = _register(harness, pid, None)  # may be anywhere
    first, second = harness.enqueue(works.build(), works.build())
    harness.store.run(harness.store.ops.claim(gone, "default", 1))
    harness.store.run(harness.store.ops.claim(alive, "default", 1))

    async def story() -> None:
        await harness.until_status(first, "succeeded")

    harness.while_working(harness.worker(), story)
    assert [attempt.status for attempt in harness.attempts(first)] == ["lost", "succeeded"]
    assert harness.get(second).status == "running"
    (event,) = reaped
    assert (event.worker_id, [each.job_id for each in event.reaped]) == (gone, [first])


@pytest.mark.skipif(host.machine() is None, reason="needs /proc")
def test_it_has_reaped_them_when_it_claims_for_the_first_time(harness: WorkerHarness) -> None:
    """Who is killed as soon as it runs something must have done that much."""
    seen: list[str] = []

    @harness.job(backoff="1h")
    def looks() -> None:
        seen.append(harness.get(first).status)

    gone = _register(harness, *_dead_process())
    (first,) = harness.enqueue(looks.build())
    harness.store.run(harness.store.ops.claim(gone, "default", 1))
    harness.enqueue(*(looks.build() for _ in range(5)))
    harness.drain()
    assert seen == ["scheduled"] * 5


@pytest.mark.skipif(host.machine() is None, reason="needs /proc")
@pytest.mark.parametrize("live_store", ["postgres"], indirect=True)  # SQLite has no locks of rows
def test_a_job_that_was_locked_is_reaped_by_a_later_round(harness: WorkerHarness, lines: Any) -> None:
    @harness.job(backoff="0s")
    async def works() -> None:
        pass

    gone = _register(harness, *_dead_process())
    (job_id,) = harness.enqueue(works.build())
    harness.store.run(harness.store.ops.claim(gone, "default", 1))
    with psycopg.connect(harness.store.url) as other:
        other.execute("select from headway.jobs where id = %s for update", [job_id])

        async def story() -> None:
            await harness.until(lambda: bool(lines("worker started")))
            assert harness.get(job_id).status == "running"
            other.rollback()
            await harness.until_status(job_id, "succeeded")

        harness.while_working(harness.worker(settings={"reap_every_ms": 50}), story)
    assert [each.status for each in harness.attempts(job_id)] == ["lost", "succeeded"]


def test_a_worker_reaps_only_after_one_lease_within_reach_of_the_database(harness: WorkerHarness) -> None:
    @harness.job(backoff="0s")
    async def works() -> None:
        pass

    short = NewWorker(
        id=new_id(),
        hostname="elsewhere",
        pid=1,
        machine=None,
        process_started=None,
        version="0",
        queues={"default": 1},
        kinds=(),
        concurrency=1,
        lease_ms=1,
    )
    (job_id,) = harness.enqueue(works.build())
    harness.store.run(harness.store.ops.register(short))
    harness.store.run(harness.store.ops.claim(short.id, "default", 1))

    async def story() -> datetime:
        await harness.until_status(job_id, "succeeded")
        (worker,) = harness.store.run(harness.store.ops.workers())
        return worker.started_at

    began, _ = harness.while_working(harness.worker(settings={"lease_ms": 1_500}), story)
    lost = harness.attempts(job_id)[0]
    assert (lost.status, lost.finished_at is not None and lost.finished_at >= began + timedelta(seconds=1.5)) == (
        "lost",
        True,
    )


@pytest.mark.skipif(host.machine() is None, reason="needs /proc")
@pytest.mark.parametrize("hints", [True, False])
def test_a_running_worker_takes_over_from_a_neighbour_that_is_killed(
    harness: WorkerHarness, hints: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before its lease is over, whether it was there first or came later; one whose process runs is left alone."""
    monkeypatch.setattr("headway.worker.maintenance.LOOK_EVERY_S", 0.05)

    @harness.job(backoff="1h")
    async def works() -> None:
        pass

    def lost(job_id: str) -> bool:
        return [attempt.status for attempt in harness.attempts(job_id)] == ["lost"]

    with neighbour() as first, neighbour() as later, neighbour() as alive:
        ids = harness.enqueue(*(works.using(queue="aside").build() for _ in range(3)))

        def takes(process: subprocess.Popen[bytes]) -> None:
            worker_id = _register(harness, process.pid, host.process_started(process.pid))
            assert len(harness.store.run(harness.store.ops.claim(worker_id, "aside", 1))) == 1

        async def story() -> None:
            first.kill()
            await harness.until(lambda: lost(ids[0]))
            takes(later)
            takes(alive)
            if hints:  # its socket tells of it
                folder = folder_of(harness.store.install_id)
                assert folder is not None
                await harness.until(lambda: os.path.isdir(folder))
                with tempfile.NamedTemporaryFile(dir=folder):
                    pass
            later.kill()
            await harness.until(lambda: lost(ids[1]))

        takes(first)
        harness.while_working(
            harness.worker(settings={"hints": hints, "reap_every_ms": 100_000 if hints else 100}), story
        )
        assert harness.get(ids[2]).status == "running"


def test_a_process_is_gone_only_if_that_can_be_proved(harness: WorkerHarness) -> None:
    if host.machine() is None:
        pytest.skip("needs /proc")
    pid, started = _dead_process()
    here = host.process_started(os.getpid())
    ids = {
        _register(harness, pid, started): True,
        _register(harness, os.getpid(), here): False,
        _register(harness, os.getpid(), "1"): True,  # the pid was given to another process
        _register(harness, pid, None): None,
    }
    workers = harness.store.run(harness.store.ops.workers())
    assert {worker.id: host.is_gone(worker) for worker in workers} == ids


def test_what_is_older_than_its_retention_is_pruned(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.worker.maintenance.PRUNE_EVERY_S", 0.01)

    @harness.job(max_attempts=1)
    async def works(*, well: bool) -> None:
        if not well:
            raise ValueError

    def windows() -> Steps[int]:
        schema = "headway." if harness.store.dialect == "postgres" else ""
        return int((yield Statement(f"select count(*) from {schema}unique_windows"))[0][0])

    async def story() -> tuple[str, str]:
        brief = works.using(unique_key="k", unique_for="1ms").build(well=True)
        good, bad, _ = harness.enqueue(works.build(well=True), works.build(well=False), brief)
        await harness.until_status(bad, "dead")
        await harness.until(lambda: harness.store.run(Op(windows, writes=False)) == 0)
        await harness.until(lambda: not harness.store.run(harness.store.ops.get([good], tenant_id=None)))
        return good, bad

    retention = {"succeeded": 0, "dead": 3_600_000}
    (_, bad), _ = harness.while_working(harness.worker(settings={"retention_ms": retention}), story)
    assert harness.get(bad).status == "dead"


def test_a_worker_that_ends_before_its_first_round_prunes_too(harness: WorkerHarness) -> None:
    @harness.job
    async def works() -> None: ...

    (job_id,) = harness.enqueue(works.build())
    harness.drain(settings={"retention_ms": {"succeeded": 0}})
    assert harness.store.run(harness.store.ops.get([job_id], tenant_id=None)) == []


def test_a_transaction_that_holds_one_running_job_holds_up_no_other(harness: WorkerHarness) -> None:
    """As after `begin; select headway.cancel(…)`. On SQLite, where a writer holds all, it reads."""
    started, finish = asyncio.Event(), asyncio.Event()

    @harness.job
    async def held(ctx: Context) -> str:
        ctx.log("begun")
        ctx.progress(0.5)
        started.set()
        await finish.wait()
        ctx.log("done")
        return "kept"

    @harness.job
    async def quick(ctx: Context) -> None:
        ctx.log("quick")

    async def story() -> None:
        (job_id,) = harness.enqueue(held.build())
        await started.wait()
        with harness.transaction("select from headway.jobs where id = %s for update", job_id) as other:
            finish.set()
            for _ in range(3):
                for quick_id in harness.enqueue(*(quick.build() for _ in range(5))):
                    await harness.until_status(quick_id, "succeeded")
                    assert harness.last(quick_id).stdout_tail == "quick"
            if other == "holds":
                assert harness.get(job_id).status == "running"
        job = await harness.until_status(job_id, "succeeded")
        assert (job.result, harness.last(job_id).stdout_tail) == ("kept", "begun\ndone")

    _, summary = harness.while_working(harness.worker(), story)
    assert summary == Summary(succeeded=16)


def test_a_worker_starts_beside_rows_that_nobody_can_read(harness: WorkerHarness) -> None:
    @harness.job
    async def works() -> None: ...

    bad, good = harness.enqueue(works.build(), works.build())
    worst = "-infinity" if harness.store.dialect == "postgres" else -(2**62)
    harness.sql(
        "update {}jobs set payload = ?, created_at = ?, queued_at = ? where id = ?", "[1e999]", worst, worst, bad
    )
    summary = harness.drain()
    assert (summary.succeeded, harness.get(good).status) == (1, "succeeded")
    assert harness.get(bad).payload.startswith("unreadable: ")
