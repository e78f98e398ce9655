"""Processes that end executions and are killed before they add them up, or between any two statements of doing so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from headway.logs import configure
from headway.model.fleet import NewWorker
from headway.model.ids import new_id
from headway.model.retry import dead, succeeded
from headway.store.ops import Steps
from tests.crash.crash_jobs import app, note
from tests.crash.fault_points import in_child

MOST_STATEMENTS = 7


def settle_and_fold(verb: str, statements: int) -> None:
    """End one execution well and one badly, and be killed after so many statements of the fold."""
    run, ops = app.store.run, app.store.ops
    worker = NewWorker(
        id=new_id(), hostname="here", pid=os.getpid(), machine=None, process_started=None, version="1",
        queues={"main": 2}, kinds=(), concurrency=2, lease_ms=60_000,
    )  # fmt: skip
    run(ops.register(worker))
    for _ in range(2):
        app.enqueue("work", queue="main")
    good, bad = run(ops.claim(worker.id, "main", 2))
    run(ops.settle(worker.id, [succeeded(good, None), dead(bad, f"no user {os.getpid()}")]))
    note("settled", bad.id)
    op = getattr(ops, verb)(limit=1_000)
    run(msgspec.structs.replace(op, steps=partial(killed_after, statements, op.steps)))
    note("folded", verb)


def killed_after(statements: int, steps: Callable[[], Steps[Any]]) -> Steps[Any]:
    left, generator = statements, steps()
    request = next(generator)
    while True:
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        answer = yield request
        try:
            request = generator.send(answer)
        except StopIteration as end:
            return end.value


if __name__ == "__main__":
    configure(json=True)
    for verb in ("fold_errors", "fold_stats"):
        for statements in range(MOST_STATEMENTS):
            code = in_child(partial(settle_and_fold, verb, statements))
            note("ended", f"{verb},{statements},{code}")
