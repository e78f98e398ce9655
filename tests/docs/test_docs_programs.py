"""The programs in examples/ run, on both stores where they take a URL, and print what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import docs_pages
from tests.docs.warm_process import WarmProcess

EXAMPLES = docs_pages.ROOT / "examples"

PRINTS = {
    "first_job.py": "enqueued: queued, queued, queued\nhello, Ada\nhello, Grace\nhello, Edsger\n",
    "webhooks.py": (
        "/good: succeeded, executions: 1\n"
        "/flaky: succeeded, executions: 3\n"
        "/busy: succeeded, executions: 2\n"
        "/gone: dead, executions: 1 (Refused: /gone answered 410)\n"
    ),
    "replication.py": (
        "83% done\n"
        "disk_south: on hold, 1 waiting ('write a' is dead)\n"
        "north: create a, write a, rename a to b\n"
        "south: create a, write a, rename a to b\n"
        "6 changes on 2 disks\n"
    ),
    "checkout.py": (
        "order 42: please pay\n"
        "order 43: please pay\n"
        "payment taken\n"
        "payment known already\n"
        "order 42 shipped, 100 paid\n"
        "order 43: never paid\n"
        "  start: await payment, at most 3d 0h\n"
        "  check: next\n"
        "  ship: done\n"
    ),
    "approval.py": (
        "good: waiting, succeeded, succeeded, succeeded\n"
        "bad: failed, dead, succeeded, succeeded\n"
        "disputed: waiting, succeeded, succeeded, succeeded\n"
        "good: succeeded, approved by Ada, Grace\n"
        "bad: failed, 1 of 3 reviews failed\n"
        "disputed: failed, Grace said no\n"
    ),
    "saga.py": (
        "trip 1: book flight\n"
        "trip 1: book hotel\n"
        "trip 1: book car\n"
        "trip 1: succeeded, booked flight, hotel, car\n"
        "  start → hotel → car → finish\n"
        "trip 2: book flight\n"
        "trip 2: book hotel\n"
        "trip 2: undo hotel\n"
        "trip 2: undo flight\n"
        "trip 2: failed, undone: the trip could not be booked\n"
        "  start → hotel → car → compensate → compensate → compensate\n"
    ),
    "nightly_sync/nightly_sync.py": (
        "acme: succeeded, the ledger of acme\n"
        "globex: succeeded, the ledger of globex\n"
        "acme: enqueued, deduped\n"
        "acme: a page more\n"
        "acme: sync is dead, exited with code 1\n"
    ),
    "money_transfers.py": ("2 workers killed\n120 transfers, applied 120 times\nbefore: 10,000.00, after: 10,000.00\n"),
    "transactional_outbox.py": (
        "rolled back: the card was declined\norders: 1\njobs: 1\norder 1: receipt for order 1 sent\n"
    ),
}
ARGUMENTS = {"nightly_sync/nightly_sync.py": ["--once"]}


@pytest.fixture(scope="module")
def runner(warm_process: WarmProcess) -> list[str]:
    """Runs a program in a process that has imported Headway already."""
    return [str(warm_process.program("example", str(Path(__file__).with_name("example_runner.py"))))]


def _run(runner: list[str], folder: Path, program: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*runner, str(program), *arguments],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("HEADWAY_")},
        capture_output=True,
        text=True,
        timeout=300,  # only ends what hangs: a busy machine is slow
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tried_here() -> None:
    assert {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")} == set(PRINTS)


def test_an_example_is_a_program_by_itself(tmp_path: Path) -> None:
    python = [sys.executable, "-W", "error"]
    assert _run(python, tmp_path, EXAMPLES / "first_job.py") == PRINTS["first_job.py"]


@pytest.mark.parametrize("name", sorted({*PRINTS} - {"first_job.py"}))
def test_an_example_runs_on_a_file_of_its_own(name: str, tmp_path: Path, runner: list[str]) -> None:
    assert _run(runner, tmp_path, EXAMPLES / name, *ARGUMENTS.get(name, ())) == PRINTS[name]


@pytest.mark.parametrize("name", sorted({*PRINTS} - {"transactional_outbox.py"}))
def test_an_example_runs_on_postgresql(
    name: str, tmp_path: Path, runner: list[str], postgres_migrated_url: str
) -> None:
    arguments = [postgres_migrated_url, *ARGUMENTS.get(name, ())]
    assert _run(runner, tmp_path, EXAMPLES / name, *arguments) == PRINTS[name]


def test_the_nightly_sync_runs_its_command_every_minute(tmp_path: Path, runner: list[str], headway_url: str) -> None:
    """By a held clock, as no test waits for minutes: the schedules fire by themselves, each customer's own."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, {str(EXAMPLES / "nightly_sync")!r})
import nightly_sync
from headway.testing import drain, held, on_database

midnight = datetime(2031, 5, 6, tzinfo=UTC)
with on_database(nightly_sync.app, {headway_url!r}), held(nightly_sync.app, at=midnight) as clock:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for customer, tz in nightly_sync.CUSTOMERS.items():
            nightly_sync.set_up(customer, tz, Path(folder))
        for _ in range(3):
            clock.advance("1m")
            drain(nightly_sync.app)
    for customer in nightly_sync.CUSTOMERS:
        jobs = nightly_sync.app.jobs(tenant=customer)
        print(customer, *(f"{{job.source_ref}} {{job.kind}} {{job.status}}" for job in reversed(jobs)), sep=" | ")
""")
    times = " | ".join(f"2031-05-06T00:0{minute}:00Z sync succeeded" for minute in (1, 2, 3))
    assert _run(runner, tmp_path, program) == f"acme | {times}\nglobex | {times}\n"
