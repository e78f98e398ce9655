"""A worker over HTTP, as a program: it writes into the outside ledger what it really ran."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from headway_client import Client, Context, Worker

from tests.crash.ledger import append

LEDGER = Path(os.environ["CRASH_FOLDER"]) / "ledger"


def main() -> None:
    address, key = sys.argv[1:]
    for name in [name for name in os.environ if name.startswith("HEADWAY_")]:
        del os.environ[name]  # those of the library
    worker = Worker(Client(address, key=key), queues={"http": 8}, grace=20.0)

    @worker.handler("work")
    def work(ctx: Context, ms: int, fails: int = 0) -> int:
        append(LEDGER, "start", ctx.job_id, ctx.fence)
        time.sleep(ms / 1_000)
        if ctx.tries < fails:
            raise RuntimeError("as asked")
        append(LEDGER, "end", ctx.job_id, ctx.fence)
        return ctx.fence

    worker.run()


if __name__ == "__main__":
    main()
