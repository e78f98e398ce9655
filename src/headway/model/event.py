"""Events: named facts that an application published, stored before they are handled."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal

import msgspec

from headway.errors import InvalidJob
from headway.model.status import Status

EventStatus = Literal["pending", "handled", "failed"]

ENGINE_EVENTS = ("headway.job.succeeded", "headway.job.failed", "headway.job.dead", "headway.job.canceled")
"""The engine's own events: a job ended in this status, and an enabled trigger of its tenant listens."""


_PATTERN = re.compile(r"(?:\*|[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127})\Z")
ALL_ENDS = "headway.job.*"


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be stored."""

    id: str
    tenant: str | None = None
    tenant_id: str
    name: str
    payload: str = "null"  # JSON text
    correlation_id: str | None = None
    trace_id: str | None = None
    created_by: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is stored; failed: a trigger on it could not fire, and can be retried."""

    id: str
    tenant_id: str
    tenant: str
    name: str
    payload: Any
    status: EventStatus
    emitted_at: datetime
    handled_at: datetime | None
    correlation_id: str | None
    trace_id: str | None  # of what emitted it
    created_by: str | None
    job_id: str | None  # of the engine's own events: the job that ended
    error: str | None


class JobEnded(msgspec.Struct, frozen=True):
    """The payload of an engine's event."""

    job_id: str
    kind: str
    queue: str
    status: Status
    error: str | None  # its first line
    tries: int
    losses: int
    correlation_id: str | None
    source: str
    trigger_id: str | None


def engine_event(status: Status) -> str:
    """The name of the event that the end of a job in this status emits."""
    return f"headway.job.{status}"


def check_pattern(event: object) -> str:
    """The name of an event, `order.*` for all that begin with `order.`, or `*` for all of the application's; raises
    `InvalidJob`."""
    if isinstance(event, str) and event.startswith("headway.") and event not in (*ENGINE_EVENTS, ALL_ENDS):
        raise InvalidJob(f"{event!r} is no event of the engine: it has {', '.join(ENGINE_EVENTS)} and {ALL_ENDS}")
    if not isinstance(event, str) or len(event) > 128 or not _PATTERN.match(event.removesuffix(".*")):
        raise InvalidJob(
            f"{event!r} is neither the name of an event nor a pattern: use 1 to 128 letters, digits and . _ - : /, "
            "and .* at the end"
        )
    return event


def covers(pattern: str, event: str) -> bool:
    """Whether a pattern matches this event, or all that this other pattern matches. `*` leaves out the engine's own.

    >>> covers("order.*", "order.paid"), covers("order.*", "order"), covers("*", "headway.job.dead")
    (True, False, False)
    """
    if pattern == event:
        return True
    if pattern == "*":
        return not event.startswith("headway.")
    return pattern.endswith(".*") and event.startswith(pattern[:-1])
