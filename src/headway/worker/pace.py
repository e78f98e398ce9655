"""How often to look for work: the idle workers of a queue share one budget of polls."""

from __future__ import annotations

RECENT_S = 60.0
ANSWER = 64 * 1_048_576
"""How many bytes one claim should bring: all of it is in memory before the first of its jobs starts."""


def interval(
    *, pace_ms: int, idle_pace_ms: int, heartbeat_ms: int, fleet: int, since_work_s: float, jitter: float
) -> float:
    """Seconds until this worker polls again, spread over 75 % to 125 % by jitter in [0, 1).

    A fleet may ask the database once a pace: by its heartbeats, by the look at what is due that one of it takes every
    second, and by polls with what these leave of that, though never less than half of it. The pace is `pace_ms` for a
    minute after the queue had work, `idle_pace_ms` from then on.

    >>> interval(pace_ms=25, idle_pace_ms=100, heartbeat_ms=20_000, fleet=1, since_work_s=0, jitter=0.5)
    0.025
    >>> round(interval(pace_ms=25, idle_pace_ms=100, heartbeat_ms=20_000, fleet=60, since_work_s=500, jitter=0.5), 2)
    9.92
    """
    fleet = max(fleet, 1)
    budget = 1_000 / (pace_ms if since_work_s < RECENT_S else max(pace_ms, idle_pace_ms))
    other = (fleet - 1) * 1_000 / heartbeat_ms + (fleet > 1)
    return spread(fleet / max(budget - other, budget / 2), jitter)


def spread(seconds: float, jitter: float) -> float:
    """75 % to 125 % of a time, by jitter in [0, 1), so that workers that started together part."""
    return seconds * (0.75 + jitter / 2)


def backoff(failures: int, *, cap_s: float, jitter: float) -> float:
    """Seconds to wait after the n-th failure in a row: 0.1 s, doubling up to the cap.

    >>> backoff(1, cap_s=5, jitter=0.5), backoff(3, cap_s=5, jitter=0.5), backoff(50, cap_s=5, jitter=0.5)
    (0.1, 0.4, 5.0)
    """
    return spread(min(0.1 * 2 ** min(failures - 1, 20), cap_s), jitter)


def portion(slots: int) -> int:
    """The most jobs of one claim: half the slots where there are many, so that the next claim is on its way while the
    jobs of this one run.

    >>> [portion(slots) for slots in (1, 100, 500, 1_000, 5_000)]
    [1, 100, 250, 500, 1000]
    """
    return min(slots, max(100, slots // 2), 1_000)


def fitting(size: int) -> int:
    """How many jobs of so many bytes one claim may bring.

    >>> [fitting(size) for size in (0, 1_000, 1_048_576, 10**9)]
    [67108864, 67108, 64, 1]
    """
    return max(1, ANSWER // max(1, size))


def enough(slots: int) -> int:
    """How many slots of a busy queue should be free before it is worth a claim.

    >>> [enough(slots) for slots in (1, 7, 20, 500)]
    [1, 1, 5, 50]
    """
    return max(1, min(50, slots // 4))


class Portion:
    """How much to do at once, where too much fails as a whole: half of what failed, and slowly more from there."""

    def __init__(self, largest: int) -> None:
        self.most = self._largest = largest

    def failed(self, tried: int) -> None:
        self.most = max(1, min(self.most, tried // 2))

    def worked(self, tried: int) -> None:
        if tried >= self.most < self._largest:
            self.most = min(self._largest, self.most + max(1, self.most // 8))
