"""The one place that reads the host's clock, so that tests can hold it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Gives the time as whole microseconds since 1970 (UTC)."""

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
    """The moment, in UTC."""
    return _EPOCH + timedelta(microseconds=micros)
