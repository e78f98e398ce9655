"""What tests of commands ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway import secrets
from headway.commands import CommandKind, load
from headway.secrets import Vault
from tests.commands.supervised_programs import Bench
from tests.worker_harness import WorkerHarness


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Runs programs and finds what is left of them; nothing may be."""
    bench = Bench(tmp_path)
    yield bench
    left = bench.alive()
    bench.kill_all()
    assert left == [], f"processes outlived the test: {left}"


@pytest.fixture
def harness(live_store: Any) -> WorkerHarness:
    return WorkerHarness(live_store)


@pytest.fixture
def lite(sqlite_migrated_path: Path) -> Iterator[WorkerHarness]:
    """A workshop on SQLite only, for what does not depend on the store."""
    from headway.store.sqlite.store import SqliteStore

    store = SqliteStore(str(sqlite_migrated_path))
    try:
        yield WorkerHarness(store)
    finally:
        store.close()


@pytest.fixture
def declare() -> Callable[..., CommandKind]:
    """Makes a command of keyword arguments, as the file would, and adds it to a workshop."""

    def declared(harness: WorkerHarness | None = None, name: str = "cmd", **keys: Any) -> CommandKind:
        (kind,) = load({name: {"timeout": "60s", **keys}}, "/etc/headway.toml")
        if harness is not None:
            harness.registry._adopt(kind)
            harness.vault = harness.vault or Vault(secrets.read({"*": {"kinds": ["*"]}}, "/etc/headway.toml"))
        return kind

    return declared


@pytest.fixture(autouse=True)
def no_secrets_known() -> Iterator[None]:
    yield
    secrets.forget()
