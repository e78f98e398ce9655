"""Machines under a worker: steps one after another, and every outcome."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headway import Await, Context, Done, Machine, Next, Replay, Sleep, Spawn, Stop, step
from headway.define import new_job
from headway.model.job import Job
from headway.model.outcome import Outcomes
from headway.worker import Summary
from headway.worker import run as inline
from tests.worker_harness import WorkerHarness

# steps one after another


def test_sync_and_async_steps_follow_each_other_with_a_committed_state(harness: WorkerHarness) -> None:
    threads: list[str] = []

    @harness.machine
    class Walk(Machine, version=3):
        class State(msgspec.Struct):
            seen: list[str] = []

        @step
        async def start(self, ctx: Context) -> Outcomes:
            ctx.state.seen.append("start")
            return Next(self.middle)

        @step
        def middle(self, ctx: Context) -> Outcomes:
            threads.append(threading.current_thread().name)
            ctx.state.seen.append("middle")
            return Next("end", {"seen": [*ctx.state.seen, "by hand"]})

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([*ctx.state.seen, ctx.fence, ctx.tries])

    (job_id,) = harness.enqueue(Walk.build())
    assert harness.drain() == Summary(stepped=2, succeeded=1)
    job = harness.get(job_id)
    assert (job.status, job.result) == ("succeeded", ["start", "middle", "by hand", 3, 0])
    assert (job.step, job.version, job.state) == ("end", 3, {"seen": ["start", "middle", "by hand"]})
    assert harness.outcomes(job_id) == [("start", "next"), ("middle", "next"), ("end", "done")]
    assert [(attempt.fence, attempt.status, attempt.version) for attempt in harness.attempts(job_id)] == [
        (1, "succeeded", 3),
        (2, "succeeded", 3),
        (3, "succeeded", 3),
    ]
    assert [attempt.state for attempt in harness.attempts(job_id)] == [
        {"seen": ["start"]},
        {"seen": ["start", "middle", "by hand"]},
        None,
    ]
    assert threads[0].startswith("headway-")


def test_each_step_has_an_object_of_its_machine_and_a_state_of_its_own(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            self.remembered = 7
            ctx.state["uncommitted"] = True
            return Next(self.end, {"committed": True})

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([hasattr(self, "remembered"), ctx.state])

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    assert harness.get(job_id).result == [False, {"committed": True}]


def test_a_machine_enqueued_by_its_name_alone_begins_at_its_start(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine, version=4):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done(ctx.state["order"])

    (job_id,) = harness.enqueue(new_job("m", '{"order":42}', {}, now=0))
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.result, job.version, job.step) == ("succeeded", 42, 4, "end")


def test_steps_that_follow_each_other_stay_in_one_slot_and_let_others_go_first_in_time(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "INLINE_STEPS", 5)
    seen: list[str] = []

    @harness.machine
    class Long(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append("step")
            ctx.state["n"] = ctx.state.get("n", 0) + 1
            return Next(self.start) if ctx.state["n"] < 12 else Done(ctx.state["n"])

    @harness.job
    async def other() -> None:
        seen.append("other")

    (job_id, *_) = harness.enqueue(Long.build(), other.build(), other.build())
    harness.drain(queues={"default": 1})
    assert harness.get(job_id).result == 12
    # five in a row, then those that waited, then the rest
    assert seen == ["step"] * 5 + ["other"] * 2 + ["step"] * 7
    assert [attempt.fence for attempt in harness.attempts(job_id)] == list(range(1, 13))


def test_a_machine_lets_others_go_first_after_a_while(harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "INLINE_S", 0.0)
    seen: list[str] = []

    @harness.machine
    class Long(Machine):
        @step
        def start(self, ctx: Context) -> Outcomes:
            seen.append("step")
            return Next(self.end)

        @step
        def end(self, ctx: Context) -> Outcomes:
            seen.append("end")
            return Done()

    @harness.job
    def other() -> None:
        seen.append("other")

    harness.enqueue(Long.build(), other.build())
    harness.drain(queues={"default": 1})
    assert seen == ["step", "other", "end"]


def test_a_thousand_machines_go_through_their_steps(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.middle)

        @step
        async def middle(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    harness.enqueue(*(M.build() for _ in range(1_000)))
    assert harness.drain(queues={"default": 50}) == Summary(stepped=2_000, succeeded=1_000)


# the other outcomes


def test_await_parks_and_a_signal_wakes(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await(["payment", "refund"], then=self.paid, timeout="3d")

        @step
        async def paid(self, ctx: Context) -> Outcomes:
            return Done([[(s.name, s.payload) for s in ctx.signals], [s.name for s in ctx.inbox], ctx.timed_out])

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(stepped=1)
    job = harness.get(job_id)
    assert (job.status, job.step, job.awaiting, job.match) == ("waiting", "paid", ("payment", "refund"), "any")
    assert job.deadline_at is not None
    assert job.deadline_at - job.created_at > timedelta(days=2)
    harness.signal(job_id, "other")
    assert harness.drain() == Summary()
    harness.signal(job_id, "payment", {"amount": 100})
    assert harness.drain() == Summary(succeeded=1)
    assert harness.get(job_id).result == [[["payment", {"amount": 100}]], ["other", "payment"], False]
    there = harness.signals(job_id)
    assert [(each.name, each.status, each.fence) for each in there] == [
        ("other", "undelivered", None),
        ("payment", "consumed", 2),
    ]


def test_a_signal_that_came_before_the_await_is_enough(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.wait)

        @step
        async def wait(self, ctx: Context) -> Outcomes:
            return Await(["a", "b"], then=self.end, match="all")

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([signal.payload for signal in ctx.signals])

    (job_id,) = harness.enqueue(M.build())
    for number, name in enumerate(("b", "a", "b")):
        harness.signal(job_id, name, number)
    harness.drain()
    assert harness.get(job_id).result == [0, 1, 2]


def test_an_await_without_then_runs_the_same_step_again(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        class State(msgspec.Struct):
            votes: list[str] = []

        @step
        async def start(self, ctx: Context) -> Outcomes:
            ctx.state.votes += [signal.payload for signal in ctx.signals]
            return Done(ctx.state.votes) if len(ctx.state.votes) == 3 else Await("vote")

    (job_id,) = harness.enqueue(M.build())
    for voter in ("ada", "grace", "edsger"):
        harness.drain()
        harness.signal(job_id, "vote", voter)
    harness.drain()
    assert harness.get(job_id).result == ["ada", "grace", "edsger"]
    assert harness.outcomes(job_id) == [("start", "await")] * 3 + [("start", "done")]


def test_an_await_that_times_out_runs_all_the_same(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("payment", then=self.paid, timeout="30ms")

        @step
        async def paid(self, ctx: Context) -> Outcomes:
            return Stop("never paid") if ctx.timed_out else Done()

    (job_id,) = harness.enqueue(M.build())
    job, _ = harness.while_working(harness.worker(), lambda: harness.until_status(job_id, "failed", "succeeded"))
    assert (job.status, job.error) == ("failed", "never paid")
    assert [attempt.woken for attempt in harness.attempts(job_id)] == [None, "timeout"]


def test_a_signal_wakes_a_worker_at_once(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go") if not ctx.signals else Done(ctx.signals[0].payload)

    (job_id,) = harness.enqueue(M.build())

    async def story() -> Job:
        await harness.until_status(job_id, "waiting")
        await asyncio.to_thread(harness.signal, job_id, "go", 7)
        return await harness.until_status(job_id, "succeeded")

    job, summary = harness.while_working(harness.worker(), story)
    assert (job.result, summary) == (7, Summary(stepped=1, succeeded=1))


def test_sleep_and_replay_are_scheduled(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Sleep("2d", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Replay({"again": True}, delay="5h") if not ctx.state else Done(ctx.state)

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(stepped=1)
    job = harness.get(job_id)
    assert (job.status, job.step) == ("scheduled", "end")
    assert job.scheduled_for is not None
    assert job.scheduled_for - job.created_at > timedelta(days=1, hours=23)
    harness.make_due(job_id)
    assert harness.drain() == Summary(snoozed=1)
    job = harness.get(job_id)
    assert (job.status, job.step, job.state, job.tries) == ("scheduled", "end", {"again": True}, 0)
    harness.make_due(job_id)
    assert harness.drain() == Summary(succeeded=1)
    assert harness.get(job_id).result == {"again": True}
    assert harness.outcomes(job_id) == [("start", "sleep"), ("end", "replay"), ("end", "done")]


def test_a_short_sleep_is_over_without_a_tick(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Sleep(0.02, then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    (job_id,) = harness.enqueue(M.build())
    harness.while_working(harness.worker(), lambda: harness.until_status(job_id, "succeeded"))


def test_stop_has_failed_with_its_reason(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Stop("no way")

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(failed=1)
    job, attempt = harness.get(job_id), harness.last(job_id)
    assert (job.status, job.error, attempt.outcome, attempt.status) == ("failed", "no way", "stop", "failed")


@pytest.mark.parametrize("rubbish", [None, 7, "end", Next, Next("nowhere"), Next("start", 7), Await([]), Spawn([7])])
def test_a_step_that_returns_rubbish_has_failed_and_says_what_it_was(harness: WorkerHarness, rubbish: Any) -> None:
    @harness.machine
    class M(Machine, max_attempts=2, backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return rubbish

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(retried=1, dead=1)
    error = harness.get(job_id).error
    assert error is not None
    assert error.startswith(("m.start returned ", "m.start names ", "m: the state "))
    assert "Traceback" not in error


def test_a_result_that_cannot_be_stored_is_dead_at_once(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Done(object())

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(dead=1)
    assert "result" in str(harness.get(job_id).error)


def test_a_plain_job_that_returns_an_outcome_has_failed(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    async def work() -> Any:
        return Next("there")

    (job_id,) = harness.enqueue(work.build())
    assert harness.drain() == Summary(dead=1)
    assert "it is a plain job" in str(harness.get(job_id).error)
