"""Machines under a worker: versions side by side, unknown ones, and migrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Machine, Next, step
from headway.define import MachineKind
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import WorkerHarness

Lines = Callable[[str], list[Any]]


def two_versions(harness: WorkerHarness, *, migrate: Any = None) -> tuple[type[Machine], type[Machine]]:
    class One(Machine, version=1, name="m"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go", then=self.old_end)

        @step
        async def old_end(self, ctx: Context) -> Outcomes:
            return Done(["one", ctx.state])

    class Two(Machine, version=2, name="m", backoff="1h"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(["two", ctx.state])

    if migrate is not None:
        Two.migrate_from = migrate  # type: ignore[attr-defined]
    return One, Two


def test_rows_finish_on_the_version_that_they_began_with(harness: WorkerHarness) -> None:
    one, two = two_versions(harness)
    harness.machine(one)
    harness.machine(two)
    ids = harness.enqueue(one.build(n=1), two.build(n=2))
    harness.signal(ids[0], "go")
    harness.drain()
    assert [harness.get(job_id).result for job_id in ids] == [["one", {"n": 1}], ["two", {"n": 2}]]
    assert [harness.get(job_id).version for job_id in ids] == [1, 2]


def test_a_version_or_step_that_nobody_knows_waits_is_reported_and_runs_later(
    harness: WorkerHarness, lines: Lines
) -> None:
    one, two = two_versions(harness)
    harness.machine(one)
    (job_id,) = harness.enqueue(one.build(n=1))
    newer = _built_elsewhere(two, n=2)
    unknown_step = one.build(n=3)
    assert unknown_step.checkpoint is not None
    unknown_step = msgspec.structs.replace(
        unknown_step, checkpoint=msgspec.structs.replace(unknown_step.checkpoint, step="added_later")
    )
    newer_id, odd_id = harness.enqueue(newer, unknown_step)
    harness.drain()
    assert (harness.get(job_id).status, harness.get(newer_id).status, harness.get(odd_id).status) == (
        "waiting",
        "scheduled",
        "scheduled",
    )
    assert lines('no worker here knows version 2 of machine "m" (here: 1)')
    assert lines('no worker here knows step "added_later" of machine "m"')
    job = harness.get(newer_id)
    assert (job.tries, job.losses, harness.get(odd_id).tries) == (0, 0, 0)
    harness.machine(two)
    harness.make_due(newer_id)
    harness.drain()
    assert harness.get(newer_id).result == ["two", {"n": 2}]


def _built_elsewhere(machine: type[Machine], **fields: Any) -> Any:
    return MachineKind(machine).build(**fields)


def test_an_old_state_is_migrated_once_with_the_next_outcome(harness: WorkerHarness) -> None:
    calls: list[Any] = []

    def migrate(self: Any, version: int, state: Any) -> Any:
        calls.append((version, state))
        return Next("end", {**state, "migrated": True})

    one, two = two_versions(harness, migrate=migrate)
    (job_id,) = harness.enqueue(_built_elsewhere(one, n=1))
    other = WorkerHarness(harness.store)
    other.registry.machine(one)
    other.drain()
    assert (harness.get(job_id).status, harness.get(job_id).version) == ("waiting", 1)
    harness.machine(two)
    harness.signal(job_id, "go")
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.version, job.result) == ("succeeded", 2, ["two", {"n": 1, "migrated": True}])
    assert job.state == {"n": 1, "migrated": True}
    assert calls == [(1, {"n": 1})]
    assert [(attempt.step, attempt.version) for attempt in harness.attempts(job_id)] == [("start", 1), ("end", 2)]


def test_a_migration_is_written_with_the_outcome_and_not_before(harness: WorkerHarness) -> None:
    calls: list[Any] = []

    def migrate(self: Any, version: int, state: Any) -> Any:
        calls.append(version)
        return {**state, "migrated": len(calls)}

    class One(Machine, version=1, name="m"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done()

    class Two(Machine, version=2, name="m", backoff=lambda tries: 0):
        migrate_from = migrate

        @step
        async def start(self, ctx: Context) -> Outcomes:
            if ctx.tries == 0:
                raise ValueError("once")
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(ctx.state)

    harness.machine(Two)
    (job_id,) = harness.enqueue(_built_elsewhere(One, n=1))
    harness.drain()
    assert calls == [1, 1], "once for each try, and never after it was committed"
    job = harness.get(job_id)
    assert (job.version, job.result) == (2, {"n": 1, "migrated": 2})
    assert [attempt.version for attempt in harness.attempts(job_id)][1:] == [2, 2]


@pytest.mark.parametrize("fault", ["raises", "rubbish", "nowhere"])
def test_a_migration_that_fails_is_a_failure_of_the_step(harness: WorkerHarness, fault: str) -> None:
    def migrate(self: Any, version: int, state: Any) -> Any:
        if fault == "raises":
            raise ValueError("cannot migrate")
        return {"rubbish": 7, "nowhere": Next("nowhere", {})}[fault]

    one, two = two_versions(harness, migrate=migrate)
    harness.machine(two)
    (job_id,) = harness.enqueue(_built_elsewhere(one, n=1))
    assert harness.drain() == Summary(retried=1)
    job = harness.get(job_id)
    assert (job.status, job.tries, job.version, job.state) == ("scheduled", 1, 1, None)


def test_a_migration_that_fails_is_left_to_the_retry_policy(harness: WorkerHarness) -> None:
    calls: list[int] = []

    class One(Machine, version=1, name="m"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done()

    @harness.machine
    class Two(Machine, version=2, name="m", backoff=lambda tries: 0):
        class State(msgspec.Struct):
            orders: list[int]

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done(ctx.state.orders)

        def migrate_from(self, version: int, state: Any) -> Any:
            calls.append(version)
            if len(calls) == 1:
                raise OSError("the price list is away")
            return {"orders": [state["order"]]}

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return Done("handle cannot see a state that is not there yet")

    (job_id,) = harness.enqueue(_built_elsewhere(One, order=7))
    harness.drain()
    assert (harness.get(job_id).status, harness.get(job_id).result, calls) == ("succeeded", [7], [1, 1])
