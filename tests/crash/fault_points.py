"""A worker that is killed at one point of its talk with the store, and the machine whose walk it is killed on.

Every op that a worker has the store run for its jobs is a point, before and after it: what is not committed before
the kill must happen again, and what is must not.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from headway import Await, Context, Done, Machine, Next, Replay, Sleep, Spawn, step
from headway.logs import configure
from headway.model.job import NewJob
from headway.model.status import FINISHED
from headway.store.ops import Op
from headway.worker.database import Database
from tests.crash.crash_jobs import SOON, app, kinds, note

VERBS = ("claim", "settle", "settle_and_claim", "children", "promote")


@kinds.job(queue="main", backoff=SOON, max_losses=30)
async def leaf(number: int) -> int:
    note("leaf", str(number))
    return number * 10


@kinds.machine
class Branch(Machine, queue="main", backoff=SOON, max_losses=30):
    class State(msgspec.Struct):
        number: int

    @step
    async def start(self, ctx: Context) -> Next:
        return Next(self.end)

    @step
    async def end(self, ctx: Context) -> Done:
        note("branch", str(ctx.state.number))
        return Done(ctx.state.number * 100)


@kinds.machine
class Walk(Machine, queue="main", backoff=SOON, max_losses=30):
    """Every outcome there is, one after another; `trail` has each step once, however often it was executed."""

    class State(msgspec.Struct):
        trail: list[str] = []
        heard: list[int] = []
        replays: int = 0

    def _went(self, ctx: Context) -> Any:
        note("step", f"{ctx.job_id}/{ctx.step}", ctx.fence)
        ctx.state.trail.append(ctx.step)
        return ctx.state

    @step
    async def start(self, ctx: Context) -> Next:
        return Next(self.park, self._went(ctx))

    @step
    async def park(self, ctx: Context) -> Await:
        return Await(["first", "second"], then=self.hear, state=self._went(ctx), match="all")

    @step
    def hear(self, ctx: Context) -> Spawn:
        ctx.state.heard += [signal.payload for signal in ctx.signals]
        return Spawn([leaf.build(1), leaf.build(2), Branch.build(number=3)], then=self.gather, state=self._went(ctx))

    @step
    async def gather(self, ctx: Context) -> Sleep:
        ctx.state.heard += [child.result for child in ctx.children]
        return Sleep("1ms", then=self.again, state=self._went(ctx))

    @step
    async def again(self, ctx: Context) -> Replay | Next:
        if ctx.state.replays < 1:
            ctx.state.replays += 1
            return Replay(self._went(ctx), "1ms")
        return Next(self.finish, self._went(ctx))

    @step
    async def finish(self, ctx: Context) -> Done:
        self._went(ctx)
        return Done({"trail": ctx.state.trail, "heard": ctx.state.heard})


TRAIL = ["start", "park", "hear", "gather", "again", "again", "finish"]
HEARD = [7, 8, 10, 20, 300]


class Points:
    """Counts the ops of each verb that did something, and kills this process at one of them."""

    def __init__(self, verb: str, number: int, when: str, verbs: Sequence[str] = VERBS) -> None:
        self._verbs = verbs
        self._fault = (verb, number, when)
        self._counts: Counter[str] = Counter()
        self._names: dict[int, str] = {}

    def watch(self) -> None:
        points, run = self, Database.run

        async def watched(database: Database, op: Op[Any], **options: Any) -> Any:
            name = points._names.pop(id(op), "")
            if name and name != "claim" and name != "promote":
                points._pass(name, "before")
            answer = await run(database, op, **options)
            if name and (name not in ("claim", "promote") or (answer and getattr(answer, "queued", 1))):
                if name in ("claim", "promote"):
                    points._counts[name] += 1
                points._at(name, "after")
            return answer

        Database.run = watched  # type: ignore[method-assign, assignment]
        ops = type(app.store.ops)
        for verb in self._verbs:
            setattr(ops, verb, self._named(verb, getattr(ops, verb)))

    def _named(self, verb: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*args: Any, **kwargs: Any) -> Any:
            op = make(*args, **kwargs)
            self._names[id(op)] = verb
            return op

        return made

    def _pass(self, name: str, when: str) -> None:
        self._counts[name] += 1
        self._at(name, when)

    def _at(self, name: str, when: str) -> None:
        note("point", f"{name}:{self._counts[name]}:{when}")
        if (name, self._counts[name], when) == self._fault:
            os.kill(os.getpid(), signal.SIGKILL)


def walk(job: NewJob, point: str) -> None:
    """Start a machine, and be killed there."""
    app.enqueue(job)
    app.signal(job.id, "second", 8)  # before it is awaited, as the other is
    app.signal(job.id, "other", 9)
    app.signal(job.id, "first", 7)
    verb, number, when = point.split(":")
    Points(verb, int(number), when).watch()
    finish(job)


def finish(job: NewJob) -> None:
    """Lost executions and sleeps are due a moment later."""
    while app.get(job.id).status not in FINISHED:
        app.run(queues="main", concurrency=4, until_idle=True)


def in_child(work: Callable[[], None]) -> int:
    """Its exit code; a fork, because starting Python and importing everything takes longer than the walk."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    configure(json=True)
    for point in sys.argv[1:]:
        job = Walk.build()
        codes = in_child(partial(walk, job, point)), in_child(partial(finish, job))
        note("walked", f"{point},{job.id},{codes[0]},{codes[1]}")
