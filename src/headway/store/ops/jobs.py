"""A job's life: enqueue, claim, settle, what operators do to it, and its reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from headway.model.artifact import Artifact, NewArtifact, NewPayload, TrashedBytes, WrittenPayload
from headway.model.audit import AccessNote
from headway.model.audit_chain import AuditSeal, AuditState, SealedEntry
from headway.model.deletion import Deletion
from headway.model.fleet import Promoted, Reaped
from headway.model.group import NewGroup
from headway.model.job import (
    Attempt,
    AuditEntry,
    Brief,
    Change,
    Claim,
    Counted,
    Enqueued,
    Job,
    Logged,
    NewJob,
    Outcome,
    Report,
    SettledAndClaimed,
    Settlement,
    Watched,
)
from headway.model.listing import Cursor, Filter, Order
from headway.model.machine import Settled
from headway.model.reported import Completion, Ended, Failure
from headway.model.status import Status
from headway.model.train import Moved
from headway.store.ops.recipe import Op

LockedNoun = Literal["job", "trigger", "template", "connector", "definition", "tenant", "worker", "setting"]


class Jobs(Protocol):
    def enqueue(self, jobs: Sequence[NewJob], group: NewGroup | None = None) -> Op[list[Enqueued]]:
        """Insert the jobs, all or none, in call order. A job that meets its own id, a live idempotency key or a unique
        key in scope is answered with the existing job, or raises `Duplicate` if its on_conflict is raise.

        A car of a train is inserted as `held`, unless its train has neither an unfinished car nor a hold: then it is
        the locomotive (on PostgreSQL only if the enqueue is a transaction of its own; else at the next claim).
        A job with `after` is held and pending. `group` is the new group that the jobs belong to. A machine begins where
        its `checkpoint` says; a fork's is a copy of another machine's.
        Raises `InvalidJob` for an `after` that names no job of the tenant and for a group that is stopped, `QueueFull`
        when a tenant has `max_pending` jobs waiting, and `NotAllowed` for a kind whose definition is not active."""
        ...

    def claim(self, worker_id: str, queue: str, limit: int, *, tenant_id: str | None = None) -> Op[list[Claim]]:
        """Take up to `limit` jobs in order, and start their executions: running, fence + 1. First processes arrivals.
        Finds nothing while the queue is paused or reserved; finding nothing is one probe. Takes at most one job of a
        partition, and none over a limit: those are set aside (`limited_by`) until there is capacity. Where jobs of two
        tenants wait it takes them tenant by tenant, going on where the last claim stopped. A machine's claim has its
        `checkpoint`, with its unconsumed signals. Ends early where payloads, states and signals would have more than
        64 MiB together (`CLAIM_BYTES`). Raises `LeaseLost` for an unregistered worker. With `tenant_id` it takes that
        tenant's jobs only, in order, found by an index."""
        ...

    def claim_once(
        self,
        worker_id: str,
        claim_id: str,
        queues: Sequence[str],
        limit: int,
        *,
        tenant_id: str | None,
        kinds: Sequence[str] | None = None,
    ) -> Op[list[Claim]]:
        """Claim from these queues (of this tenant, of these kinds), the first one first, but no flows: only our own
        workers run them. A repeated `claim_id` gives
        those of its jobs that the worker still runs, for ten minutes, and claims nothing. Renews the lease of a worker
        that runs nothing. Raises `LeaseLost` for an unregistered worker."""
        ...

    def claimable(self, queues: Sequence[str]) -> Op[list[str]]:
        """Those of these queues that have something to claim: one probe for a worker of many queues. First processes
        arrivals, as a claim does. A queue that is reserved or at its limit may be among them."""
        ...

    def first_in_line(
        self, queues: Sequence[str], tenants: Sequence[tuple[str, str]]
    ) -> Op[list[tuple[str, str, str]]]:
        """The queue, tenant and kind of the first jobs to be claimed from these queues, and of the first of a tenant in
        a queue, for these (queue, tenant): up to ten each, so that those who wait for such jobs can be told. First
        processes arrivals, as a claim does. A queue that is reserved or at its limit may be among them."""
        ...

    def take(self, worker_id: str, job_id: str, *, reservation_id: str | None) -> Op[Claim | None]:
        """Claim exactly this job, even though its queue is reserved under that id. None if it is not queued, if
        somebody else has reserved its queue, or if a partition or limit does not allow it. Raises `LeaseLost`."""
        ...

    def running(self, worker_id: str, *, tenant_id: str | None = None) -> Op[list[tuple[str, int]]]:
        """The (id, fence) of every job (of this tenant) that this worker is running."""
        ...

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        """Store progress, note and log tail of running jobs; gives the worker's jobs that were asked to stop. Skips a
        job whose row somebody's open transaction has locked."""
        ...

    def logged(self, ids: Sequence[str]) -> Op[list[Logged]]:
        """What these jobs have logged in the execution that runs."""
        ...

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        """Give back claims whose execution never started: no attempt, no charge; queued, or scheduled if delayed. Gives
        how many: one that somebody's open transaction blocks stays running, for a later call."""
        ...

    def settle(self, worker_id: str, settlements: Sequence[Settlement]) -> Op[Settled]:
        """Write how executions ended: the job's new status and one attempt each, in one transaction. Changes only rows
        that still run with that fence. `lost` has the (id, fence) of the others, but not of settlements that were
        written before; `busy` those that somebody's open transaction blocks, which are not written yet. A retry of a
        job that was asked to cancel, or that would re-enter a unique scope now taken, ends canceled; `failed` makes the
        job that retries it.
        A turn also writes the machine's step and state, consumes exactly the signals that it names, and enqueues its
        children. A machine that awaits what it has already is queued at once. `to` running starts the next execution
        under the same worker, with fence + 1: these are in `continued`, in a repeated settle, too.
        When a job is over, the next car of its train starts, or the train goes on hold by the job's on_canceled or
        on_dead; jobs that waited for it are queued or canceled (on PostgreSQL by the next claim). When it leaves
        `running`, jobs set aside for its partition or limits may be claimed."""
        ...

    def settle_and_claim(
        self, worker_id: str, settlements: Sequence[Settlement], queue: str, limit: int
    ) -> Op[SettledAndClaimed]:
        """Settle and then claim, in one transaction, all or none: for a train that is one commit per car instead of
        two. Claims nothing where somebody has locked what only the claim needs."""
        ...

    def complete(self, worker_id: str, completions: Sequence[Completion], *, tenant_id: str | None = None) -> Op[Ended]:
        """Settle executions of this worker as succeeded, in one transaction, for a worker in any language. What it does
        not run under that fence (any more), or is not of this tenant, is `lost`, and nothing of it is written; a repeat
        gives the same answer. Of a machine nothing is written either: its step ends with an outcome, by `settle`."""
        ...

    def fail(self, worker_id: str, failures: Sequence[Failure], *, tenant_id: str | None = None) -> Op[Ended]:
        """Settle executions of this worker as failed, by the policy of each job's row: another try after its backoff or
        `delay_ms`, dead when it has none left or `retry` is False, or failed with the job that retries it
        (at_most_once). One whose status is canceled cancels its job. Answers as `complete` does."""
        ...

    def commit_outcome(self, settlement: Settlement) -> Op[None]:
        """Write the outcome of a running job into its row; run in the caller's transaction, it exists exactly if that
        commits. From then on only `settle_committed` ends this execution: settle, release and reap leave it alone.
        Raises `LeaseLost` if the job does not run under that fence any more, `NotAllowed` if it has an outcome already,
        and `NotFound` if the database of the caller's connection has no such job."""
        ...

    def committed(self, job_id: str, fence: int) -> Op[Settlement | None]:
        """The outcome that the handler of this claim committed, if it is not settled yet."""
        ...

    def settle_committed(
        self, claims: Sequence[tuple[str, int]], *, refused: str | None = None
    ) -> Op[list[Settlement]]:
        """Settle those of these claims that have a committed outcome, by that outcome, and give these outcomes: what
        follows from a settle follows here. With `refused`, the reason why it cannot be applied, the job is dead
        instead, and not retried: what the handler did is committed."""
        ...

    def reap(self, gone: Sequence[str], *, limit: int, by: str | None = None) -> Op[list[Reaped]]:
        """End the executions of workers whose lease is over, that are not registered, or that `gone` names: attempt
        `lost`, loss charged, and the job scheduled with jittered backoff, or dead when out of losses, or failed with
        the job that retries it (at_most_once), or canceled if that was asked. Removes those workers. An execution
        without a worker, which only SQL can leave, is lost, too. One that cannot be ended is given with its `fault`;
        one that somebody's open transaction blocks is left for the next round. Neither stops the others. One whose
        handler committed its outcome is not lost but given as `committed`, for `settle_committed`.
        `by` is the worker that reaps. Unless its own heartbeats came in time for one whole lease, up to now, the
        database may have stood still: then leases that are over prove nothing, and only `gone` are reaped."""
        ...

    def declare_dead(self, worker_id: str, *, actor: str | None) -> Op[list[Reaped]]:
        """Remove this worker, whatever its lease says, and reap its jobs at once, by the rules of `reap`; the next
        round reaps a claim of it that commits later, and settles what is `committed`. If it lives after all, nothing
        that it writes counts, and its next heartbeat tells it so. Raises `NotFound`. Audited."""
        ...

    def cancel(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None,
        reason: str | None,
        actor: str | None,
        matching: str | None = None,
        at_once: bool = False,
    ) -> Op[dict[str, Status]]:
        """Cancel each job that is not over: at once, or a running one by asking its worker. A flow that has run, and
        is not held, gets the signal `$cancel` instead, which wakes it, and goes on until it has undone what it wants
        to; it is canceled like any other job by a second cancel, or with `at_once`. Gives the status that each
        known job has now; a running one stays `running` until its worker or the reaper ends it. Audited: here and in
        `retry` an entry for each, or if several were found by a filter, `matching` in words, one for each tenant."""
        ...

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Change a job that is neither running nor finished; gives its status afterwards, or None if there is no such
        job. Raises `NotAllowed` for a running or finished one, and for a payload once fence > 0. Audited."""
        ...

    def lock_row(self, noun: LockedNoun, ref: str, *, tenant_id: str | None) -> Op[None]:
        """Lock the row of a job, trigger, template, connector, tenant or worker, by its id, of a definition, by its
        kind, or what was set for a queue, kind or tenant ("queue mail"), until the transaction ends, so that what is
        read of it next stays so. Part of other ops."""
        ...

    def retry(
        self,
        ids: Sequence[str],
        *,
        tenant_id: str | None,
        actor: str | None,
        keep_place: bool = True,
        change: Change | None = None,
        matching: str | None = None,
    ) -> Op[dict[str, str]]:
        """Queue each finished job again with a full budget, at its old position, or without `keep_place` behind all
        others, in their old order; a car keeps its position in its train. An at_most_once job that ever ran is retried
        by a new job. Gives job id → id that will run, for the jobs that were finished.
        A job that waits (`after`) for one that is not over, or that is retried with it, is held until then; a parent
        that is over, however it ended, does not hold it back. A dependent that was canceled because of a retried job
        comes back, unless something else stops it or its unique key is taken; one that still waits, waits again.
        A machine goes on with the step at which it ended, which sees the same signals again; one that was canceled
        while it waited waits again. A car is `held` again, unless its train has no locomotive; a hold that it caused
        ends.
        `change` is set on each of them before it runs; here also the payload of one that ran, unless it is a machine.
        Raises `Duplicate` (nothing is written) where a unique key is taken, `NotAllowed`. Audited."""
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
        """Move a job that waits in its line: exactly one of before / after (another waiting job) and first / last. A
        car moves among the held cars of its train; any other job among the queued jobs of its queue, where it takes the
        priority of its new neighbour. The position is one in the gap; where there is none, neighbours are renumbered.
        Gives None if there is no such job. Raises `NotAllowed` for a job that is running, finished, scheduled or the
        locomotive of its train, and for a neighbour of another train or queue, or that does not wait. Audited."""
        ...

    def promote(self, *, limit: int) -> Op[Promoted]:
        """Queue the scheduled jobs that are due, in order of their time (a new job gets its position now), and the
        machines whose Await timed out; cancel unfinished jobs whose expires_at has passed (a running one is asked to
        stop). `next_due_ms` is how long until the next of these times, or deadlines."""
        ...

    def delete(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Deletion]]:
        """Delete those of these jobs that are over, with all that prune deletes with them. Gives for each known job
        `deleted`, or why it stays: the status of an unfinished one; `awaited`, a child whose machine waits for its
        children; `unsettled`, one whose end has consequences that are not done yet. Audited: one entry per tenant."""
        ...

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` jobs that ended in that status longer ago than the retention of their kind, else that of
        their queue, else than this; the oldest of each kind and queue first, with their attempts and signals. A child
        stays until the machine that waits for it has gone on."""
        ...

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete the entries of the audit's oldest seals, those whose entries are all older than this, until `limit`
        are deleted; gives how many. The newest of these seals stays as the anchor of the chain, and so does what has
        no seal."""
        ...

    def note_access(self, notes: Sequence[AccessNote]) -> Op[None]:
        """Add these to the audit."""
        ...

    def seal_audit(self, *, limit: int) -> Op[int]:
        """Put up to `limit` committed entries of the audit that have no seal under the next link of its chain, the
        oldest first, and of long ones fewer; gives how many. Writers do not wait for it."""
        ...

    def erase_audit(self, ids: Sequence[int], *, actor: str | None) -> Op[int]:
        """Take the words out of these entries that are sealed; their hashes stay, and so the chain. Gives how many.
        Audited."""
        ...

    def audit_seals(self, *, after: int, limit: int) -> Op[list[AuditSeal]]:
        """The links of the audit's chain after this number, in order."""
        ...

    def newest_audit_seals(self, *, limit: int) -> Op[list[AuditSeal]]:
        """The last links of the audit's chain, in order."""
        ...

    def sealed_entries(self, n: int) -> Op[list[SealedEntry]]:
        """What a link of the chain covers, in order of the entries' numbers."""
        ...

    def audit_state(self) -> Op[AuditState]:
        """How many entries of the audit no seal covers."""
        ...

    def prunable(self, kept_ms: Mapping[str, int]) -> Op[dict[str, int]]:
        """How many rows the prunes of each retention would delete, by its name."""
        ...

    def prune_windows(self, *, limit: int) -> Op[int]:
        """Delete up to `limit` windows of unique keys that are over, the oldest first; gives how many."""
        ...

    def window(self, job_id: str) -> Op[datetime | None]:
        """Until when this job has its unique key by `unique_for`; None if it has not, or not any more."""
        ...

    def get(self, ids: Sequence[str], *, tenant_id: str | None, raw: bool = False) -> Op[list[Job]]:
        """The jobs of these ids, in no particular order. `raw`, here and elsewhere: JSON is given as `msgspec.Raw`, the
        text as it is stored."""
        ...

    def ids_from(self, first: str, last: str, *, limit: int) -> Op[list[str]]:
        """The ids of jobs from one to another, both included, in order: completes an id of which somebody typed the
        beginning."""
        ...

    def find(
        self,
        where: Filter,
        *,
        limit: int,
        order: Order = "newest",
        after: Cursor | None = None,
        raw: bool = False,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        """The first jobs that match, in this order: newest or oldest (by id), by priority (then oldest first), or as a
        queue runs its queued jobs (`run`; the filter names the queue). `after` is where the previous page ended. Ends
        early, with fewer than `limit`, where these hold more than 64 MiB; with `search_limit`, and in order of ids,
        also where it looked at that many jobs of the index that it walks: then `Page.reached` is the id that it got
        to."""
        ...

    def attempts(self, job_id: str, *, tenant_id: str | None, raw: bool = False) -> Op[list[Attempt]]:
        """The job's executions in order of fence, the open one last."""
        ...

    def results(self, ids: Sequence[str], *, tenant_id: str | None, raw: bool = False) -> Op[dict[str, Outcome]]:
        """The status of these jobs, and the result or error of those that are over. A result that an artifact of the
        attempt has is `Spilled`; what only looks like one is as it was returned."""
        ...

    def counts(self, *, tenant_id: str | None, most: int | None = None) -> Op[dict[Status, int]]:
        """How many jobs are in each status; with `most`, counted up to that many: then it costs no more however many
        there are."""
        ...

    def brief(self, ids: Sequence[str]) -> Op[list[Brief]]:
        """A few columns of those of these jobs that exist, of any tenant: many times quicker to read than all."""
        ...

    def watched(self, log_ends: Mapping[str, int | None], *, tenant_id: str | None) -> Op[list[Watched]]:
        """What can change of these jobs, without their payloads; with their logs where these do not end as given."""
        ...

    def counts_by_kind(self, *, tenant_id: str | None) -> Op[list[Counted]]:
        """How many jobs each queue and kind has in each status: looks at every job."""
        ...

    def ahead(self, job_id: str, *, tenant_id: str | None = None) -> Op[int]:
        """How many queued jobs (of this tenant) of its queue come before this queued job (counted up to 10,000)."""
        ...

    def now(self) -> Op[datetime]:
        """The time by the clock that decides about leases and due times."""
        ...

    def begin_artifact(self, new: NewArtifact) -> Op[None]:
        """Note that a running attempt is about to store bytes there: if it never keeps them, they are trash once it has
        ended. Raises `LeaseLost`, and `NotAllowed` if this attempt has an artifact of that name."""
        ...

    def keep_artifact(self, new: NewArtifact, *, size: int, sha256: str) -> Op[Artifact]:
        """The bytes are there, whole: make them an artifact of the attempt, which must still run. Raises as
        `begin_artifact` does. Repeated, it gives the same artifact."""
        ...

    def begin_payloads(self, news: Sequence[NewPayload]) -> Op[None]:
        """Note that bytes are about to be written for jobs that are about to be enqueued: what no job has an hour later
        is trash. Raises `NotAllowed` for another tenant's, `TenantSuspended`."""
        ...

    def keep_payloads(self, written: Sequence[WrittenPayload]) -> Op[None]:
        """In the transaction that enqueued them: make each an artifact of its job, in place of an earlier payload, if
        the job refers to it; else, as when another job has its key, it is trash. Raises `NotAllowed` if the bytes may
        have been deleted meanwhile."""
        ...

    def payload_artifact(self, job_id: str, *, tenant_id: str | None) -> Op[Artifact | None]:
        """What the payload of this job refers to; None if it is the payload itself, whatever it looks like."""
        ...

    def artifact(self, artifact_id: str, *, tenant_id: str | None) -> Op[Artifact | None]: ...

    def artifacts(
        self, *, tenant_id: str | None, job_id: str | None, limit: int, before: str | None
    ) -> Op[list[Artifact]]:
        """The artifacts (of a job), newest first; `before` is the last id of the previous page."""
        ...

    def trash(self, stores: Sequence[str], *, limit: int) -> Op[list[TrashedBytes]]:
        """Bytes in these stores that no artifact has and that none can have any more: their artifact was deleted, or
        the attempt that wrote them has ended, or they were written for a job that never came. These cannot be kept any
        more once this was answered."""
        ...

    def empty_trash(self, ids: Sequence[str]) -> Op[None]:
        """These bytes are gone."""
        ...

    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        """What people did to this job, oldest first."""
        ...

    def audit_log(
        self,
        *,
        tenant_id: str | None,
        actor: str | None,
        action: str | None,
        limit: int,
        before: int | None,
        after: int | None = None,
    ) -> Op[list[AuditEntry]]:
        """What people and programs did, to jobs and to anything else, newest first; `before` is the last number of the
        previous page. With `after`, those with higher numbers, oldest first."""
        ...
