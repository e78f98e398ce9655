"""The site of the crash tests: a database in durable settings, an app on it, an outside ledger and real processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import Headway
from tests.crash import crash_jobs
from tests.crash.crash_site import CrashSite, Server, new_server
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
def site(request: pytest.FixtureRequest) -> CrashSite:
    """Each store in turn, empty, with the schema."""
    found: CrashSite = request.getfixturevalue(f"{request.param}_site")
    return found


@pytest.fixture
def sqlite_site(sqlite_migrated_path: Path, tmp_path: Path) -> Iterator[CrashSite]:
    yield from _site(f"sqlite:///{sqlite_migrated_path}", tmp_path)


@pytest.fixture
def postgres_site(durable_server: Server, tmp_path: Path) -> Iterator[CrashSite]:
    url = durable_server.database()
    try:
        yield from _site(url, tmp_path)
    finally:
        durable_server.drop(url)


def _site(url: str, folder: Path) -> Iterator[CrashSite]:
    app = Headway(url)
    app.include(crash_jobs.kinds)
    fleet = Fleet(folder, url)
    try:
        yield CrashSite(app, fleet, Ledger(folder / "ledger"), Rows(url), url)
    finally:
        fleet.close()
        app.close()
