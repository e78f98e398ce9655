"""The ground of the crash tests: a database in durable settings, an app on it, an outside ledger and real processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import Headway
from tests.crash import crash_jobs
from tests.crash.crash_site import Ground, Server, new_server
from tests.crash.ledger import Ledger
from tests.crash.processes import Fleet
from tests.crash.stored_rows import Rows

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def durable_server() -> Iterator[Server]:
    """Not the server of the other tests: that one has its durability switched off, and is never stopped."""
    with new_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest) -> Ground:
    """Each store in turn, empty, with the schema."""
    found: Ground = request.getfixturevalue(f"{request.param}_ground")
    return found


@pytest.fixture
def sqlite_ground(sqlite_migrated_path: Path, tmp_path: Path) -> Iterator[Ground]:
    yield from _ground(f"sqlite:///{sqlite_migrated_path}", tmp_path)


@pytest.fixture
def postgres_ground(durable_server: Server, tmp_path: Path) -> Iterator[Ground]:
    url = durable_server.database()
    try:
        yield from _ground(url, tmp_path)
    finally:
        durable_server.drop(url)


def _ground(url: str, folder: Path) -> Iterator[Ground]:
    app = Headway(url)
    app.include(crash_jobs.kinds)
    fleet = Fleet(folder, url)
    try:
        yield Ground(app, fleet, Ledger(folder / "ledger"), Rows(url), url)
    finally:
        fleet.close()
        app.close()
