"""The only place that reads the host's clock, so that tests can hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# stand-ins for moments that SQL may have written and no datetime can hold; any zone can show them
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)


class Clock(Protocol):
    """Returns the time as whole microseconds since 1970 (UTC)."""

    def now(self) -> int: ...


class SystemClock:
    """The host's clock."""

    def now(self) -> int:
        return time.time_ns() // 1000


class HeldClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime | None = None) -> None:
        self._micros = to_micros(start) if start else SystemClock().now()

    def now(self) -> int:
        return self._micros

    def advance(self, by: timedelta) -> None:
        self._micros += by // _MICROSECOND


def to_micros(moment: datetime) -> int:
    """Whole microseconds since 1970; the datetime must carry a zone."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The moment, in UTC; `EARLIEST` or `LATEST` for one that no datetime can hold."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return EARLIEST if micros < 0 else LATEST


def ms_until(at: int, now: int) -> int:
    """How many milliseconds it is from one time in microseconds to another, rounded up; 0 if it has passed."""
    return max(0, -((now - at) // 1000))
