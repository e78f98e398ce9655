"""An app on each store, and a connection beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import psycopg
import pytest

from headway import Headway


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[Headway]:
    """An app on each store in turn, as `headway_app`, but on databases that serve test after test."""
    if request.param == "sqlite":
        app = Headway(f"sqlite:///{request.getfixturevalue('sqlite_migrated_path')}")
    else:
        app = Headway(request.getfixturevalue("postgres_migrated_url"))
    yield app
    app.close()


@pytest.fixture
def own_connection(app: Headway) -> Iterator[Any]:
    """The application's own connection to the same database, in a transaction."""
    app.counts()
    if app.store.dialect == "sqlite":
        conn: Any = apsw.Connection(app.store.describe())
    else:
        conn = psycopg.connect(app.url, autocommit=True)
    conn.execute("begin")
    yield conn
    conn.close()
