"""Moments: how long ago, with the exact time on hover. The script keeps ages counting and shows the person's zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from markupsafe import Markup

_TIME = re.compile(r"(<time [^>]*>)[^<]*(</time>)")


def moment(value: datetime | str | None, now: datetime, *, none: str = "–") -> Markup:
    """
    >>> now = datetime(2026, 1, 2, 12, tzinfo=UTC)
    >>> print(moment(datetime(2026, 1, 2, 11, 59, 18, tzinfo=UTC), now))
    <time datetime="2026-01-02T11:59:18Z" title="2026-01-02 11:59:18 UTC">42 s ago</time>
    """
    if value is None:
        return Markup('<span class="muted">{}</span>').format(none)
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    exact = at.astimezone(UTC)
    iso = exact.isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, exact_text(exact), relative(at, now))


def exact_moment(value: datetime) -> Markup:
    """The exact time; the script shows it in the person's zone."""
    iso = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{}" data-exact>{}</time>').format(iso, exact_text(value))


def exact_text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def relative(at: datetime, now: datetime) -> str:
    """
    >>> now = datetime(2026, 1, 2, tzinfo=UTC)
    >>> [relative(datetime(2026, 1, day, hour, tzinfo=UTC), now) for day, hour in ((1, 20), (2, 0), (4, 1))]
    ['4 h ago', 'now', 'in 2 d']
    """
    seconds = (now - at).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if abs(seconds) >= size:
            text = f"{abs(seconds) // size:.0f} {unit}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "now"


def without_ages(html: str) -> str:
    """The page without what changes only because time passes: two that are equal say the same."""
    return _TIME.sub(r"\1\2", html)
