"""`python -m bench.flows`: flows beside machines, on both stores: steps a second of many, one step of one alone beside
a raw commit of one row, a signal until the step that it wakes, and a replay; and DBOS, where `bench.peers` finds it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import msgspec
import psycopg

from bench import machines, peers
from bench.servers import Site, path_of, sites
from headway import Context, Done, Flow, Headway, Machine, Next, Registry, step
from headway.store.ops import Op
from headway.testing import replay

STEPS = 10
CONCURRENCY = 50
_REPLAYED = 1_000

RATIOS = [
    ("steps a second, flows", "steps a second, machines"),
    ("steps a second, flows", "steps a second, DBOS"),
    ("ms from one step to the next of one flow, p50", "ms of a raw commit of one row, p50"),
    ("ms from a signal to its step, p50", "ms from a signal to a machine's step, p50"),
]

kinds = Registry()
heard: list[float] = []
came = threading.Event()


async def add(number: int) -> int:
    return number + 1


async def hear(sent: float) -> None:
    heard.append(time.monotonic() - sent)
    came.set()


@kinds.flow(queue="flows")
async def walk(flow: Flow, number: int, steps: int = STEPS) -> int:
    for _ in range(steps):
        number = await flow.step(add, number)
    return number


@kinds.flow(queue="flows")
async def echo(flow: Flow) -> None:
    await flow.step(hear, await flow.receive("ping"))


@kinds.flow(queue="flows")
async def long(flow: Flow) -> None:
    for number in range(_REPLAYED):
        await flow.step(add, number)
    await flow.receive("go")


@kinds.machine
class Stepped(Machine, queue="machines"):
    class State(msgspec.Struct):
        number: int
        left: int = STEPS

    @step
    async def start(self, ctx: Context) -> Next | Done:
        ctx.state.number += 1
        ctx.state.left -= 1
        return Next(self.start) if ctx.state.left else Done(ctx.state.number)


def measure(site: Site, flows: int) -> Iterator[tuple[str, float]]:
    """One round: names and figures."""
    of_app = site.create()
    app = Headway(of_app)
    app.include(kinds)
    for queue, build in (("machines", Stepped.build), ("flows", walk.build)):
        app.enqueue_many([build(number=number) for number in range(flows)])
        began = time.perf_counter()
        app.run(queues=queue, concurrency=CONCURRENCY, until_idle=True)
        yield f"steps a second, {queue}", flows * STEPS / (time.perf_counter() - began)
    job = app.enqueue(walk.build(number=0, steps=500))
    app.run(queues="flows", concurrency=1, until_idle=True)
    at = [row.at.timestamp() for row in _rows(app, job.id) if row.kind == "done"]
    yield "ms from one step to the next of one flow, p50", statistics.median(b - a for a, b in pairwise(at)) * 1_000
    yield "ms of a raw commit of one row, p50", _raw(of_app, site)
    yield "ms from a signal to its step, p50", asyncio.run(_signals(app))
    url = site.create()
    yield "ms from a signal to a machine's step, p50", statistics.median(machines.latencies(url, 60))
    site.drop(url)
    job = app.enqueue(long.build())
    app.run(queues="flows", concurrency=1, until_idle=True)
    began = time.perf_counter()
    replay(app, job.id)
    yield f"ms of reading and replaying {_REPLAYED:,} steps", (time.perf_counter() - began) * 1_000
    url = site.create()
    rate = peers.steps("dbos", f"{url}.dbos" if site.store == "sqlite" else url, 100, STEPS)
    if rate is not None:
        yield "steps a second, DBOS", rate
    site.drop(url)
    app.close()
    site.drop(of_app)


def _rows(app: Headway, job_id: str) -> list[Any]:
    op: Op[Any] = app.store.ops.journal([job_id])
    return list(app.store.run(op).rows)


def _raw(url: str, site: Site) -> float:
    """The same row, committed by the driver alone, as durably."""
    took = []
    if site.store == "postgres":
        connect: Any = psycopg.connect(url, autocommit=True)
        place = "%s"
    else:
        connect = sqlite3.connect(f"{path_of(url)}.raw", isolation_level=None)
        connect.execute("pragma journal_mode = wal")
        connect.execute("pragma synchronous = full")
        place = "?"
    with closing(connect) as conn:
        conn.execute("create table raw_rows (job_id text, seq integer, value text, primary key (job_id, seq))")
        for number in range(300):
            began = time.perf_counter()
            conn.execute(f"insert into raw_rows values ('a', {place}, '1')", (number,))
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1_000


async def _signals(app: Headway, samples: int = 60) -> float:
    """As `bench.machines` measures it: the sender is a thread of its own. Each signal goes to another flow, whose
    journal is short."""
    jobs = await app.aenqueue_many(echo.build() for _ in range(samples))
    worker = asyncio.create_task(app.arun("flows", concurrency=20))
    while (await app.acounts()).get("waiting", 0) < samples:  # noqa: ASYNC110 - it happens in the database
        await asyncio.sleep(0.02)

    def send() -> None:
        for job in jobs:
            time.sleep(random.uniform(0.01, 0.05))
            came.clear()
            app.signal(job.id, "ping", time.monotonic())
            came.wait()

    heard.clear()
    await asyncio.to_thread(send)
    worker.cancel()
    await asyncio.wait([worker])
    return statistics.median(heard[5:]) * 1_000


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--flows", type=int, default=1_000)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    logging.disable(logging.WARNING)
    with sites(["sqlite", "postgres"]) as opened:
        for site in opened:
            found: dict[str, list[float]] = {}
            for _ in range(given.rounds):
                for name, figure in measure(site, given.flows):
                    found.setdefault(name, []).append(figure)
            print(f"\n{site.about}; medians of {given.rounds}")
            for name, figures in found.items():
                print(f"  {name:50} {statistics.median(figures):10,.2f}")
            for one, other in RATIOS:
                if other in found:
                    ratios = [a / b for a, b in zip(found[one], found[other], strict=True)]
                    print(f"  {one} / {other}: {statistics.median(ratios):,.2f}")


if __name__ == "__main__":
    main()
