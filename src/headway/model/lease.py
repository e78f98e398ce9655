"""What follows from a lease: how long a worker waits for its database, and when it may judge others."""

from __future__ import annotations

_SHORTEST_CALL_MS = 5_000
_SHORTEST_BEAT_MS = 1_000


def call_timeout_ms(*, lease_ms: int, database_timeout_ms: int) -> int:
    """How long a worker waits for the answer to a call: short enough to ask again within the lease what became of it.

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


def late_ms(*, lease_ms: int, heartbeat_ms: int) -> int:
    """How long after a worker's heartbeat its next one is late: from then on it may not judge others' leases.

    Heartbeats come every `heartbeat_ms`, give or take a quarter. If one comes in time, the database did not stand still
    for longer than this. So nobody's lease, of which 1.25 heartbeats may have been used up before, ran out meanwhile.

    >>> late_ms(lease_ms=60_000, heartbeat_ms=20_000), late_ms(lease_ms=60_000, heartbeat_ms=5_000)
    (30000, 48750)
    """
    longest, room = heartbeat_ms * 5 // 4, lease_ms // 12
    return max(lease_ms - longest - room, longest + room)
