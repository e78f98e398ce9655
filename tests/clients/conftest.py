"""One server for each store, for everything that the clients are asked to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.served import Served


@pytest.fixture(params=["sqlite", "postgres"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    url = (
        f"sqlite:///{request.getfixturevalue('sqlite_migrated_path')}"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_migrated_url")
    )
    served = Served(url, tmp_path)
    try:
        served.until_ready()
        yield served
    finally:
        served.stop()
