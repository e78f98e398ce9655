"""A worker of the engine as a program, with the machine of the clients' contract workers: the other side to compare."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from headway import Await, Context, Done, Headway, Machine, Sleep, Spawn, step

app = Headway(os.environ["HEADWAY_URL"])


def append(what: str, ctx: Context) -> None:
    line = json.dumps([what, ctx.job_id, ctx.fence]) + "\n"
    ledger = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, line.encode())
    os.close(ledger)


@app.job(name="perform_kid", queue="kids")
def kid(go: str) -> str:
    """Does not look whether it is canceled."""
    end = time.monotonic() + 120
    while not Path(go).exists() and time.monotonic() < end:
        time.sleep(0.02)
    return "grown"


@app.machine
class Waits(Machine, name="perform_waits"):
    @step
    def start(self, ctx: Any) -> Any:
        append("begin", ctx)
        match ctx.state["wait"]:
            case "signal":
                return Await("go", then=self.last, timeout="1h")
            case "sleep":
                return Sleep("1h", then=self.last)
            case _:
                return Spawn([kid.build(go=ctx.state["go"])], then=self.last)

    @step
    def last(self, ctx: Any) -> Done:
        append("begin", ctx)
        said = ctx.signals[0].payload if ctx.signals else None
        return Done([said, len(ctx.children)])


def main() -> None:
    app.run(queues=sys.argv[1:])


if __name__ == "__main__":
    main()
