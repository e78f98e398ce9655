"""Each library's user in turn, on a real PostgreSQL and on real SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.connection_libraries import POSTGRES_USERS, SQLITE_USERS, User
from tests.store.foreign.stand_in_schema import SCHEMA, TABLES


@pytest.fixture(scope="module")
def shared_url(databases: Any) -> Iterator[str]:
    name = databases.create()
    yield databases.url(name)
    databases.drop(name)


@pytest.fixture
def database(shared_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection beside the caller's; the tables are new for each test."""
    with psycopg.connect(shared_url, autocommit=True) as conn:
        conn.execute("drop schema if exists headway cascade; drop table if exists orders")
        conn.execute(SCHEMA)
        yield conn


@pytest.fixture(params=POSTGRES_USERS)
def postgres_user(request: pytest.FixtureRequest, database: psycopg.Connection[Any], shared_url: str) -> Iterator[User]:
    user = POSTGRES_USERS[request.param](shared_url)
    yield user
    user.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("pragma journal_mode = wal")
        for table in TABLES:
            conn.execute(table)
    return path


@pytest.fixture(params=SQLITE_USERS)
def sqlite_user(request: pytest.FixtureRequest, file: Path) -> Iterator[User]:
    user = SQLITE_USERS[request.param](file)
    yield user
    user.close()
