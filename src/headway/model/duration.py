"""Durations: strings like "90s", timedeltas or seconds at the edge, whole milliseconds inside."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from headway.errors import InvalidJob

Duration = str | int | float | timedelta

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*")
LONGEST_MS = 100 * 366 * 86_400_000


def to_ms(value: Duration, name: str = "duration") -> int:
    """Whole milliseconds; raises `InvalidJob` naming `name` for what is negative, endless or not a duration.

    >>> to_ms("1h30m"), to_ms(2.5), to_ms(timedelta(seconds=1))
    (5400000, 2500, 1000)
    """
    ms = _parse(value, name)
    if not 0 <= ms <= LONGEST_MS:
        raise InvalidJob(f"{name}={value!r} is out of range: durations are from 0 to 100 years")
    return round(ms)


def _parse(value: Duration, name: str) -> float:
    match value:
        case bool():
            pass
        case timedelta():
            return value / timedelta(milliseconds=1)
        case int() | float() if math.isfinite(value):
            return value * 1_000
        case str():
            parts = _PART.findall(value)
            if parts and _PART.sub("", value.strip()) == "":
                return sum(float(number) * _UNITS[unit] for number, unit in parts)
        case _:
            pass
    raise InvalidJob(
        f"{name}={value!r} is not a duration: use a string like '90s', '5m' or '1h30m', a timedelta, or seconds"
    )


def show_ms(ms: float) -> str:
    """A duration for people: 350ms, 12.0s, 3m 20s, 2h 5m, 4d 3h."""
    if ms < 1_000:
        return f"{ms:.0f}ms"
    seconds = ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, seconds = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {seconds}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h"
