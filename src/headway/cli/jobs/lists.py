"""Lists of jobs of one sort, found among all: machines, flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headway.cli.jobs.job_summary import when

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.model.job import Job

LOOKED_AT = 20_000
"""How many jobs are searched."""
_PAGE = 1_000
_SINCE = 200
"""For how many waiting jobs the last execution is looked up."""


def jobs_that(
    app: Headway, filters: dict[str, Any], limit: int, before: str | None, wanted: Callable[[Job], bool]
) -> tuple[list[Job], str | None]:
    """The wanted jobs of a page, newest first, and the id to continue after; None if it is the last page."""
    found: list[Job] = []
    for _ in range(LOOKED_AT // _PAGE):
        jobs = app.jobs(limit=_PAGE, before=before, **filters)
        for job in jobs:
            if not wanted(job):
                continue
            if len(found) == limit:
                return found, found[-1].id
            found.append(job)
        if not jobs:
            return found, None
        before = jobs[-1].id
    return found, before


def since_when(app: Headway, jobs: Sequence[Job]) -> list[datetime | None]:
    """Since when each is as it is; for one that waits, since its last execution ended."""
    moments: list[datetime | None] = []
    looked_at = 0
    for job in jobs:
        ended = None
        if job.status == "waiting" and looked_at < _SINCE:
            looked_at += 1
            attempts = app.attempts(job.id)
            ended = attempts[-1].finished_at if attempts else None
        moments.append(ended or when(job))
    return moments
