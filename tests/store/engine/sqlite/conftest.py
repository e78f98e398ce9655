"""A SQLite store under each of the two libraries, in real time, on a file that is not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.store.sqlite import SqliteStore
from tests.store.engine.sqlite.sqlite_processes import LIBRARIES


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headway.db"


@pytest.fixture
def store(path: Path, library: Any) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path), library=library)
    yield store
    store.close()
