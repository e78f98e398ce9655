"""Replicates changes to several disks: in order per disk, disks in parallel, and a report at the end.

One disk is full at first, so its train is on hold until an operator makes room and retries the failed change.
Run it with: python examples/replication.py [database URL]
"""

from __future__ import annotations

import logging
import sys
from collections import defaultdict

from headway import Headway

app = Headway(sys.argv[1] if len(sys.argv) > 1 else None)
disks: dict[str, list[str]] = defaultdict(list)
full = {"south"}


@app.job(queue="disks", train="disk_{disk}", on_dead="hold", max_attempts=1)
def apply(disk: str, change: str) -> None:
    """Apply a change, which is valid only after all earlier ones of its disk."""
    if disk in full and change.startswith("write"):
        raise OSError(f"no room on {disk}")
    disks[disk].append(change)


@app.job(queue="disks")
def report() -> str:
    return f"{sum(map(len, disks.values()))} changes on {len(disks)} disks"


def main() -> None:
    logging.getLogger("headway").setLevel(logging.CRITICAL)  # one change fails on purpose
    changes = ("create a", "write a", "rename a to b")
    group = app.group(
        [apply.build(disk=disk, change=change) for change in changes for disk in ("north", "south")],
        on_failure="continue",  # the other disk continues
        callback=report.build(),
    )
    app.run(until_idle=True)
    print(f"{group.progress:.0%} done")

    for train in app.trains(blocked=True):
        assert train.hold is not None
        assert train.hold.job_id is not None
        failed = app.get(train.hold.job_id)
        print(f"{train.train}: on hold, {train.length} waiting ({failed.payload['change']!r} is {failed.status})")
        full.clear()
        app.retry(failed.id, actor="operator")

    app.run(until_idle=True)
    for disk, applied in sorted(disks.items()):
        print(f"{disk}: {', '.join(applied)}")
    assert group.callback is not None
    print(app.result(group.callback.id, timeout="10s").value)
    app.close()


if __name__ == "__main__":
    main()
