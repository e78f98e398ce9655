"""How long a worker waits: until its next poll, and after failures. Always with jitter, so that a fleet spreads out."""

from __future__ import annotations

RECENT_S = 60.0
"""How long a queue counts as busy after it last had work."""


def poll_interval(
    *, pace_ms: int, idle_pace_ms: int, heartbeat_ms: int, fleet: int, since_work_s: float, jitter: float
) -> float:
    """Seconds until this worker polls again, spread over 75 % to 125 % by jitter in [0, 1).

    The workers of a queue share one budget: a query per pace, which is `pace_ms` for a minute after the queue had work
    and `idle_pace_ms` from then on. Heartbeats, and the check for due work that one worker makes every second, come
    out of it; polls get the rest, but at least half.

    >>> settings = {"pace_ms": 25, "idle_pace_ms": 100, "heartbeat_ms": 20_000}
    >>> poll_interval(**settings, fleet=1, since_work_s=0, jitter=0.5)
    0.025
    >>> round(poll_interval(**settings, fleet=60, since_work_s=500, jitter=0.5), 2)
    9.92
    """
    fleet = max(fleet, 1)
    budget = 1_000 / (pace_ms if since_work_s < RECENT_S else max(pace_ms, idle_pace_ms))
    other = (fleet - 1) * 1_000 / heartbeat_ms + (fleet > 1)
    return jittered(fleet / max(budget - other, budget / 2), jitter)


def jittered(seconds: float, jitter: float) -> float:
    """75 % to 125 % of a time, by jitter in [0, 1), so that workers that started together drift apart."""
    return seconds * (0.75 + jitter / 2)


def backoff(failures: int, *, cap_s: float, jitter: float) -> float:
    """Seconds to wait after the n-th failure in a row: 0.1 s, doubling up to the cap.

    >>> backoff(1, cap_s=5, jitter=0.5), backoff(3, cap_s=5, jitter=0.5), backoff(50, cap_s=5, jitter=0.5)
    (0.1, 0.4, 5.0)
    """
    return jittered(min(0.1 * 2 ** min(failures - 1, 20), cap_s), jitter)
