"""Machines under a worker: what their steps raise, what `handle` makes of it, timeouts, and delivery."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headway import Await, Cancel, Context, Done, Machine, Next, Replay, Retry, Snooze, Stop, step
from headway.model.outcome import Outcomes
from headway.worker import Summary
from tests.worker_harness import WorkerHarness

# what steps raise


def test_tries_belong_to_the_step_and_begin_anew_with_the_next(harness: WorkerHarness) -> None:
    seen: list[tuple[str, int]] = []

    @harness.machine
    class M(Machine, max_attempts=2, backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            seen.append(("start", ctx.tries))
            ctx.state["dirty"] = True
            if ctx.tries == 0:
                raise ValueError("once")
            assert ctx.state == {"order": 7, "dirty": True}
            return Next(self.end, {})

        @step(max_attempts=4)
        async def end(self, ctx: Context) -> Outcomes:
            seen.append(("end", ctx.tries))
            raise ValueError("always")

    (job_id,) = harness.enqueue(M.build(order=7))
    assert harness.drain() == Summary(retried=4, stepped=1, dead=1)
    assert seen == [("start", 0), ("start", 1), ("end", 0), ("end", 1), ("end", 2), ("end", 3)]
    job = harness.get(job_id)
    assert (job.status, job.step, job.tries, job.fence, job.max_attempts) == ("dead", "end", 4, 6, 2)


def test_a_failed_step_sees_its_signals_again(harness: WorkerHarness) -> None:
    seen: list[Any] = []

    @harness.machine
    class M(Machine, backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            seen.append([signal.payload for signal in ctx.signals])
            if len(seen) == 1:
                raise ValueError("once")
            if len(seen) == 2:
                return Replay()
            return Done()

    (job_id,) = harness.enqueue(M.build())
    harness.signal(job_id, "go", 1)
    harness.drain()
    assert seen == [[1], [1], [1]]
    (signal,) = harness.signals(job_id)
    assert (signal.status, signal.fence) == ("consumed", 4)


def test_retry_snooze_and_cancel_say_themselves_what_happens(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            raise {"retry": Retry("2h", "busy"), "snooze": Snooze("3h"), "cancel": Cancel("gone")}[ctx.state["how"]]

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return Stop("handle must not be asked")

    ids = harness.enqueue(*(M.build(how=how) for how in ("retry", "snooze", "cancel")))
    assert harness.drain() == Summary(retried=1, snoozed=1, canceled=1)
    retried, snoozed, canceled = map(harness.get, ids)
    assert (retried.status, retried.tries, retried.error) == ("scheduled", 1, "busy")
    assert (snoozed.status, snoozed.tries) == ("scheduled", 0)
    assert (canceled.status, canceled.error) == ("canceled", "gone")
    assert {job.step for job in (retried, snoozed, canceled)} == {"start"}


def test_a_steps_own_error_policy_counts(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine, discard_on=KeyError):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            raise KeyError("x")

        @step(discard_on=ValueError)
        async def other(self, ctx: Context) -> Outcomes:
            raise ValueError("x")

    first, second = M.build(), M.build()
    assert second.checkpoint is not None
    second = msgspec.structs.replace(second, checkpoint=msgspec.structs.replace(second.checkpoint, step="other"))
    harness.enqueue(first, second)
    assert harness.drain() == Summary(dead=2)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_handle_decides_after_an_exception_and_sees_the_committed_state(harness: WorkerHarness, kind: str) -> None:
    seen: list[Any] = []

    class Base(Machine, max_attempts=1):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.risky, {"order": 7})

        @step
        async def risky(self, ctx: Context) -> Outcomes:
            ctx.state["dirty"] = True
            raise ValueError(f"try {ctx.tries}")

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([ctx.state, ctx.tries])

        def decide(self, error: Exception, ctx: Context) -> Outcomes:
            seen.append((repr(error), dict(ctx.state), ctx.tries, ctx.step))
            return Replay() if ctx.tries < 2 else Next(self.end, ctx.state | {"saved": True})

    class Sync(Base, name="m"):
        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return self.decide(error, ctx)

    class Async(Base, name="m"):
        async def handle(self, error: Exception, ctx: Context) -> Outcomes:
            await asyncio.sleep(0)
            return self.decide(error, ctx)

    chosen = harness.machine(Sync if kind == "sync" else Async)
    (job_id,) = harness.enqueue(chosen.build())
    summary = harness.drain()
    assert (summary.succeeded, summary.dead) == (1, 0)
    assert seen == [(f"ValueError('try {n}')", {"order": 7}, n, "risky") for n in range(3)]
    assert harness.get(job_id).result == [{"order": 7, "saved": True}, 0]
    assert harness.outcomes(job_id) == [
        ("start", "next"),
        ("risky", "replay"),
        ("risky", "replay"),
        ("risky", "next"),
        ("end", "done"),
    ]
    failed = [attempt for attempt in harness.attempts(job_id) if attempt.step == "risky"]
    assert {attempt.status for attempt in failed} == {"failed"}
    assert all("ValueError: try" in str(attempt.error) for attempt in failed)


def test_handle_may_end_it_either_way(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            raise ValueError("no")

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return {"done": Done("saved"), "stop": Stop(error), "text": Stop("enough")}[ctx.state["how"]]

    ids = harness.enqueue(*(M.build(how=how) for how in ("done", "stop", "text")))
    assert harness.drain() == Summary(succeeded=1, failed=2)
    done, stopped, told = map(harness.get, ids)
    assert (done.status, done.result) == ("succeeded", "saved")
    assert str(stopped.error).startswith("ValueError: no\n")
    assert "in start" in str(stopped.error)
    assert told.error == "enough"
    assert [(job.status, job.tries) for job in (stopped, told)] == [("failed", 0)] * 2


@pytest.mark.parametrize("rubbish", ["raises", None, 7, Next("nowhere")])
def test_a_handle_that_fails_ends_the_machine_dead_with_both_errors(harness: WorkerHarness, rubbish: Any) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            raise ValueError("the first")

        def handle(self, error: Exception, ctx: Context) -> Any:
            if rubbish == "raises":
                raise LookupError("the second")
            return rubbish

    (job_id,) = harness.enqueue(M.build())
    assert harness.drain() == Summary(dead=1)
    error = str(harness.get(job_id).error)
    assert error.startswith("ValueError: the first\n")
    assert ("LookupError: the second" if rubbish == "raises" else "InvalidOutcome: m.") in error


@pytest.mark.parametrize(
    ("says", "status", "charged"),
    [(Retry("1h"), "scheduled", 1), (Snooze("1h"), "scheduled", 0), (Cancel(), "canceled", 0)],
)
def test_handle_may_say_retry_snooze_or_cancel(
    harness: WorkerHarness, says: Exception, status: str, charged: int
) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            raise ValueError("the first")

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            raise says

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    assert (harness.get(job_id).status, harness.get(job_id).tries) == (status, charged)


@pytest.mark.parametrize("end", [Done, Stop])
def test_the_step_that_ended_a_machine_sees_again_what_it_saw_when_it_is_retried(
    harness: WorkerHarness, end: Callable[[], Outcomes]
) -> None:
    seen: list[tuple[list[Any], bool, list[Any]]] = []

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Await("go", then=self.finish)

        @step
        async def finish(self, ctx: Context) -> Outcomes:
            seen.append(([each.payload for each in ctx.signals], ctx.timed_out, [each.result for each in ctx.children]))
            return end()

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    harness.signal(job_id, "go", 7)
    harness.drain()
    harness.retry(job_id)
    harness.drain()
    assert seen == [([7], False, [])] * 2
    assert [(each.status, each.fence) for each in harness.signals(job_id)] == [("consumed", 3)]


def test_handle_is_asked_about_rubbish_too(harness: WorkerHarness) -> None:
    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return None  # type: ignore[return-value]

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return Done(str(error))

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    assert harness.get(job_id).result.startswith("m.start returned nothing")


@pytest.mark.parametrize("nth", [1, 2])
def test_a_machine_that_cannot_be_made_is_a_failure_of_its_own(harness: WorkerHarness, nth: int) -> None:
    made: list[int] = []

    @harness.machine
    class M(Machine, max_attempts=1):
        def __init__(self) -> None:
            made.append(1)
            if len(made) == nth:
                raise LookupError("no config")

        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    @harness.job
    async def other() -> int:
        return 7

    job_id, other_id = harness.enqueue(M.build(), other.build())
    harness.drain()
    job = harness.get(job_id)
    assert (job.status, job.step) == ("dead", "start" if nth == 1 else "end")
    assert str(job.error).startswith("LookupError: no config")
    assert harness.get(other_id).result == 7


@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_step_has_its_own_timeout(harness: WorkerHarness, how: str) -> None:
    asked: list[str] = []

    @harness.machine
    class M(Machine, max_attempts=1):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            return Next(self.slow if how == "async" else self.sleepy)

        @step(timeout="50ms")
        async def slow(self, ctx: Context) -> Outcomes:
            await asyncio.sleep(30)
            return Done()

        @step(timeout="50ms")
        def sleepy(self, ctx: Context) -> Outcomes:
            while not ctx.canceled:
                threading.Event().wait(0.01)
            return Done()

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            asked.append(repr(error))
            return Stop("asked")

    (job_id,) = harness.enqueue(M.build())
    harness.drain()
    job, attempt = harness.get(job_id), harness.last(job_id)
    assert (job.status, attempt.status, attempt.outcome) == ("dead", "timeout", None)
    assert "timed out after 50ms" in str(job.error)
    assert asked == []


# delivery


def test_an_at_most_once_machine_goes_on_in_a_new_job_after_a_failure(harness: WorkerHarness) -> None:
    ran: list[tuple[str, str]] = []

    @harness.machine
    class M(Machine, delivery="at_most_once", backoff=lambda tries: 0):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            ran.append(("start", ctx.job_id))
            return Next(self.risky, {"n": 1})

        @step
        async def risky(self, ctx: Context) -> Outcomes:
            ran.append(("risky", ctx.job_id))
            if ctx.tries == 0:
                raise ValueError("once")
            return Await("go", then=self.end)

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done([ctx.state, [signal.payload for signal in ctx.signals]])

    (job_id,) = harness.enqueue(M.build())
    harness.signal(job_id, "go", 7)
    harness.drain()
    assert harness.get(job_id).status == "failed"
    (again,) = harness.find(retry_of=job_id)
    assert (again.status, again.result, again.step) == ("succeeded", [{"n": 1}, [7]], "end")
    assert ran == [("start", job_id), ("risky", job_id), ("risky", again.id)]


def test_an_at_most_once_machine_whose_handle_replays_is_charged_each_time(harness: WorkerHarness) -> None:
    tries: list[int] = []

    @harness.machine
    class M(Machine, delivery="at_most_once"):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            tries.append(ctx.tries)
            raise ValueError("always")

        def handle(self, error: Exception, ctx: Context) -> Outcomes:
            return Replay() if ctx.tries < 2 and len(tries) < 5 else Stop(error)

    harness.enqueue(M.build())
    harness.drain()
    assert tries == [0, 1, 2]


# what SQL may have written


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}"])
@pytest.mark.parametrize("when", ["before the first step", "while it waits", "while it runs"])
def test_a_signal_that_cannot_be_read_ends_its_machine_and_nothing_else(
    harness: WorkerHarness, text: str, when: str
) -> None:
    """Previously its claim was given back with all others of the batch, and taken again, forever."""

    @harness.machine
    class M(Machine):
        @step
        async def start(self, ctx: Context) -> Outcomes:
            if when == "while it runs" and ctx.state.get("bad"):
                harness.signal(ctx.job_id, "go")
                harness.sql("update {}signals set payload = ?", text)
                return Next(self.end)
            return Await("go", then=self.end) if ctx.state.get("bad") else Done()

        @step
        async def end(self, ctx: Context) -> Outcomes:
            return Done()

    @harness.job
    async def plain() -> None:
        pass

    bad, good, other = harness.enqueue(M.build(bad=True), M.build(), plain.build())
    if when == "while it waits":
        assert harness.drain().succeeded == 2
    if when != "while it runs":
        harness.signal(bad, "go")
        harness.sql("update {}signals set payload = ?", text)
    harness.drain()
    assert [harness.get(job_id).status for job_id in (bad, good, other)] == ["dead", "succeeded", "succeeded"]
    assert "cannot be read" in (harness.get(bad).error or "")
