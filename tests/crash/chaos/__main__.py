"""`make chaos`: storms of jobs while the world around them breaks, judged by a ledger that no store has a hand in.

Prints a table with a line for each experiment, and ends with 1 if one of its last four numbers is not 0.
`python -m tests.crash.chaos frozen postgres` runs those whose names have both words in them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headway import Headway
from headway.model.status import UNFINISHED
from tests.crash.chaos import faults
from tests.crash.chaos.faults import NotHere, Storm
from tests.crash.chaos.storm import Verdict, judge
from tests.crash.crash_site import Server, new_server
from tests.crash.processes import Fleet, until
from tests.crash.stored_rows import Rows

WORKERS, ENQUEUERS = 3, 2
JOBS, SECONDS = 400, 8.0
"""Of each enqueuer, and in about what time."""

COLUMNS = ("experiment", "store", "done to it", "jobs", "repeated", "lost", "doubled", "out of order", "over limit")


@dataclass(frozen=True)
class Experiment:
    """A fault and what it is done to."""

    name: str
    store: str
    fault: faults.Fault
    between: Callable[[str, Server, Path], AbstractContextManager[str]] | None = None
    """What the storm's processes go through to their database."""
    disk_mb: int = 0
    """Its database is on a disk of that size."""


def experiments() -> Iterator[Experiment]:
    for store in ("sqlite", "postgres"):
        yield Experiment("no fault", store, faults.none)
        yield Experiment("workers killed (SIGKILL)", store, faults.kill_workers)
        yield Experiment("workers stopped for longer than a lease", store, faults.stop_workers)
        yield Experiment("disk full", store, faults.fill_disk, disk_mb=16 if store == "sqlite" else 64)
    yield Experiment("write lock held for longer than a lease", "sqlite", faults.hold_write_lock)
    yield Experiment("clock jumps", "sqlite", faults.jump_clock)
    yield Experiment("server restarted (immediate)", "postgres", faults.restart_immediately)
    yield Experiment("server frozen for longer than a lease", "postgres", faults.freeze_server)
    yield Experiment("sessions terminated", "postgres", faults.terminate_backends)
    broken, silent = faults.LostReplies(0.02, swallows=False), faults.LostReplies(0.004, swallows=True)
    yield Experiment("replies lost, connection broken", "postgres", broken, broken.proxy)
    yield Experiment("replies lost, connection open", "postgres", silent, silent.proxy)
    yield Experiment("xmin pinned", "postgres", faults.pin_xmin)
    yield Experiment(
        "PgBouncer in transaction mode, sessions terminated",
        "postgres",
        partial(faults.terminate_backends, every=0.2),
        faults.pgbouncer,
    )


def main(words: list[str]) -> int:
    chosen = [each for each in experiments() if all(word in f"{each.name} {each.store}" for word in words)]
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    ok = True
    with new_server() as server:
        for experiment in chosen:
            try:
                done, verdict = run(experiment, server)
            except NotHere as reason:
                print(f"| {experiment.name} | {experiment.store} | not tried: {reason} |" + "  |" * 6)
                continue
            ok &= verdict.held
            numbers = (
                verdict.jobs,
                verdict.repeated,
                verdict.lost,
                verdict.doubled,
                verdict.out_of_order,
                verdict.over_limit,
            )
            print(f"| {experiment.name} | {experiment.store} | {done} | " + " | ".join(map(str, numbers)) + " |")
    return 0 if ok else 1


def run(experiment: Experiment, server: Server) -> tuple[str, Verdict]:
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-chaos-", ignore_cleanup_errors=True))
        )
        storm = stack.enter_context(_storm(experiment, server, folder, stack))
        for _ in range(WORKERS):
            storm.new_worker()
        for worker in storm.workers:
            worker.started()
        storm.enqueuers += [
            storm.fleet.script(f"e{n}", str(JOBS), str(SECONDS), program="chaos.storm", **faults.SETTINGS)
            for n in range(ENQUEUERS)
        ]
        experiment.fault(storm)
        for enqueuer in storm.enqueuers:
            assert enqueuer.ended() == 0, enqueuer.tail()
        rows = Rows(storm.url)
        until(lambda: not rows.statuses().keys() & set(UNFINISHED), "every job is over", within=120)
        for worker in storm.workers:
            assert worker.code is None, f"a worker ended by itself:\n{worker.tail()}"
        rows.check()
        entries = storm.ledger.read()
        verdict = judge(entries, rows.jobs(), rows.attempts(), true_clock=experiment.fault is not faults.jump_clock)
        return storm.done, verdict


@contextmanager
def _storm(experiment: Experiment, server: Server, folder: Path, stack: ExitStack) -> Iterator[Storm]:
    """An empty database, and a fleet on it or on what stands between."""
    disk = None
    on_postgres = experiment.store == "postgres"
    if experiment.disk_mb:
        disk = stack.enter_context(faults.small_disk(folder, experiment.disk_mb, server.user if on_postgres else None))
    if on_postgres:
        options = server.tablespace(disk / "space") if disk else ""
        url = server.database(options)
        stack.callback(server.drop, url)
    else:
        url = f"sqlite:///{(disk or folder) / 'headway.db'}"
        app = Headway(url)
        app.counts()  # makes the file
        app.close()
    used = url
    if experiment.between is not None:
        used = stack.enter_context(experiment.between(url, server, folder))
    clock = folder / "clock"
    fleet = Fleet(folder, used, CHAOS_CLOCK=str(clock)) if not on_postgres else Fleet(folder, used)
    try:
        yield Storm(fleet, url, folder, server, clock, disk)
    finally:
        fleet.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
