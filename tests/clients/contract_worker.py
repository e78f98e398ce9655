"""A worker of the Python client as a program; clients/typescript/test/contract_worker.ts is its twin."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from headway_client import Await, Client, Context, Done, Next, Sleep, Spawn, Worker


def main() -> None:
    queue, slots = sys.argv[1:]
    client = Client(os.environ["HEADWAY_API"], key=os.environ["WORKER_KEY"])
    worker = Worker(client, queues={queue: int(slots)}, heartbeat=float(os.environ["HEARTBEAT"]))

    @worker.handler("perform")
    async def perform(ctx: Context, ms: int, fail: int = 0) -> int:
        append("begin", ctx)
        try:
            ctx.log("begun")
            await asyncio.sleep(ms / 1_000)
            if ctx.fence <= fail:
                raise RuntimeError("as asked")
            return ctx.fence
        finally:
            append("end", ctx)

    @worker.handler("perform_steps", step="start")
    async def start(ctx: Context) -> Next:
        append("begin", ctx)
        return Next("ask", {"asked": 1})

    @worker.handler("perform_steps", step="ask")
    async def ask(ctx: Context, asked: int) -> Await:
        append("begin", ctx)
        return Await("go", then="last", state={"asked": asked + 1})

    @worker.handler("perform_steps", step="last")
    async def last(ctx: Context, asked: int) -> Done:
        append("begin", ctx)
        return Done([asked, *(each.payload for each in ctx.signals)])

    @worker.handler("perform_waits", step="start")
    async def park(ctx: Context, wait: str, go: str) -> Await | Sleep | Spawn:
        append("begin", ctx)
        match wait:
            case "signal":
                return Await("go", then="last", timeout="1h")
            case "sleep":
                return Sleep("1h", then="last")
            case _:
                return Spawn([{"kind": "perform_kid", "payload": {"go": go}}], then="last")

    @worker.handler("perform_waits", step="last")
    async def woken(ctx: Context, **_: str) -> Done:
        append("begin", ctx)
        return Done([ctx.signals[0].payload if ctx.signals else None, len(ctx.children)])

    worker.run()


def append(what: str, ctx: Context) -> None:
    line = json.dumps([what, ctx.job_id, ctx.fence]) + "\n"
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, line.encode())
    os.close(ledger)


if __name__ == "__main__":
    main()
