"""Moments: how long ago, with the exact time on hover. The script keeps ages counting and shows the person's zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from markupsafe import Markup, escape

from headway.printable import printable

_IN_WORDS = re.compile(
    r"\b(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z))(?!\d)"
    r"|(?:(?<=since )|(?<=due at ))(?P<clock>(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))? UTC)\b"
)
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
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso(at), exact_text(at), relative(at, now))


def exact_moment(value: datetime) -> Markup:
    """The exact time; the script shows it in the person's zone."""
    return Markup('<time datetime="{}" data-exact>{}</time>').format(iso(value), exact_text(value))


def timed(sentence: str, now: datetime) -> Markup:
    """A sentence of ours, whose times the script shows in the person's zone; of one without a day, the last is meant.

    >>> print(timed("late since 23:30 UTC", datetime(2026, 1, 2, 12, tzinfo=UTC)))
    late since <time datetime="2026-01-01T23:30:00Z" data-form="clock" title="2026-01-01 23:30:00 UTC">23:30 UTC</time>
    """
    parts, at = Markup(""), 0
    for found in _IN_WORDS.finditer(sentence):
        try:
            moment = _meant(found, now)
        except (ValueError, OverflowError):
            continue  # looks like a time, and is none
        form, text = ("minute", f"{moment:%d %b, %H:%M} UTC") if found["iso"] else ("clock", found["clock"])
        parts += escape(printable(sentence[at : found.start()])) + Markup(
            '<time datetime="{}" data-form="{}" title="{}">{}</time>'
        ).format(iso(moment), form, exact_text(moment), text)
        at = found.end()
    return parts + escape(printable(sentence[at:]))


def _meant(found: re.Match[str], now: datetime) -> datetime:
    if found["iso"]:
        return datetime.fromisoformat(found["iso"]).astimezone(UTC)
    hour, minute, second = (int(each or 0) for each in found.group("hour", "minute", "second"))
    today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    return today - timedelta(days=today > now)


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


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
