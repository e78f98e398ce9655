"""A job in a few words, for tables and pages: what it waits for, and since or until when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from headway.cli.program.output import first_line
from headway.model.journal import CHILD, FLOW
from headway.model.signal import is_internal

if TYPE_CHECKING:
    from headway.model.job import Job


def remark(job: Job) -> str:
    """What its own row says beyond its status."""
    match job.status:
        case "running":
            done = f"{job.progress:.0%} " if job.progress is not None else ""
            return "asked to cancel" if job.cancel_requested_at else done + (job.progress_note or "")
        case "held":
            return f"held: {_holder(job)}"
        case "queued" if job.limited_by is not None:
            return f"limited: {limiter(job)}"
        case "waiting":
            return f"waits for {awaits(job)}"
    return first_line(job.error)


def awaits(job: Job) -> str:
    """What a waiting machine or flow waits for."""
    if job.status != "waiting":
        return ""
    if job.step == FLOW:
        names = [name for name in job.awaiting if not is_internal(name)]
        return " or ".join([*names, *(["jobs"] if CHILD in job.awaiting else [])]) or "a time"
    if job.awaiting:
        return (" and " if job.match == "all" else " or ").join(job.awaiting)
    return "children"


def when(job: Job) -> datetime | None:
    """The time that matters for its status."""
    times = {"scheduled": job.scheduled_for, "running": job.attempt_started_at}
    if job.step is not None and job.status in ("queued", "waiting"):
        # machines live long: when the last step was queued says more than when the machine was created
        return job.queued_at or job.created_at
    return times.get(job.status, job.finished_at or job.created_at)


def limiter(job: Job) -> str:
    """Its `limited_by` in words."""
    match (job.limited_by or "").partition(":")[0]:
        case "p":
            return f"partition {job.partition} is busy"
        case "c":
            return f"concurrency {job.concurrency} of key {job.concurrency_key}"
        case "k":
            return f"max running of kind {job.kind}"
        case "t":
            return f"max running of tenant {job.tenant}"
        case "r":
            return f"rate of {f'kind {job.kind}' if job.rate_key is None else f'key {job.rate_key}'}"
    return job.limited_by or ""


def _holder(job: Job) -> str:
    awaits = "waits for other jobs" if job.pending else ""
    train = f"in train {job.train}" if job.train is not None else ""
    return ", ".join(part for part in (awaits, train) if part) or "about to be queued"
