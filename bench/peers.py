"""Other engines of durable workflows, where they are installed: committed steps a second, for the same steps.

`HEADWAY_BENCH_PEERS` names a Python that has them (default: this one); Absurd also needs the file of its schema,
`HEADWAY_BENCH_ABSURD_SQL`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

NAMES = ("dbos", "absurd")
STEPS = 3
THREADS = 20


def steps(name: str, url: str, workflows: int, each: int = STEPS) -> float | None:
    """Committed steps a second of so many workflows of so many steps; None where it is not installed."""
    python = os.environ.get("HEADWAY_BENCH_PEERS", sys.executable)
    ran = subprocess.run(
        # -P: a folder of ours is called like a module of the standard library
        [python, "-P", str(Path(__file__)), name, url, str(workflows), str(each)],
        capture_output=True,
        text=True,
    )
    last = ran.stdout.strip().splitlines()[-1:]
    if ran.returncode or not last:
        raise RuntimeError(f"{name} could not be measured: {ran.stderr[-500:]}")
    return None if last == ["none"] else float(last[0])


def _dbos(url: str, workflows: int, steps: int) -> float:
    from dbos import DBOS, DBOSClient

    config = {"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"}

    def launch() -> None:
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue("bench", worker_concurrency=THREADS * 5, polling_interval_sec=0.1)

    @DBOS.step()
    def one(number: int) -> int:
        return number + 1

    @DBOS.workflow(name="walk")
    def walk(number: int) -> int:
        for _ in range(steps):
            number = one(number)
        return number

    launch()  # makes the schema
    DBOS.destroy()
    # the whole backlog is there when the worker begins, as it is for ours
    client = DBOSClient(system_database_url=url)
    options = {"queue_name": "bench", "workflow_name": "walk"}
    handles = [client.enqueue(options, number) for number in range(workflows)]
    began = time.monotonic()
    launch()
    for handle in handles:
        handle.get_result(polling_interval_sec=0.05)
    return steps * workflows / (time.monotonic() - began)


def _absurd(url: str, workflows: int, steps: int) -> float:
    import psycopg
    from absurd_sdk import Absurd

    with psycopg.connect(url, autocommit=True) as server:
        server.execute(Path(os.environ["HEADWAY_BENCH_ABSURD_SQL"]).read_text())
        app = Absurd(url, queue_name="bench")
        app.create_queue("bench")
        done = 0

        @app.register_task(name="walk")
        def walk(params: dict[str, int], ctx: Any) -> int:
            nonlocal done
            number = params["number"]
            for n in range(steps):
                number = ctx.step(f"step-{n}", partial(add, number, 1))
            done += 1
            return number

        for number in range(workflows):
            app.spawn("walk", {"number": number})
        began = time.monotonic()
        while done < workflows:
            app.work_batch(batch_size=100)
        return steps * workflows / (time.monotonic() - began)


def main(name: str, url: str, workflows: int, steps: int) -> None:
    module = {"dbos": "dbos", "absurd": "absurd_sdk"}[name]
    there = importlib.util.find_spec(module) is not None
    if name == "absurd":
        there = there and "HEADWAY_BENCH_ABSURD_SQL" in os.environ
    if not there:
        print("none")
        return
    print({"dbos": _dbos, "absurd": _absurd}[name](url, workflows, steps), flush=True)
    os._exit(0)  # their threads would go on


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
