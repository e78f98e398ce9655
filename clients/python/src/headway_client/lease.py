"""How long a worker's lease lasts, and how soon its next heartbeat is due."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime


def beat_after(expires_at: str, date: str | None, longest_s: float) -> float:
    """Seconds until the next heartbeat: a third of what is left of the lease, by the clock of the server, which its
    answer names in `Date`. Ours may be minutes away from it.

    >>> beat_after("2001-02-03T04:05:16Z", "Sat, 03 Feb 2001 04:05:06 GMT", 20.0)
    3.0
    """
    return min(max(lease_left(expires_at, date) / 3, 0.1), longest_s)


def lease_left(expires_at: str, date: str | None) -> float:
    """Seconds, at least, that were left of the lease when the server answered."""
    # the header has no parts of a second
    now = datetime.now().astimezone() if date is None else parsedate_to_datetime(date) + timedelta(seconds=1)
    return (datetime.fromisoformat(expires_at) - now).total_seconds()
