"""What follows from a lease: how long a worker waits for its database, and when it may judge others."""

from __future__ import annotations

_SHORTEST_CALL_MS = 5_000
_SHORTEST_BEAT_MS = 1_000


def call_timeout_ms(*, lease_ms: int, database_timeout_ms: int) -> int:
    """How long a worker waits for the answer to a call: what it no longer knows it must ask for within a lease.

    >>> call_timeout_ms(lease_ms=60_000, database_timeout_ms=60_000)
    30000
    """
    return min(database_timeout_ms, max(lease_ms // 2, _SHORTEST_CALL_MS))


def beat_timeout_ms(*, lease_ms: int, database_timeout_ms: int) -> int:
    """The same for a heartbeat: one that stays without an answer leaves time for another.

    >>> beat_timeout_ms(lease_ms=60_000, database_timeout_ms=60_000)
    20000
    """
    return min(database_timeout_ms, max(lease_ms // 3, _SHORTEST_BEAT_MS))
