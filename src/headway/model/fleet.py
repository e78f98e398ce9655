"""The values of workers and queues."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from headway.model.status import Status


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that introduces itself; its id is new at every start."""

    id: str
    hostname: str
    pid: int
    machine: str | None  # names the machine, its boot and its pid namespace; None where that is unknown
    process_started: str | None  # with the pid, proves that a process is this one
    version: str
    queues: dict[str, int]  # slots per queue
    kinds: tuple[str, ...]
    concurrency: int
    lease_ms: int
    late_ms: int | None = None  # how long after a heartbeat the next one is late; None: half a lease
    metadata: dict[str, Any] = {}


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it is stored."""

    id: str
    hostname: str
    pid: int
    machine: str | None
    process_started: str | None
    version: str
    queues: dict[str, int]
    kinds: tuple[str, ...]
    concurrency: int
    running: int
    started_at: datetime
    heartbeat_at: datetime
    lease_expires_at: datetime
    metadata: dict[str, Any]
    wanted: dict[str, Any] | None = None  # what an operator set for it: `ServedChange` in model/served.py

    @property
    def etag(self) -> str:
        """Changes whenever an operator sets something else for it; heartbeats, jobs and queues come and go."""
        return blake2b(msgspec.json.encode((self.id, self.wanted), order="sorted"), digest_size=12).hexdigest()


class HeartbeatReply(msgspec.Struct, frozen=True):
    """What the store answers to a heartbeat, and to registering."""

    alive: bool  # False: this worker was reaped; it must start over under a new id
    fleet: dict[str, int]  # for each of its queues, how many live workers have free slots there
    canceling: list[tuple[str, int]]  # (job id, fence) of its running jobs that were asked to stop
    wanted: str | None = None  # what an operator set for it, as JSON


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant; one that was only ever named by its id has no slug."""

    id: str
    slug: str | None
    created_at: datetime
    suspended_at: datetime | None = None
    suspended_by: str | None = None
    tz: str | None = None  # the zone that its new schedules start with; None: the app's

    @property
    def etag(self) -> str:
        """Changes whenever the tenant does."""
        return blake2b(msgspec.json.encode(self), digest_size=12).hexdigest()


MOST_QUEUED = 1_000
"""How many jobs of a queue are counted where only queued ones are."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with the number of its unfinished jobs per status."""

    name: str
    paused: bool
    paused_at: datetime | None
    paused_by: str | None
    counts: dict[Status, int]
    oldest_queued_at: datetime | None
    workers: int
    kinds: tuple[str, ...] = ()  # what its live workers know
    fair: bool = True  # where jobs of two tenants wait, tenants take turns
    max_running: int | None = None
    limited: int = 0  # of those queued: how many wait for a partition or limit
    reserved_by: str | None = None
    reserved_until: datetime | None = None
    retention: dict[str, int] | None = None  # of its finished jobs: milliseconds by status

    @property
    def etag(self) -> str:
        """Changes whenever its settings do; jobs and workers come and go."""
        settings = (self.name, self.paused_at, self.fair, self.max_running, self.retention)
        return blake2b(msgspec.json.encode(settings, order="sorted"), digest_size=12).hexdigest()


class Reaped(msgspec.Struct, frozen=True):
    """One execution that was lost with its worker, and where its job went; or why it could not be ended; or that its
    handler committed its outcome, which has to be settled."""

    job_id: str
    fence: int
    kind: str
    worker_id: str | None
    to: Status | None
    fault: str | None = None
    committed: bool = False


class Promoted(msgspec.Struct, frozen=True):
    """How many due jobs were queued and how many expired ones canceled; `next_due_ms` until the next is due; how many
    arrivals were processed (PostgreSQL)."""

    queued: int
    expired: int
    next_due_ms: int | None
    arrived: int = 0


class Swept(msgspec.Struct, frozen=True):
    """What a sweep repaired: it names what it found, so that people can find out what broke it."""

    trains: tuple[str, ...] = ()  # whose next car was released
    jobs: tuple[str, ...] = ()  # that waited for jobs that were over or gone
    keys: tuple[str, ...] = ()  # of limits that had room

    def __bool__(self) -> bool:
        return bool(self.trains or self.jobs or self.keys)
