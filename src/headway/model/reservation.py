"""Reservations: an exclusive, expiring claim on a queue, for direct execution."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Reservation(msgspec.Struct, frozen=True):
    """Who has a queue for themselves, since when and until when at the latest."""

    queue: str
    id: str
    holder: str
    since: datetime
    expires_at: datetime
