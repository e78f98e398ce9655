"""Calls the store, and says when it cannot be reached."""

from __future__ import annotations

import time
from typing import TypeVar

from headway.errors import StoreBusy, StoreUnavailable
from headway.logs import Seldom, get_logger
from headway.model.duration import show_ms
from headway.store.ops import Op
from headway.store.run import Store

log = get_logger("headway.worker")

T = TypeVar("T")


class Database:
    """Every call of a worker to its database goes through here."""

    def __init__(self, store: Store, *, timeout_s: float) -> None:
        self.ops = store.ops
        self._store = store
        self._timeout_s = timeout_s
        self._away_since: float | None = None
        self._failed_at = 0.0
        self._told = False
        self._says = Seldom(30)

    async def run(self, op: Op[T], *, timeout_s: float | None = None) -> T:
        """Run the op; raises what the store raises, having said that it is away (twice a minute at most)."""
        began_at = time.monotonic()
        try:
            result = await self._store.arun(op, timeout_s=self._timeout_s if timeout_s is None else timeout_s)
        except StoreBusy:
            raise  # it is there, and somebody else is in the way
        except StoreUnavailable as error:
            self._away(error)
            raise
        # the answer to what was asked before the outage does not end it
        if self._away_since is not None and began_at > self._failed_at:
            self._back(self._away_since)
        return result

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
