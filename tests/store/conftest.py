"""`db`, `session` and `until`: a store under test, open transactions beside it, and waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.store.db import Db, new_group, new_job, new_worker, settlement
from tests.store.machines.machine_calls import new_machine, new_signal, turned
from tests.store.postgres_session import Session
from tests.warm_sessions import kept_sessions


@pytest.fixture
def db(store: Any, clock: Any) -> Db:
    """The store under test, with short words for its verbs."""
    return Db(store, clock)


@pytest.fixture
def both_stores(clock: Any, request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """A PostgreSQL and a SQLite store on one held clock."""
    opened = request.getfixturevalue("open_store")
    with opened("postgres") as postgres, opened("sqlite") as sqlite:
        yield postgres, sqlite


@pytest.fixture
def make_db() -> type[Db]:
    """For tests that open stores themselves."""
    return Db


@pytest.fixture
def make() -> Any:
    """The values to enqueue, register and settle with: `make.job(…)`, `make.group(…)`, `make.worker(…)`, …"""
    return _Make


class _Make:
    job = staticmethod(new_job)
    group = staticmethod(new_group)
    worker = staticmethod(new_worker)
    settlement = staticmethod(settlement)
    machine = staticmethod(new_machine)
    turned = staticmethod(turned)
    signal = staticmethod(new_signal)


@pytest.fixture
def session(store: Any) -> Iterator[Callable[..., Session]]:
    """Makes PostgreSQL sessions, for tests of two at once (on SQLite writers take turns)."""
    with ExitStack() as stack:

        def make(isolation: str | None = None) -> Session:
            conn = stack.enter_context(kept_sessions(store.url).one_for_test())
            return Session(store, conn, isolation)

        yield make


@contextmanager
def _patience(what: str, seconds: float = 60) -> Iterator[Callable[[], None]]:
    end = time.monotonic() + seconds

    def pause() -> None:
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.005)

    yield pause


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait for a condition of another session."""

    def wait(condition: Callable[[], bool]) -> None:
        with _patience(condition.__qualname__) as pause:
            while not condition():
                pause()

    return wait
