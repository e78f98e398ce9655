"""A flow through every operation, whose worker is killed at one point of its talk with the store."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

from headway import Context, Flow
from headway.errors import StepFailed
from headway.logs import configure
from headway.model.job import NewJob
from tests.crash.crash_jobs import SOON, app, kinds, note
from tests.crash.fault_points import Points, finish, in_child, leaf

VERBS = ("claim", "settle", "promote", "record", "journal", "children_of_flow", "leave")


@kinds.flow(queue="main", backoff=SOON, max_losses=30)
async def twig(flow: Flow, number: int) -> int:
    return await flow.step(tenfold, number) * 10


def tenfold(ctx: Context, number: int) -> int:
    _ran(ctx)
    return number * 10


def hold(ctx: Context, what: str) -> str:
    _ran(ctx)
    return f"held {what}"


def let_go(ctx: Context, what: str) -> str:
    _ran(ctx)
    return f"let go {what}"


async def fail(ctx: Context) -> None:
    _ran(ctx)
    raise ValueError("no")


def _ran(ctx: Context) -> None:
    note("ran", f"{ctx.job_id}/{ctx.step}", ctx.fence)


@kinds.flow(queue="main", backoff=SOON, max_losses=30, max_attempts=2)
async def voyage(flow: Flow) -> dict[str, Any]:
    log: list[Any] = [await flow.step(tenfold, 1)]
    log += await asyncio.gather(*(flow.step(tenfold, number) for number in (2, 3)))
    log += [await flow.receive(["first", "second"]) for _ in range(2)]
    log += sorted(await asyncio.gather(flow.call(leaf, number=1), flow.call(twig, number=2)))
    try:
        async with flow.saga() as saga:
            log.append(await flow.step(hold, "ship"))
            saga.undo(let_go, "ship")
            await flow.step(fail)
    except StepFailed as failed:
        log.append(failed.tries)
    try:
        async with asyncio.timeout(0.002):
            await flow.call(leaf, number=9)
        log.append("in time or late")
    except TimeoutError:
        log.append("in time or late")  # after a crash a short time begins anew
    await flow.sleep("1ms")
    log.append(await flow.receive("never", timeout="1ms"))
    await flow.enqueue(leaf, number=4)
    flow.set(stage="home")
    return {"log": log, "at": flow.now().isoformat()}


def sail(job: NewJob, point: str) -> None:
    """Start a flow, and be killed there."""
    app.enqueue(job)
    app.signal(job.id, "second", 8)
    app.signal(job.id, "other", 9)
    app.signal(job.id, "first", 7)
    verb, number, when = point.split(":")
    Points(verb, int(number), when, VERBS).watch()
    finish(job)


if __name__ == "__main__":
    configure(json=True)
    for point in sys.argv[1:]:
        job = voyage.build()
        codes = in_child(partial(sail, job, point)), in_child(partial(finish, job))
        note("walked", f"{point},{job.id},{codes[0]},{codes[1]}")
