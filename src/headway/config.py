"""Settings: what they are, their defaults, and where they come from (arguments, HEADWAY_* variables, headway.toml)."""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_MS = 86_400_000


def _retention() -> dict[str, int]:
    return {"succeeded": 7 * DAY_MS, "canceled": 30 * DAY_MS, "failed": 30 * DAY_MS, "dead": 90 * DAY_MS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an app and its workers behave; durations are whole milliseconds here and strings like "60s" at the edge."""

    lease_ms: int = 60_000
    heartbeat_ms: int = 20_000
    reap_every_ms: int = 30_000
    promote_every_ms: int = 1_000
    pace_ms: int = 25
    idle_pace_ms: int = 100  # the pace once a queue had no work for a minute
    grace_ms: int = 30_000  # how long a stopping worker lets its jobs finish
    concurrency: int = 20
    payload_limit: int = 1_048_576  # bytes of JSON
    result_limit: int = 1_048_576
    retention_ms: dict[str, int] = field(default_factory=_retention)  # by status
