"""Which jobs may be changed, and where a change of their time takes them."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from headway.clock import from_micros
from headway.model import refusals
from headway.model.job import Change
from headway.model.status import FINISHED, Status

_RUNNING = tuple(name for name in Change.__struct_fields__ if name not in ("meta", "tags"))


def check_changeable(job_id: str, status: Status, fence: int, change: Change, *, retried: bool, machine: bool) -> None:
    """Raises `NotAllowed` for a job that is running or over, and for a payload once it ran; one that is being `retried`
    may get another, unless it is a machine. Meta and tags may change once it is over."""
    if status == "running" or (status in FINISHED and not only_labels(change)):
        raise refusals.not_changeable(job_id, status)
    if change.payload is not msgspec.UNSET and fence > 0:
        if machine and retried:
            raise refusals.payload_of_machine(job_id, fence)
        if not retried:
            raise refusals.payload_fixed(job_id, fence)


def only_labels(change: Change) -> bool:
    """Whether it sets nothing but meta and tags, which do not decide how a job runs."""
    return all(getattr(change, name) is msgspec.UNSET for name in _RUNNING)


def timed(change: Change, now: int) -> Change:
    """The change with its delay as a time, by this now."""
    if isinstance(change.delay_ms, msgspec.UnsetType):
        return change
    return msgspec.structs.replace(
        change, scheduled_for=from_micros(now) + timedelta(milliseconds=change.delay_ms), delay_ms=msgspec.UNSET
    )


def status_after(status: Status, change: Change, now: int) -> Status:
    """Where a timed change takes a job: only one that is queued or scheduled waits for its time."""
    due = change.scheduled_for
    if isinstance(due, msgspec.UnsetType) or status not in ("queued", "scheduled"):
        return status
    return "scheduled" if due is not None and due > from_micros(now) else "queued"
