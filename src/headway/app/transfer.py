"""Moves the work of one database into another, and goes back from a move that is not over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from headway.app.database_url import open_store
from headway.clock import SystemClock
from headway.errors import ConfigError
from headway.model.duration import Duration, to_ms
from headway.store.run import Store
from headway.store.sqlite.store import SqliteStore
from headway.store.transfer.side import Side
from headway.store.transfer.sqlite_side import SqliteSide
from headway.store.transfer.transfer import Step, Transfer, Transferred

_SILENCE_S = 60.0


def transfer(
    source: str,
    target: str,
    *,
    history: bool = False,
    timeout: Duration = "5m",
    progress: Callable[[Step], None] = lambda _: None,
) -> Transferred:
    """Move the work of a SQLite file into PostgreSQL, or back. Both are URLs; the target must be empty.

    Workers may go on: when all is copied, the queues of the source are paused, running jobs get `timeout` to end, and
    what changed since is copied. Then the source refuses every write with `StoreMoved`, and the target opens. With
    `history` finished jobs, handled events, the audit and stats are moved, too. After a crash call it again.
    Raises `NotAllowed` (not empty, or part of another transfer), `StoreBusy` (jobs still run).
    """
    with _transfer(source, target, progress) as found:
        return found.run(history=history, timeout_s=to_ms(timeout) / 1_000)


async def atransfer(
    source: str,
    target: str,
    *,
    history: bool = False,
    timeout: Duration = "5m",
    progress: Callable[[Step], None] = lambda _: None,
) -> Transferred:
    """The same, in a thread."""
    return await asyncio.to_thread(
        lambda: transfer(source, target, history=history, timeout=timeout, progress=progress)
    )


def plan_transfer(source: str, target: str, *, history: bool = False) -> dict[str, int]:
    """How many rows of each table `transfer` would move now; it changes nothing, and refuses what that refuses."""
    with TemporaryDirectory() as folder, _transfer(source, _stand_in(target, folder), lambda _: None) as found:
        return found.plan(history=history)


def abort_transfer(source: str, target: str) -> None:
    """Go back to the source: it opens again, and the target is emptied. Raises `NotAllowed` once the target is open."""
    with _transfer(source, target, lambda _: None) as found:
        found.abort()


def _stand_in(url: str, folder: str) -> str:
    """The URL; for a file that does not exist, that of one in this folder: looking makes no file."""
    store = open_store(url, SystemClock(), timeout_s=_SILENCE_S)
    try:
        if not isinstance(store, SqliteStore) or os.path.exists(store.describe()):
            return url
    finally:
        store.close()
    _, mark, options = url.partition("?")
    return f"sqlite:///{folder}/headway.db{mark}{options}"


@contextmanager
def _transfer(source: str, target: str, progress: Callable[[Step], None]) -> Iterator[Transfer]:
    stores: list[Store] = []
    sides: list[Side] = []
    try:
        stores += [open_store(url, SystemClock(), timeout_s=_SILENCE_S) for url in (source, target)]
        if stores[0].dialect == stores[1].dialect:
            raise ConfigError(
                "a transfer goes from a SQLite file to PostgreSQL, or back: to move a file, copy it with headway "
                "backup; to move a PostgreSQL database, use pg_dump"
            )
        where = stores[0].describe()
        if isinstance(stores[0], SqliteStore) and not os.path.exists(where):
            raise ConfigError(f"there is no database file {where}")
        for store in stores:
            sides.append(_side(store))  # noqa: PERF401 - if the second cannot be opened, the first is closed
        yield Transfer(sides[0], sides[1], tell=progress)
    finally:
        for side in sides:
            side.close()
        for store in stores:
            store.close()


def _side(store: Store) -> Side:
    if isinstance(store, SqliteStore):
        return SqliteSide(store)
    from headway.store.postgres.store import PostgresStore
    from headway.store.transfer.postgres_side import PostgresSide

    assert isinstance(store, PostgresStore)
    return PostgresSide(store)
