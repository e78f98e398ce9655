"""How `why` says times, counts and errors."""

from __future__ import annotations

from datetime import datetime

from headway.model.duration import show_ms

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def at(moment: datetime | None) -> str:
    """A moment, to the second."""
    return moment.isoformat(timespec="seconds") if moment else "an unknown time"


def left_until(moment: datetime, now: datetime) -> float:
    """The milliseconds until then; negative once it is over."""
    return (moment - now).total_seconds() * 1_000


def elapsed(since: datetime, now: datetime) -> str:
    """How long ago that was."""
    return show_ms(max(0.0, (now - since).total_seconds() * 1_000))


def first_line(error: str | None) -> str:
    """What fits into a sentence."""
    return error.strip().splitlines()[0] if error and error.strip() else "no reason given"


def jobs(count: int) -> str:
    """`1 job`, `2,000 jobs`; nobody counts further than 10,000."""
    return "1 job" if count == 1 else "10,000 jobs or more" if count >= 10_000 else f"{count:,} jobs"


def ordinal(number: int) -> str:
    """`second`, `21st`."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{last}"
