"""A job's life: enqueue, claim, settle, what operators do to it, and its reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headway.model.fleet import Promoted, Reaped
from headway.model.group import NewGroup
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
    SettledAndClaimed,
    Settlement,
)
from headway.model.machine import Settled
from headway.model.status import Status
from headway.model.train import Moved
from headway.store.ops.recipe import Op


class Jobs(Protocol):
    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        """Insert the jobs, all or none, in call order; one that meets its own id, a live idempotency key or a unique
        key in scope is answered with the existing job, or raises `Duplicate` if its on_conflict is raise.

        A car of a train goes in `held`, unless its train shows no unfinished car and no hold: then it is the
        locomotive (on PostgreSQL only where the enqueue is a transaction of its own; else the next claim couples it).
        A job with `after` goes in held and pending. `group` is the new group that the jobs belong to.
        A machine begins where its `place` says (with it, a fork copies where another one was).
        Raises `InvalidJob` for an `after` that names no job of the tenant, and for a group that is stopped,
        `QueueFull` when a tenant has as many waiting as its `max_pending`, and `NotAllowed` for a kind whose
        definition is not active."""
        ...

    def claim(self, worker_id: str, queue: str, limit: int) -> Op[list[Claim]]:
        """Take up to `limit` jobs in order, set them running with fence + 1, and start their attempts. Finds nothing
        while the queue is paused or reserved. Raises `LeaseLost` for an unregistered worker. Finding nothing is one
        probe. First couples what arrived. Takes at most one job of a partition that has none running, and none over
        a limit; those that it passes over wait aside (`limited_by`) until there is room. A fair queue's jobs are taken
        tenant by tenant in turn, going on where the last claim stopped. A machine's claim has its `place`, with every
        signal that is unconsumed."""
        ...

    def claimable(self, queues: Sequence[str]) -> Op[list[str]]:
        """Of these queues, those that a claim may find something in: one probe for a worker of many queues. First
        couples what arrived, as a claim does. A queue that is reserved or at its limit may be among them."""
        ...

    def take(self, worker_id: str, job_id: str, *, reservation_id: str | None) -> Op[Claim | None]:
        """Claim exactly this job, although its queue is reserved under that id: None if it is not queued, its queue is
        reserved by somebody else, or a partition or limit is in its way. Raises `LeaseLost`."""
        ...

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        """The (id, fence) of every job that is running under this worker."""
        ...

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        """Show progress, note and log tail of running jobs, and learn which of the worker's jobs were asked to stop.
        Skips a job whose row somebody's open transaction holds."""
        ...

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        """Give back claims whose execution never started: no attempt, no charge; queued, or scheduled if delayed.
        Gives how many: one that somebody's open transaction is in the way of stays running, for a later call."""
        ...

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[Settled]:
        """Write how executions ended: the job's move and one attempt row each, one transaction. Only rows still running
        with that fence change; `lost` has the (id, fence) of the others, which were written nowhere. A settlement that
        was written before is not among them; nor is one that somebody's open transaction is in the way of: it is in
        `busy`, and not written yet. A retry of a job asked to cancel, and one that would re-enter a unique
        scope now taken, end canceled; `failed` makes the job that retries it.
        With a turn it also writes the machine's step and state, consumes exactly the signals that the turn names, and
        enqueues its children. A machine that awaits what is there already is queued at once. `to` running starts the
        next execution under the same worker, fence + 1: `continued` has each that did, in a repeated settle too.
        Where a job is over, its train's next car is let go, or the train put on hold by the job's on_canceled or
        on_dead; jobs that waited for it are let go or ended (on PostgreSQL by the next claim); where it left `running`,
        what waited for its partition or limit may be claimed."""
        ...

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[SettledAndClaimed]:
        """Settle, and then claim, in one transaction, all or none of it: where a train has one car after another, that
        is one commit a car instead of two. Claims nothing where somebody holds a lock that only the claim needs."""
        ...

    def reap(self, gone: Sequence[str], *, limit: int, by: str | None = None) -> Op[list[Reaped]]:
        """End the executions of workers whose lease is over, that are not registered, or that are named in `gone`:
        attempt `lost`, loss charged, and the job scheduled with jittered backoff, or dead when out of losses, or
        failed with its retry made (at_most_once), or canceled if that was asked. Removes those workers. An execution
        that is running under nobody, as no verb leaves one, is lost too. One that cannot be ended is given with its
        `fault`; what somebody's open transaction is in the way of is left for the next round. Neither stops the rest.
        `by` is the worker that reaps: unless its own heartbeats came in time for one whole lease, up to now, leases
        that are over say nothing (the database may have stood still), and only `gone` are taken.
        """
        ...

    def cancel(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status]]:
        """Cancel each job that is not over: at once, or, if it is running, by asking its worker. Gives the status that
        each known job has now; a running one stays `running` until its worker or the reaper ends it. Audited."""
        ...

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Change a job that is neither running nor finished; gives its status after, or None if there is no such job.
        Raises `NotAllowed` for a running or finished one, and for a payload once fence > 0. Audited."""
        ...

    def retry(
        self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None, keep_place: bool = True
    ) -> Op[dict[str, str]]:
        """Queue each finished job again with a full budget, at its old position (or, without `keep_place`, behind all
        that are there, in their old order; a car keeps its place in its train); an at_most_once job that ever ran is
        retried by a new job instead. Gives job id → id that will run, for the jobs that were finished.
        One that waits (`after`) for a job that is not over, or that is retried with it, is held until that is over;
        what is over, however it ended, holds it up no more. A dependent that the end of a retried job has canceled
        comes back, unless something else stops it too or its unique key is taken.
        A machine goes on with the step at which it ended, which sees again what it saw (its signals are given back to
        the inbox); one that was canceled while it waited waits again.
        A car takes its old place in its train (`held`, unless the train has no locomotive); if the train is on hold
        because of it, the hold is over. What still waits for it (`after`) waits for it again.
        Raises `Duplicate` (nothing is written) where its unique key is taken. Audited."""
        ...

    def move(
        self,
        job_id: str,
        *,
        before: str | None = None,
        after: str | None = None,
        first: bool = False,
        last: bool = False,
        tenant_id: str | None,
        actor: str | None,
    ) -> Op[Moved | None]:
        """Move a job that waits to another place: exactly one of before / after (another waiting job) and first / last.
        A car moves among the held cars of its train; any other job among the queued ones of its queue, where it takes
        the priority of its new neighbour. Positions are made in the gap, and renumbered around it where there is none.
        Gives None if there is no such job. Raises `NotAllowed` for one that is running, finished, scheduled or the
        locomotive of its train, and for a neighbour of another train or queue or that does not wait. Audited."""
        ...

    def promote(self, *, limit: int) -> Op[Promoted]:
        """Queue the scheduled jobs that are due, in order of their time (a first-time job gets its position now), and
        cancel unfinished ones whose expires_at has passed (a running one is asked). Queues machines whose await has
        timed out; `next_due_ms` minds deadlines too."""
        ...

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` jobs that ended in that status longer ago, oldest first, with their attempts and
        signals. A child is kept until the machine that waits for it has gone on."""
        ...

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` of the oldest entries of the audit, those that are older; gives how many."""
        ...

    def prunable(self, kept_ms: Mapping[str, int]) -> Op[dict[str, int]]:
        """How many rows are older than this, by name of the retention: what `prune` and `prune_fires` would delete."""
        ...

    def get(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[list[Job]]:
        """The jobs of these ids, in no particular order."""
        ...

    def ids_from(self, first: str, last: str, *, limit: int) -> Op[list[str]]:
        """The ids of jobs from one to another, both included, in order: what begins as somebody typed it."""
        ...

    def find(self, where: Filter, *, limit: int, before_id: str | None) -> Op[list[Job]]:
        """The newest jobs that match, newest first (by id); `before_id` is the last id of the page before.
        Ends early, with fewer than `limit`, where these hold more than 64 MiB."""
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

    def ahead(self, job_id: str, *, tenant_id: str | None = None) -> Op[int]:
        """How many queued jobs (of this tenant) of its queue come before this queued job (counted up to 10,000)."""
        ...

    def now(self) -> Op[datetime]:
        """The time by the clock that judges leases and due times."""
        ...

    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        """What people did to this job, oldest first."""
        ...

    def audit_log(
        self, *, tenant_id: str | None, actor: str | None, action: str | None, limit: int, before: int | None
    ) -> Op[list[AuditEntry]]:
        """What people and programs did, also to no job, newest first; `before` is the last number of a page."""
        ...
