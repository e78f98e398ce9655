"""What tests of the application's API ask for: a database of each store in turn, an app on it, both colours."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from headway import Headway
from headway.testing import held

NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty database of each store in turn, ready to use."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_migrated_path')}"
    return str(request.getfixturevalue("postgres_migrated_url"))


@pytest.fixture
def app(url: str) -> Iterator[Headway]:
    app = Headway(url)
    yield app
    app.close()


@pytest.fixture
def both(sqlite_migrated_path: Path, postgres_migrated_url: str) -> Iterator[list[Headway]]:
    """An app on each store, to compare their answers."""
    urls = (f"sqlite:///{sqlite_migrated_path}", postgres_migrated_url)
    apps = [Headway(url, strict_kinds=False) for url in urls]
    yield apps
    for app in apps:
        app.close()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, app: Headway) -> Iterator[Callable[..., Any]]:
    """Calls a verb in each colour: `call(app, "enqueue", …)` is app.enqueue(…), or await app.aenqueue(…)."""
    if request.param == "sync":
        yield lambda on, verb, *args, **kwargs: getattr(on, verb)(*args, **kwargs)
        return
    with asyncio.Runner() as runner:
        yield lambda on, verb, *args, **kwargs: runner.run(getattr(on, f"a{verb}")(*args, **kwargs))
        runner.run(app.aclose())


@pytest.fixture
def sql(app: Headway, url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """One raw statement behind the app's back; `{tenants}` is the table of that name, `?` a parameter."""

    def run(text: str, *params: Any) -> list[tuple[Any, ...]]:
        app.counts()  # the schema is there
        if url.startswith("sqlite"):
            with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as conn:
                conn.set_busy_timeout(10_000)
                return list(conn.execute(re.sub(r"\{(\w+)\}", r"\1", text), params))
        text = re.sub(r"\{(\w+)\}", r"headway.\1", text.replace("%", "%%").replace("?", "%s"))
        with psycopg.connect(url, autocommit=True) as conn:
            cursor = conn.execute(text, params)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def clock(app: Headway) -> Iterator[Any]:
    """The app's time, held at noon."""
    with held(app, NOON) as clock:
        yield clock


@pytest.fixture
def ran() -> list[Any]:
    """What the jobs of a test note about themselves."""
    return []
