"""The app that is measured: a no-op kind with a small payload, one that tells when it started, and machines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from headway import Await, Context, Done, Headway, Machine, Next, Registry, step

QUEUE = "bench"


machines = Registry()
listeners: list[Callable[[int, Any], None]] = []


@machines.machine
class Walk(Machine, queue=QUEUE):
    """Three steps that do nothing but commit."""

    class State(msgspec.Struct):
        number: int
        steps: int = 0

    @step
    async def start(self, ctx: Context) -> Next:
        ctx.state.steps += 1
        return Next(self.second)

    @step
    async def second(self, ctx: Context) -> Next:
        ctx.state.steps += 1
        return Next(self.third)

    @step
    async def third(self, ctx: Context) -> Done:
        return Done({"steps": ctx.state.steps + 1})


@machines.machine
class Echo(Machine, queue=QUEUE):
    """Waits for one signal after another, and tells of each."""

    class State(msgspec.Struct):
        number: int
        heard: int = 0

    @step
    async def start(self, ctx: Context) -> Await:
        for signal in ctx.signals:
            ctx.state.heard += 1
            for tell in listeners:
                tell(ctx.state.number, signal.payload)
        return Await("ping")


def payload(number: int) -> str:
    """The JSON of a no-op job: everybody's jobs carry the same, as text."""
    return msgspec.json.encode({"number": number, "to": "somebody@example.com"}).decode()


def make_app(url: str) -> Headway:
    """The app on a database, with its kinds."""
    app = Headway(url)
    app.include(machines)

    @app.job(queue=QUEUE)
    async def noop(number: int, to: str) -> None:
        pass

    @app.job(queue=QUEUE)
    async def ping(sent: float) -> None:
        # one machine, one monotonic clock for all its processes
        print(f"{(time.monotonic() - sent) * 1_000:.3f}", flush=True)

    return app


Options = Callable[[int], dict[str, Any]]
"""What the job of a number is enqueued with, besides its payload."""


def plain(_: int) -> dict[str, Any]:
    return {}


def enqueue(app: Headway, count: int, batch: int = 1_000, options: Options = plain) -> None:
    """So many no-op jobs, in batches."""
    noop = app.kinds["noop"]
    for first in range(0, count, batch):
        numbers = range(first, min(first + batch, count))
        if options is plain:
            app.enqueue_many(noop.build(number=number, to="somebody@example.com") for number in numbers)
        else:
            app.enqueue_many(
                noop.using(**options(number)).build(number=number, to="somebody@example.com") for number in numbers
            )


def set_limits(url: str) -> None:
    """Limits that concern others: another queue, kind and tenant."""
    app = make_app(url)
    app.limit(queue="elsewhere", max_running=10)
    app.limit(kind="another", max_running=10, rate="100/min")
    app.limit(tenant="acme", max_running=10)
    app.close()
