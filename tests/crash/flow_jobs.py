"""Flows whose workers are killed: every step that runs is in the ledger, with its flow, its place and the fence."""

from __future__ import annotations

import asyncio
import time

from headway import Context, Flow, SyncFlow
from tests.crash.crash_jobs import SOON, app, gate_of, is_open, kinds, note

__all__ = ["app", "carry", "carry_plainly", "pass_gate"]


async def move(ctx: Context, arg: str) -> str:
    label = f"{ctx.job_id}/{ctx.step}"
    note("start", label, ctx.fence)
    await asyncio.sleep(0.004)
    note("end", label, ctx.fence)
    return f"{arg}>{ctx.step}"


def move_plainly(ctx: Context, arg: str) -> str:
    label = f"{ctx.job_id}/{ctx.step}"
    note("start", label, ctx.fence)
    time.sleep(0.004)
    note("end", label, ctx.fence)
    return f"{arg}>{ctx.step}"


@kinds.job(queue="main", backoff=SOON, max_losses=1_000)
async def count(number: int) -> int:
    return number + 1


@kinds.flow(queue="main", backoff=SOON, max_losses=1_000)
async def carry(flow: Flow, number: int) -> str:
    """Steps one after another, together, in the order in which they end, a job, a sleep, and a saga that is undone."""
    at = await flow.step(move, "a")
    both = await asyncio.gather(flow.step(move, at), flow.step(move_plainly, at))
    assert both == [f"{at}>move#2", f"{at}>move_plainly"], both
    tasks = [asyncio.create_task(flow.step(move, name)) for name in "xyz"]
    for future in asyncio.as_completed(tasks):
        first = await future
        then = await flow.step(move_plainly, first)
        assert then.startswith(f"{first}>move_plainly#"), then
    assert await flow.call(count, number=number) == number + 1
    await flow.sleep("1ms")
    try:
        async with flow.saga() as saga:
            saga.undo(move, "back")
            raise LookupError
    except LookupError:
        return str(number)


@kinds.flow(queue="main", backoff=SOON, max_losses=1_000)
def carry_plainly(flow: SyncFlow, number: int) -> str:
    at = "a"
    for _ in range(4):
        at = flow.step(move_plainly, at)
    assert at == "a>move_plainly>move_plainly#2>move_plainly#3>move_plainly#4", at
    assert flow.call(count, number=number) == number + 1
    return str(number)


async def through(ctx: Context, gates: list[str]) -> int:
    note("start", ctx.job_id, ctx.fence)
    while not is_open(gate_of(ctx, gates)):
        await asyncio.sleep(0.02)
    note("end", ctx.job_id, ctx.fence)
    return ctx.fence


@kinds.flow(queue="main", backoff=SOON)
async def pass_gate(flow: Flow, gates: list[str]) -> list[int]:
    """The first execution waits at a gate; what comes behind it has effects."""
    passed = await flow.step(through, gates)
    counted = await flow.call(count, number=passed)
    await flow.enqueue(count, number=100)
    signaled = await flow.receive("go")
    return [passed, counted, signaled]
