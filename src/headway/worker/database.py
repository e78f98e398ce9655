"""Database: the way of every call from a worker to its store; reports once, for all loops, when it is away."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from headway.errors import StoreBusy, StoreUnavailable
from headway.logs import Seldom, get_logger
from headway.model.duration import show_ms
from headway.store.ops import Op
from headway.store.run import Store

log = get_logger("headway.worker")

T = TypeVar("T")


class Database:
    """Runs the worker's ops with a deadline each."""

    def __init__(self, store: Store, *, timeout_s: float) -> None:
        self.ops = store.ops
        self._store = store
        self._timeout_s = timeout_s
        self._away_since: float | None = None
        self._failed_at = 0.0
        self._told = False
        self._says = Seldom(30)

    @property
    def install_id(self) -> str | None:
        return self._store.install_id

    async def run(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        """Run the op; raises what the store raises. That the database is away is logged, at most twice a minute."""
        began_at = time.monotonic()
        try:
            result = await self._store.arun(op, timeout_s=self._timeout_s if timeout_s is None else timeout_s)
        except StoreBusy:
            raise  # the database answers; somebody else has locked the rows
        except StoreUnavailable as error:
            self._away(error)
            raise
        # the late answer to a call from before the outage does not end the outage
        if self._away_since is not None and began_at > self._failed_at:
            self._back(self._away_since)
        return result

    def run_in(self, conn: Any, op: Op[T]) -> T:
        """Run the op in the transaction that `conn`, a handler's own connection, is in."""
        return self._store.run_in(conn, op)

    async def arun_in(self, conn: Any, op: Op[T]) -> T:
        return await self._store.arun_in(conn, op)

    def _away(self, error: StoreUnavailable) -> None:
        now = self._failed_at = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        if self._says():
            self._told = True
            log.warning(
                "the database cannot be reached: running jobs go on, outcomes are kept, it is tried again",
                database=self._store.describe(),
                away=show_ms((now - self._away_since) * 1_000),
                error=str(error),
            )

    def _back(self, away_since: float) -> None:
        if self._told:
            away_ms = (time.monotonic() - away_since) * 1_000
            log.warning("the database is back", database=self._store.describe(), away=show_ms(away_ms))
        self._away_since, self._told = None, False
