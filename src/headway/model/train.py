"""The values of trains: keys whose jobs run strictly one after another."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headway.model.status import Status


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
