"""SuccessLines: says at level info that jobs succeeded, at most this many lines a second, and how many it left out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from headway.logs import Logger

RATE = 50
"""Lines a second, and as many at once: 30,000 jobs a second must not fill a disk. Failures are never left out, and
level debug leaves out nothing."""
SUMMARY_S = 10.0
"""How often it says how many lines it left out."""


class SuccessLines:
    def __init__(self, log: Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._room = float(RATE)
        self._at = clock()
        self._speaks = False
        self._left_out = 0
        self._said_at = self._at

    def room(self) -> int:
        """How many lines may be written now; 0 where nobody listens, and where debug shows every job anyway."""
        self._speaks = self._log.is_enabled_for(logging.INFO) and not self._log.is_enabled_for(logging.DEBUG)
        if not self._speaks:
            return 0
        now = self._clock()
        self._room = min(float(RATE), self._room + (now - self._at) * RATE)
        self._at = now
        return int(self._room)

    def say(self, name: str, took_s: float | None, fields: Mapping[str, object]) -> None:
        self._room -= 1
        self._log.info(f"job {name}", duration_ms=None if took_s is None else round(took_s * 1_000, 1), **fields)

    def leave_out(self, count: int) -> None:
        """So many succeeded, and no line says so."""
        if not self._speaks:
            return
        self._left_out += count
        if self._left_out and self._at - self._said_at >= SUMMARY_S:
            self.close()

    def close(self) -> None:
        """Say what was left out since it was said last."""
        if self._left_out:
            self._log.info(
                "more jobs succeeded than lines are written: the others succeeded without a line of their own",
                left_out=self._left_out,
                lines_a_second=RATE,
            )
        self._left_out, self._said_at = 0, self._at
