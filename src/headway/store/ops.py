"""The whole list of what can be done to a database: a verb each, with its contract in a sentence or two.

A verb returns an `Op`: a recipe that yields statements and receives their rows, and that a driver runs in one
transaction, in either colour (`run.py`). Nothing else writes. Every verb but claim and retry may be repeated after a
lost acknowledgement; after a lost claim the worker asks `running` what it holds and releases what it never saw.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from headway.model.fleet import Beat, NewWorker, Promoted, Queue, Reaped, Worker
from headway.model.job import (
    Attempt,
    AuditEntry,
    Change,
    Claim,
    Enqueued,
    Filter,
    Job,
    NewJob,
    Outcome,
    Report,
    Settlement,
)
from headway.model.status import Status

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Row = tuple[Any, ...]
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement; its parameters are `$1`, `$2`, … on PostgreSQL and `?1`, `?2`, … on SQLite."""

    sql: str
    params: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One statement run once for each row of parameters; gives the rows of all runs, in order."""

    sql: str
    rows: Sequence[Sequence[Any]]


Steps = Generator[Statement | Batch, Rows, T]


@dataclass(frozen=True, slots=True)
class Op(Generic[T]):
    """A verb, ready to run: `steps` makes a new generator each time, so that an op can be tried again."""

    steps: Callable[[], Steps[T]]
    writes: bool
    repeatable: bool = True  # a driver may run it once more when the connection was lost on the way
    refusable: bool = False  # it may be refused by design, and the caller's transaction should live on then


class Ops(Protocol):
    """Both stores implement this; `tests/store/` holds them to it."""

    # the application

    def enqueue(self, jobs: Sequence[NewJob]) -> Op[list[Enqueued]]:
        """Insert the jobs, all or none, in call order; one that meets its own id, a live idempotency key or a unique
        key in scope is answered with the existing job, or raises `Duplicate` if its on_conflict is raise."""
        ...

    def cancel(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status]]:
        """Cancel each job that is not over: at once, or, if it is running, by asking its worker. Gives the status that
        each known job has now; a running one stays `running` until its worker or the reaper ends it. Audited."""
        ...

    def retry(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[dict[str, str]]:
        """Queue each finished job again with a full budget, at its old position; an at_most_once job that ever ran is
        retried by a new job instead. Gives job id → id that will run, for the jobs that were finished.
        Raises `Duplicate` (nothing is written) where its unique key is taken. Audited."""
        ...

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Change a job that is neither running nor finished; gives its status after, or None if there is no such job.
        Raises `NotAllowed` for a running or finished one, and for a payload once fence > 0. Audited."""
        ...

    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        """Stop claims from the queue: once this returned, none commits."""
        ...

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        """Let claims go on."""
        ...

    # the worker

    def register(self, worker: NewWorker) -> Op[Beat]:
        """Add the worker with a fresh lease."""
        ...

    def heartbeat(self, worker_id: str, *, running: int, busy: Sequence[str]) -> Op[Beat]:
        """Renew the worker's lease, if it still has one (else `alive` is False and nothing is written); `busy` names
        its queues without a free slot."""
        ...

    def unregister(self, worker_id: str) -> Op[None]:
        """Remove a worker that ends in good order; jobs it still held are reaped as if it were lost."""
        ...

    def claim(self, worker_id: str, queue: str, limit: int) -> Op[list[Claim]]:
        """Take up to `limit` jobs in order, set them running with fence + 1, and start their attempts. Finds nothing
        while the queue is paused. Raises `LeaseLost` for an unregistered worker. Finding nothing is one probe."""
        ...

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        """The (id, fence) of every job that is running under this worker."""
        ...

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[list[tuple[str, int]]]:
        """Write how executions ended: the job's move and one attempt row each, one transaction. Only rows still running
        with that fence change; gives the (id, fence) of the others, which were written nowhere. A settlement that
        was written before is not among them. A retry of a job asked to cancel, and one that would re-enter a unique
        scope now taken, end canceled; `failed` makes the job that retries it."""
        ...

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        """Give back claims whose execution never started: no attempt, no charge; queued, or scheduled if delayed."""
        ...

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        """Show progress, note and log tail of running jobs, and learn which of the worker's jobs were asked to stop."""
        ...

    def reap(self, gone: Sequence[str], *, limit: int) -> Op[list[Reaped]]:
        """End the executions of workers whose lease is over, that are not registered, or that are named in `gone`:
        attempt `lost`, loss charged, and the job scheduled with jittered backoff, or dead when out of losses, or
        failed with its retry made (at_most_once), or canceled if that was asked. Removes those workers."""
        ...

    def promote(self, *, limit: int) -> Op[Promoted]:
        """Queue the scheduled jobs that are due, in order of their time (a first-time job gets its position now), and
        cancel unfinished ones whose expires_at has passed (a running one is asked)."""
        ...

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` jobs that ended in that status longer ago, oldest first, with their attempts."""
        ...

    # reads

    def get(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[list[Job]]:
        """The jobs of these ids, in no particular order."""
        ...

    def find(self, where: Filter, *, limit: int, before_id: str | None) -> Op[list[Job]]:
        """The newest jobs that match, newest first (by id); `before_id` is the last id of the page before."""
        ...

    def attempts(self, job_id: str, *, tenant_id: str | None) -> Op[list[Attempt]]:
        """The job's executions in order of fence, the open one last."""
        ...

    def results(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[dict[str, Outcome]]:
        """Where these jobs are: status, and result or error of those that are over."""
        ...

    def counts(self, *, tenant_id: str | None) -> Op[dict[Status, int]]:
        """How many jobs are in each status."""
        ...

    def queues(self, *, tenant_id: str | None) -> Op[list[Queue]]:
        """Every queue that has unfinished jobs (of this tenant), a worker or a setting."""
        ...

    def workers(self) -> Op[list[Worker]]:
        """The registered workers."""
        ...

    def ahead(self, job_id: str) -> Op[int]:
        """How many queued jobs of its queue come before this queued job (counted up to 10,000)."""
        ...

    def tenants(self, ids: Sequence[str]) -> Op[dict[str, str]]:
        """The names of these tenants, as far as they are known."""
        ...

    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        """What people did to this job, oldest first."""
        ...

    def now(self) -> Op[datetime]:
        """The time by the clock that judges leases and due times."""
        ...

    def version(self) -> Op[int]:
        """The schema's version in the database; 0 where there is none."""
        ...
