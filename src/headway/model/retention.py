"""How long finished jobs are kept: by their kind, else by their queue, else by the app's setting for their status."""

from __future__ import annotations

from collections.abc import Mapping

from headway.errors import InvalidJob
from headway.model.duration import Duration, to_ms
from headway.model.status import FINISHED

FOREVER = "forever"
FOREVER_MS = 100 * 366 * 86_400_000
"""The longest duration: nothing in a database ended that long ago."""

Retention = Duration | Mapping[str, Duration]
"""One age for all finished jobs, or one for each status: "30d", "forever", {"succeeded": "1d", "dead": "forever"}."""


def age_ms(value: Duration, name: str) -> int:
    """How long something is kept; raises `InvalidJob`.

    >>> age_ms("7d", "retention"), age_ms("forever", "retention") == FOREVER_MS
    (604800000, True)
    """
    ms = FOREVER_MS if value == FOREVER else to_ms(value, name)
    if ms == 0:
        raise InvalidJob(f"{name}={value!r} must be longer than nothing")
    return ms


def ages_of(value: Retention, name: str = "retention") -> dict[str, int]:
    """The retention of a kind or queue, in milliseconds by status; raises `InvalidJob`.

    >>> ages_of({"dead": "90d"})
    {'dead': 7776000000}
    >>> ages_of("1s")
    {'succeeded': 1000, 'failed': 1000, 'dead': 1000, 'canceled': 1000}
    """
    if not isinstance(value, Mapping):
        return dict.fromkeys(FINISHED, age_ms(value, name))
    unknown = [status for status in value if status not in FINISHED]
    if unknown or not value:
        raise InvalidJob(
            f"{name}={value!r} must be one duration, or map some of {', '.join(FINISHED)} to durations, such as "
            '{"succeeded": "7d", "dead": "forever"}'
        )
    return {status: age_ms(age, f"{name}.{status}") for status, age in value.items()}


def kept_ms(status: str, default_ms: int, *, kind: Mapping[str, int], queue: Mapping[str, int]) -> int:
    """How long a job that ended so is kept; the first that says so decides: its kind, its queue, the default.

    >>> kept_ms("dead", 30, kind={"succeeded": 1}, queue={"dead": 2})
    2
    """
    return kind.get(status, queue.get(status, default_ms))
