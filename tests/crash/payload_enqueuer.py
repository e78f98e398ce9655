"""Enqueues a job whose payload is too large for its row, in a process for each point at which it is killed."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec

from headway.artifacts.places import Places
from headway.store.ops import Op, Steps
from tests.crash.crash_jobs import app, kinds

POINTS = ("noted", "written", "enqueued", "committed")
"""Before the bytes, between bytes and transaction, within the transaction, and after its commit."""
TEXT = "z" * 1_200_000


@kinds.job(queue="main", spill=True)
def load(point: str, text: str) -> str:
    return f"{point} {len(text)}"


def enqueue_until(point: str) -> None:
    """Enqueue one, and be killed there."""
    write, ops = Places.write_payload, app.store.ops
    keep = ops.keep_payloads

    def die_at(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_payload(self: Places, *args: Any) -> Any:
        die_at("noted")
        written = write(self, *args)
        die_at("written")
        return written

    def keep_payloads(written: Any) -> Op[None]:
        op = keep(written)

        def steps() -> Steps[None]:
            yield from op.steps()
            die_at("enqueued")

        return msgspec.structs.replace(op, steps=steps)

    Places.write_payload = write_payload  # type: ignore[method-assign]
    ops.keep_payloads = keep_payloads  # type: ignore[method-assign]
    app.enqueue(load.build(point, TEXT))
    die_at("committed")


if __name__ == "__main__":
    for each in POINTS:
        child = os.fork()
        if not child:
            enqueue_until(each)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, each
