"""Groups: jobs enqueued together, with a mode, a failure policy and a job that runs at their end."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from headway.model.status import FINISHED, Status

Mode = Literal["parallel", "sequential"]
GroupFailure = Literal["stop", "continue", "skip"]
GroupStatus = Literal["running", "succeeded", "failed", "canceled"]


class NewGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group to be enqueued with its members; the members carry its id.

    on_failure, when a member ends without having succeeded: `stop` cancels the members that are not over and the
    callback; `continue` lets the others go on and runs the callback at the end anyway; `skip` lets the others go
    on, but cancels the callback.
    """

    id: str
    tenant: str | None = None
    tenant_id: str
    mode: Mode = "parallel"
    on_failure: GroupFailure = "stop"
    callback_id: str | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it is stored, with how far its members are. The callback is not among the members."""

    id: str
    tenant_id: str
    tenant: str
    mode: Mode
    on_failure: GroupFailure
    callback_id: str | None
    created_at: datetime
    stopped_at: datetime | None  # a failure, or somebody, stopped it
    counts: dict[Status, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """The members that are over, however they ended."""
        return sum(count for status, count in self.counts.items() if status in FINISHED)

    @property
    def failed(self) -> int:
        """The members that ended without having succeeded."""
        return self.done - self.counts.get("succeeded", 0)

    @property
    def progress(self) -> float:
        return self.done / self.total if self.total else 1.0

    @property
    def status(self) -> GroupStatus:
        if self.done < self.total:
            return "running"
        if not self.failed:
            return "succeeded"
        return "canceled" if self.failed == self.counts.get("canceled", 0) else "failed"
