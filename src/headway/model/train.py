"""Trains: keys whose jobs run strictly one after another; their values, and which new car is the locomotive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.model.job import NewJob
from headway.model.status import Status

TrainKey = tuple[str, str]
"""A tenant's id and the name of its train."""


class Hold(msgspec.Struct, frozen=True):
    """Why a train stands still, until somebody resumes it."""

    since: datetime
    job_id: str | None  # the car whose end put it on hold; None: an operator did
    reason: str | None
    actor: str | None


class Train(msgspec.Struct, frozen=True, kw_only=True):
    """A train with unfinished cars, or on hold. Its head is the locomotive, or else the first car that is held."""

    train: str
    tenant_id: str
    tenant: str
    length: int  # its unfinished cars, the locomotive included
    head_id: str | None
    head_kind: str | None
    head_status: Status | None
    head_since: datetime | None  # when the head was enqueued
    head_pending: bool  # the head waits for other jobs (`after`)
    hold: Hold | None

    @property
    def blocked(self) -> bool:
        """Whether no car moves until somebody does something."""
        return self.hold is not None


class Moved(msgspec.Struct, frozen=True):
    """Where a job stands after `move`."""

    job_id: str
    priority: int
    position: int


def first_statuses(jobs: Sequence[NewJob], starts: Sequence[int | None], now: int, busy: set[TrainKey]) -> list[Status]:
    """The first status of each new job, which are to start at these times, if not now: the first car of a train is its
    locomotive, unless the train is busy (has an unfinished car, or is on hold). Adds their trains to the busy ones."""
    statuses: list[Status] = []
    for job, start in zip(jobs, starts, strict=True):
        status: Status = "scheduled" if start is not None and start > now else "queued"
        if job.after:
            status = "held"
        if job.train is not None:
            key = (job.tenant_id, job.train)
            if key in busy:
                status = "held"
            busy.add(key)
        statuses.append(status)
    return statuses
