"""Numbers and durations, in few characters."""

from __future__ import annotations

from headway.model.overview import MOST_COUNTED

_STEPS = ((1_000_000_000, "B"), (1_000_000, "M"), (10_000, "k"))


def count(value: int | float | None) -> str:
    """A count that keeps its width: exact up to 9,999.

    >>> [count(each) for each in (0, 9_999, 12_345, 1_200_000, None)]
    ['0', '9,999', '12.3k', '1.2M', '–']
    """
    if value is None:
        return "–"
    for least, unit in _STEPS:
        if value >= least:
            return f"{value / (1_000 if unit == 'k' else least):.3g}{unit}"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def counted(value: int) -> str:
    """A number of jobs, which are counted up to 10,000.

    >>> [counted(each) for each in (7, 10_000)]
    ['7', '10k+']
    """
    return count(value) + ("+" if value >= MOST_COUNTED else "")


def attempt(tries: int, status: str) -> int:
    """Which attempt a job is at, or was at its end; `tries` are those that failed.

    >>> [attempt(0, "queued"), attempt(0, "running"), attempt(1, "succeeded"), attempt(5, "dead")]
    [0, 1, 2, 5]
    """
    return tries + (status in ("running", "succeeded"))


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units at most.

    >>> [duration(each) for each in (0.0042, 0.25, 3.04, 75, 3_700, 200_000, None)]
    ['4 ms', '250 ms', '3.0 s', '1 min 15 s', '1 h 1 min', '2 d 7 h', '–']
    """
    if seconds is None:
        return "–"
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1_000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller, small_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    return f"{whole} s"


def size(bytes_: int) -> str:
    """
    >>> size(1_536)
    '1.5 KiB'
    """
    value = float(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1_024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1_024
    raise AssertionError
