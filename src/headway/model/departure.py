"""What a job that leaves its status or queue sets free: its train, its limits, and those that wait for it.

PostgreSQL has the same rules in `order/follow.sql` and the files beside it: there SQL decides, on locked rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headway.model.limit import concurrency_key, partition_key, rate_key, tenant_key
from headway.model.status import Status


class LeavingJob(msgspec.Struct, frozen=True, array_like=True):
    """A job that is about to leave its status or queue: its train, limits and group, and whether others await it."""

    id: str
    tenant_id: str
    kind: str
    queue: str
    status: Status
    train: str | None
    holds_when_canceled: int | None
    holds_when_dead: int | None
    partition: str | None
    concurrency: int | None
    concurrency_key: str | None
    rate_count: int | None
    rate_key: str | None
    limited: int
    limited_by: str | None
    group_id: str | None
    awaited: int  # by jobs with `after`
    calls: int = 0  # a flow that waits for children

    def has_seat(self) -> bool:
        """Whether it is the locomotive of its train."""
        return self.train is not None and self.status in ("queued", "running", "scheduled", "waiting")


class Departure(msgspec.Struct, frozen=True):
    """A job that left its status or queue, and where it went."""

    job: LeavingJob
    to: Status
    heir: str | None = None  # the new job that retries it: it takes over its train and its dependents
    spared: bool = False  # its train moves on, whatever on_canceled says

    def holds(self) -> bool:
        """Whether its end puts its train on hold."""
        job = self.job
        if self.spared or not job.has_seat():
            return False
        if self.to == "canceled":
            return bool(job.holds_when_canceled)
        return self.failed and bool(job.holds_when_dead)

    @property
    def failed(self) -> bool:
        """Whether it is over without success; one that a new job retries is not."""
        return self.to in ("dead", "canceled") or (self.to == "failed" and self.heir is None)

    def freed(self) -> Iterator[str]:
        """The limit keys under which another job may start now."""
        job = self.job
        # a limited job held no slot; a queued one may hold the slot that it was admitted for
        queued = job.status == "queued" and job.limited_by is None
        if job.status != "running" and not queued:
            return
        if job.partition is not None:
            yield partition_key(job.tenant_id, job.partition)
        if job.concurrency_key is not None:
            yield concurrency_key(job.tenant_id, job.kind, job.concurrency_key)
        if queued or job.limited == 1:
            yield concurrency_key(job.tenant_id, job.kind, None)
            yield tenant_key(job.tenant_id)
        if queued:
            yield rate_key(job.tenant_id, job.kind, job.rate_key)
