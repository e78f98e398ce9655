"""Forks of forks, and of jobs that retry others: each begins with what its origin's step began with."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway import Context, Done, Headway, Machine, Next, Spawn, Stop, step
from headway.errors import InvalidJob
from headway.testing import drain


@pytest.fixture
def batches(app: Headway) -> type[Machine]:
    """Spawns two children at its first step, sums them at the second, and says what it saw at the third."""

    @app.job(queue="kids")
    def double(n: int) -> int:
        return 2 * n

    @app.machine
    class Batches(Machine, queue="batches"):
        class State(msgspec.Struct):
            n: int
            seen: list[int] = []
            more: int = 0

        @step
        def start(self, ctx: Context[Any]) -> Spawn:
            return Spawn([double.build(ctx.state.n), double.build(ctx.state.n + 1)], then=self.sum, state=ctx.state)

        @step
        def sum(self, ctx: Context[Any]) -> Any:
            ctx.state.seen.append(sum(child.result for child in ctx.children))
            if ctx.state.more:
                ctx.state.more -= 1
                return Spawn([double.build(100)], then=self.sum, state=ctx.state)
            return Next(self.end, ctx.state)

        @step
        def end(self, ctx: Context[Any]) -> Done:
            return Done({"n": ctx.state.n, "seen": ctx.state.seen})

    return Batches


def value(app: Headway, job: Any) -> Any:
    drain(app)
    return app.result(job.id, timeout=0).value


def test_a_fork_of_a_fork_has_the_state_and_the_children_of_the_first(app: Headway, batches: Any) -> None:
    first = batches.enqueue(n=1)
    assert value(app, first) == {"n": 1, "seen": [6]}
    fork = app.fork(first.id, at=2)
    assert value(app, fork) == {"n": 1, "seen": [6]}
    again = app.fork(fork.id, at=1)
    assert value(app, again) == {"n": 1, "seen": [6]}
    assert value(app, app.fork(again.id, at=1)) == {"n": 1, "seen": [6]}
    assert value(app, app.fork(fork.id, at=2)) == {"n": 1, "seen": [6]}


def test_a_fork_of_a_fork_has_the_state_that_the_fork_was_given(app: Headway, batches: Any) -> None:
    first = batches.enqueue(n=1)
    drain(app)
    fork = app.fork(first.id, at=2, state={"n": 7, "seen": [1]})
    assert value(app, fork) == {"n": 7, "seen": [1, 6]}
    assert value(app, app.fork(fork.id, at=1)) == {"n": 7, "seen": [1, 6]}


def test_a_fork_sees_what_its_step_saw_although_that_step_spawned_too(app: Headway, batches: Any) -> None:
    """The fork's own Spawn has the number that its origin's had."""
    first = batches.enqueue(n=1)
    drain(app)
    fork = app.fork(first.id, at=2, state={"n": 1, "more": 1})
    assert value(app, fork) == {"n": 1, "seen": [6, 200]}
    assert value(app, app.fork(fork.id, at=1)) == {"n": 1, "seen": [6, 200]}
    assert value(app, app.fork(fork.id, at=2)) == {"n": 1, "seen": [6, 200]}


def test_a_fork_may_begin_with_another_step(app: Headway, batches: Any) -> None:
    first = batches.enqueue(n=1)
    drain(app)
    fork = app.fork(first.id, at=2, step="end", state={"n": 7})
    assert (app.get(fork.id).step, app.get(fork.id).status) == ("end", "queued")
    assert value(app, fork) == {"n": 7, "seen": []}
    assert app.children(fork.id) == []
    back = app.fork(first.id, step="start")
    assert value(app, back) == {"n": 1, "seen": [6, 6]}, "the state that the last execution began with"
    assert value(app, app.fork(first.id, at=2, step="sum")) == {"n": 1, "seen": [6]}, "its own step sees its children"
    with pytest.raises(InvalidJob, match=r"batches version 1 has no step 'ned': it has start, sum, end"):
        app.fork(first.id, step="ned")
    with pytest.raises(InvalidJob, match="step"):
        app.fork(first.id, step="no step")


def test_a_fork_of_the_retry_of_an_at_most_once_machine_has_its_state(app: Headway) -> None:
    fails = [True]

    @app.machine
    class Once(Machine, delivery="at_most_once", max_attempts=3, backoff=lambda _: 0):
        class State(msgspec.Struct):
            n: int

        @step
        def start(self, ctx: Context[Any]) -> Next:
            ctx.state.n += 10
            return Next(self.risky, ctx.state)

        @step
        def risky(self, ctx: Context[Any]) -> Any:
            if fails.pop() if fails else False:
                raise OSError("boom")
            ctx.state.n += 100
            return Next(self.end, ctx.state)

        @step
        def end(self, ctx: Context[Any]) -> Any:
            return Done(ctx.state.n) if ctx.state.n < 1_000 else Stop("never")

    first = Once.enqueue(n=1)
    drain(app)
    (retry,) = app.jobs(retry_of=first.id)
    assert app.result(retry.id, timeout=0).value == 111
    assert value(app, app.fork(retry.id, at=1)) == 111
