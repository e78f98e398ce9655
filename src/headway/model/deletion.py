"""What became of a job that somebody asked to delete."""

from __future__ import annotations

from typing import Literal

from headway.errors import NotAllowed

Deletion = Literal["deleted", "queued", "scheduled", "held", "running", "waiting", "awaited", "unsettled"]
"""Or why it stays: the status of an unfinished job, `awaited` by its machine, `unsettled` (see `store/ops/jobs.py`)."""


def not_deletable(job_id: str, found: Deletion) -> NotAllowed:
    """Why a job stays, and what to do about it."""
    match found:
        case "awaited":
            why = "is a child of a machine that waits for its children: delete it when that machine has gone on"
        case "unsettled":
            why = "has ended, but workers have not done all that follows from its end: delete it in a moment"
        case "running":
            why = "is running: only a finished job can be deleted; cancel it, and delete it when it has stopped"
        case _:
            why = f"is {found}: only a finished job can be deleted; cancel it first"
    return NotAllowed(f"job {job_id} {why}")
