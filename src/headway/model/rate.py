"""Rates: strings like "100/min" at the edge, a count and a period in whole milliseconds inside."""

from __future__ import annotations

import re

from headway.errors import InvalidJob

COUNT_LIMIT = 1_000_000_000
LONGEST_PERIOD_MS = 366 * 86_400_000
_RATE = re.compile(r"(\d{1,18})\s*/\s*(\d{0,18})\s*([a-z]+)\Z")
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAMES = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_SHOWN = ((86_400_000, "day"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def parse_rate(value: object, name: str = "rate") -> tuple[int, int]:
    """How many, in how many milliseconds; raises `InvalidJob` naming `name` for what is not a rate.

    >>> parse_rate("100/min"), parse_rate("5/2h"), parse_rate("1000 / day")
    ((100, 60000), (5, 7200000), (1000, 86400000))
    """
    found = _RATE.match(value.strip().lower()) if isinstance(value, str) else None
    if found is None or found[3] not in _NAMES:
        raise InvalidJob(f"{name}={value!r} is not a rate: use a string like '100/min', '10/s', '5/2h' or '1000/day'")
    count, period_ms = int(found[1]), int(found[2] or 1) * _UNITS[_NAMES[found[3]]]
    if not 1 <= count <= COUNT_LIMIT or not 1 <= period_ms <= LONGEST_PERIOD_MS:
        raise InvalidJob(f"{name}={value!r} is out of range: give a count from 1 to {COUNT_LIMIT:,}, in up to a year")
    return count, period_ms


def show_rate(count: int, period_ms: int) -> str:
    """A rate for people, as `parse_rate` reads it.

    >>> show_rate(100, 60_000), show_rate(5, 7_200_000)
    ('100/min', '5/2h')
    """
    for unit_ms, unit in _SHOWN:
        if period_ms % unit_ms == 0:
            many = period_ms // unit_ms
            return f"{count}/{unit}" if many == 1 else f"{count}/{many}{unit}"
    return f"{count}/{period_ms}ms"
