"""What the tests of frameworks ask for: a database of each store in turn, for applications that share it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import Headway


@pytest.fixture
def urls(tmp_path: Path, postgres_migrated_url: str) -> list[str]:
    """A database of each store. Django's and SQLAlchemy's SQLite is the standard library's, so Headway's is, too."""
    return [f"sqlite+stdlib:///{tmp_path / 'shop.db'}", postgres_migrated_url]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite+stdlib:///{tmp_path / 'shop.db'}"
    return str(request.getfixturevalue("postgres_migrated_url"))


@pytest.fixture
def app(url: str) -> Iterator[Headway]:
    # its workers look once, when they start; what comes later is found because they are woken
    app = Headway(url, grace="10s", pace="1h", idle_pace="1h")
    app.counts()  # the schema is there before the first transaction
    yield app
    app.close()
