"""Processes that write, seal and prune the audit, and are killed between any two statements of doing so, or with it
written and not committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from headway.logs import configure
from headway.store.ops import Op
from tests.crash.crash_jobs import app, note
from tests.crash.fault_points import in_child
from tests.crash.killed_folds import killed_after

MOST_STATEMENTS = 8


def write_and(op: Callable[[], Op[int]], statements: int) -> None:
    """Write an entry and be killed after so many statements of this op."""
    app.pause(f"queue-{statements}", actor="ann")
    note("written", str(statements))
    found = op()
    app.store.run(msgspec.structs.replace(found, steps=partial(killed_after, statements, found.steps), probe=None)
                  if hasattr(found, "probe") else
                  msgspec.structs.replace(found, steps=partial(killed_after, statements, found.steps)))  # fmt: skip


if __name__ == "__main__":
    configure(json=True)
    ops = app.store.ops
    for statements in range(MOST_STATEMENTS):
        for name, op in {
            "seal": partial(ops.seal_audit, limit=500),
            "prune": partial(ops.prune_audit, older_than_ms=0, limit=1),
        }.items():
            code = in_child(partial(write_and, op, statements))
            note("ended", f"{name},{statements},{code}")
            if code == 0 and name == "seal":
                note("sealed", str(statements))
