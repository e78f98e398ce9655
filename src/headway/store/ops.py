"""The whole list of what can be done to a database: a verb each, with its contract in a sentence or two.

A verb returns an `Op`: a recipe that yields statements and receives their rows, and that a driver runs in one
transaction, in either colour (`run.py`). Nothing else writes. Every verb but claim and retry may be repeated after a
lost acknowledgement; after a lost claim the worker asks `running` what it holds and releases what it never saw.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from headway.model.definition import Definition, DefinitionChange
from headway.model.event import Event, EventStatus, NewEvent
from headway.model.fleet import HeartbeatReply, NewWorker, Promoted, Queue, Reaped, Swept, Worker
from headway.model.group import Group, NewGroup
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
from headway.model.limit import Limit, Usage
from headway.model.machine import Began, Child, Settled
from headway.model.reservation import Reservation
from headway.model.signal import NewSignal, Sent, Signal
from headway.model.status import Status
from headway.model.template import NewTemplate, Template, TemplateChange
from headway.model.train import Moved, Train
from headway.model.trigger import (
    Declaration,
    Due,
    Fire,
    Firing,
    Handling,
    NewFire,
    NewTrigger,
    Trigger,
    TriggerChange,
    TriggerType,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Row = tuple[Any, ...]
Rows = list[Row]


class Statement(msgspec.Struct, frozen=True):
    """One statement; its parameters are `$1`, `$2`, … on PostgreSQL and `?1`, `?2`, … on SQLite."""

    sql: str
    params: Sequence[Any] = ()


class Batch(msgspec.Struct, frozen=True):
    """One statement run once for each row of parameters; gives the rows of all runs, in order."""

    sql: str
    rows: Sequence[Sequence[Any]]


Steps = Generator[Statement | Batch, Rows, T]


class Op(msgspec.Struct, Generic[T], frozen=True):
    """A verb, ready to run: `steps` makes a new generator each time, so that an op can be tried again."""

    steps: Callable[[], Steps[T]]
    writes: bool
    repeatable: bool = True  # a driver may run it once more when the connection was lost on the way
    refusable: bool = False  # it may be refused by design, and the caller's transaction should live on then
    atomic: bool = False  # its statements need one transaction around them
    urgent: bool = False  # a heartbeat does not wait until other calls give a connection back
    alone: Callable[[], Steps[T]] | None = None  # the same steps for a transaction of its own, which ends with them
    # what to run instead where it failed for some of its rows: somebody's open transaction, or a row that is broken
    apart: Op[T] | None = None


class Ops(Protocol):
    """Both stores implement this; `tests/store/` holds them to it."""

    # the application

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

    def cancel(
        self, ids: Sequence[str], *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status]]:
        """Cancel each job that is not over: at once, or, if it is running, by asking its worker. Gives the status that
        each known job has now; a running one stays `running` until its worker or the reaper ends it. Audited."""
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

    def change(self, job_id: str, change: Change, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Change a job that is neither running nor finished; gives its status after, or None if there is no such job.
        Raises `NotAllowed` for a running or finished one, and for a payload once fence > 0. Audited."""
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

    # machines

    def signal(self, signals: Sequence[NewSignal]) -> Op[list[Sent]]:
        """Put signals into inboxes, all or none, in call order: durable, and seen by the next step of the machine that
        starts after it. A machine that waits for them is woken by the next claim or tick (on SQLite here and now).
        One whose dedup_key its job has had already is answered with that one, also when the job is over. Takes no lock
        that others wait for, so it may be part of a caller's long transaction.
        Raises `NotFound` (no such job, none with that unique key in scope) and `NotAllowed` (the job is over, or is a
        plain job, which shows when it has run)."""
        ...

    def fork(self, job: NewJob, signals: Sequence[NewSignal], *, actor: str | None) -> Op[Enqueued]:
        """Enqueue a machine that begins where another one was (`job.place`), with copies of signals that it had then,
        in one transaction. Audited, on the new job."""
        ...

    # definitions

    def change_definition(self, kind: str, change: DefinitionChange, *, actor: str | None) -> Op[Definition]:
        """Set what an operator wants of a kind, also of one that no code has written yet; the fields that were set no
        longer follow the code, until they are reset (to what the code said last). Audited (job_id None)."""
        ...

    def delete_definition(self, kind: str, *, actor: str | None) -> Op[bool]:
        """Forget a kind, with what an operator changed; a worker that has it writes it anew at its start. Audited."""
        ...

    # templates; names are unique in their tenant

    def create_template(self, template: NewTemplate, *, actor: str | None) -> Op[Template]:
        """Store a template. Raises `Duplicate` where the name is taken. A repeat with the same id is answered with what
        is stored. Audited."""
        ...

    def change_template(
        self, template_id: str, change: TemplateChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Template | None]:
        """Change a template, revision + 1; jobs that were made of it stay as they are. None if there is no such one.
        Raises `Duplicate` where the new name is taken. Audited."""
        ...

    def delete_template(self, template_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Delete a template. Raises `NotAllowed` while a trigger points at it, naming up to three. Audited."""
        ...

    # triggers: schedules and event triggers; names are unique in their tenant and type

    def create_trigger(self, trigger: NewTrigger, *, actor: str | None) -> Op[Trigger]:
        """Store a trigger. Raises `Duplicate` where the name is taken, `NotFound` for a template that is not the
        tenant's. A repeat with the same id is answered with what is stored. Audited."""
        ...

    def change_trigger(
        self, trigger_id: str, change: TriggerChange, *, tenant_id: str | None, actor: str | None
    ) -> Op[Trigger | None]:
        """Change a trigger, revision + 1: a firing that was planned before is void. Sets `error` back. None if there is
        no such trigger. Raises `Duplicate` and `NotFound` as `create_trigger`, and `NotAllowed` where it has another
        revision than the change was made for. Audited."""
        ...

    def delete_trigger(self, trigger_id: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """Delete a trigger; its jobs and fires stay. Audited."""
        ...

    def declare(self, declaration: Declaration) -> Op[tuple[str, ...]]:
        """Write what a worker's code declares, at its start. A definition: all but what an operator changed, and
        `active` stays. A schedule (origin code, found by tenant and name): all but `enabled`, and its `next_fire_at`
        only where it is new or its cron, every_ms, tz, start_at or end_at is another one than before; then `error`
        goes, revision + 1; where nothing differs only declared_at is written. A name that belongs to a stored schedule
        is left alone. Gives the ids of the schedules that are the code's: their rows', which may differ from those
        given."""
        ...

    # events

    def emit(self, events: Sequence[NewEvent]) -> Op[list[str]]:
        """Store events, all or none; gives the ids. One whose id is there already is left as it is. Takes no lock
        that others wait for, so it may be part of a caller's long transaction. Raises `InvalidJob` for a name that
        begins with `headway.`: these are the engine's own."""
        ...

    def retry_events(self, ids: Sequence[str], *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        """Let failed events be handled again, by the triggers whose fire failed: those fires are deleted. Gives the ids
        of those that were failed. Audited."""
        ...

    # trains; tenant_id None is the default tenant

    def hold_train(self, train: str, *, tenant_id: str | None, reason: str | None, actor: str | None) -> Op[None]:
        """Let no further car become the locomotive; one that is goes on to its end. Audited (job_id None)."""
        ...

    def resume_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[bool]:
        """End a hold and let the next car go; False if the train was not on hold. Audited."""
        ...

    def skip(self, job_id: str, *, tenant_id: str | None, actor: str | None) -> Op[Status | None]:
        """Take a car out of its train: one that waits ends canceled ("skipped") and, whatever its on_canceled says, the
        train goes on; for the finished car that put its train on hold, the hold ends. Gives its status after, or None
        if there is no such job. Raises `NotAllowed` for one that is running, or is not a car. Audited."""
        ...

    def clear_train(self, train: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str]]:
        """Cancel every car of the train that is not running ("cleared") and end its hold; gives their ids. Many are
        canceled in pieces, and the train is on hold until that is done. Audited."""
        ...

    # groups

    def cancel_group(
        self, group_id: str, *, tenant_id: str | None, reason: str | None, actor: str | None
    ) -> Op[dict[str, Status] | None]:
        """Cancel the members that are not over, and the callback; answers like `cancel`; None if there is no such
        group. No member can be added from then on, until the group is retried. Many are canceled in pieces: the rest is
        answered as it is now. Audited."""
        ...

    def retry_group(self, group_id: str, *, tenant_id: str | None, actor: str | None) -> Op[list[str] | None]:
        """Retry the members that ended without having succeeded, each in its place (a sequential group goes on from the
        first of them), and let the callback wait for them again: it runs when they are over, also if it had run. Gives
        the ids of the members that will run; None if there is no such group. Audited."""
        ...

    # limits

    def set_limit(self, limit: Limit, *, actor: str | None) -> Op[None]:
        """Set the limit of a queue, kind or tenant as a whole (an empty one removes it), for the very next claim; what
        waited for a limit that is now wider may go. Audited (job_id None)."""
        ...

    def set_fair(self, queue: str, fair: bool, *, actor: str | None) -> Op[None]:
        """Let the queue take tenants in turn, or not. Audited."""
        ...

    # reservations

    def reserve(self, queue: str, reservation_id: str, *, holder: str, expires_ms: int) -> Op[Reservation]:
        """Reserve the queue, if nobody else has it: once this returned, no claim of it commits until the reservation is
        given back or expires. Gives the reservation that stands: this one (again: renewed), or the other's."""
        ...

    def unreserve(self, queue: str, reservation_id: str) -> Op[bool]:
        """Give a reservation back; False if it had expired and another has the queue, or nobody."""
        ...

    def take(self, worker_id: str, job_id: str, *, reservation_id: str | None) -> Op[Claim | None]:
        """Claim exactly this job, although its queue is reserved under that id: None if it is not queued, its queue is
        reserved by somebody else, or a partition or limit is in its way. Raises `LeaseLost`."""
        ...

    def pause(self, queue: str, *, actor: str | None) -> Op[None]:
        """Stop claims from the queue: once this returned, none commits."""
        ...

    def resume(self, queue: str, *, actor: str | None) -> Op[None]:
        """Let claims go on."""
        ...

    # the worker

    def register(self, worker: NewWorker) -> Op[HeartbeatReply]:
        """Add the worker with a fresh lease."""
        ...

    def heartbeat(self, worker_id: str, *, running: int, busy: Sequence[str]) -> Op[HeartbeatReply]:
        """Renew the worker's lease, if it still has one (else `alive` is False and nothing is written); `busy` names
        its queues without a free slot."""
        ...

    def retire(self, worker_id: str) -> Op[None]:
        """Note that a worker stops while it still has running jobs: when they are reaped, no loss is charged."""
        ...

    def unregister(self, worker_id: str) -> Op[None]:
        """Remove a worker that ends in good order; jobs it still held are reaped as if it were lost."""
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

    def running(self, worker_id: str) -> Op[list[tuple[str, int]]]:
        """The (id, fence) of every job that is running under this worker."""
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
    ) -> Op[tuple[Settled, list[Claim]]]:
        """Settle, and then claim, in one transaction, all or none of it: where a train has one car after another, that
        is one commit a car instead of two. Answers as both do."""
        ...

    def release(self, claims: Sequence[tuple[str, int]], *, delay_ms: int) -> Op[int]:
        """Give back claims whose execution never started: no attempt, no charge; queued, or scheduled if delayed.
        Gives how many: one that somebody's open transaction is in the way of stays running, for a later call."""
        ...

    def report(self, worker_id: str, reports: Sequence[Report]) -> Op[list[tuple[str, int]]]:
        """Show progress, note and log tail of running jobs, and learn which of the worker's jobs were asked to stop.
        Skips a job whose row somebody's open transaction holds."""
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

    def promote(self, *, limit: int) -> Op[Promoted]:
        """Queue the scheduled jobs that are due, in order of their time (a first-time job gets its position now), and
        cancel unfinished ones whose expires_at has passed (a running one is asked). Queues machines whose await has
        timed out; `next_due_ms` minds deadlines too."""
        ...

    def couple(self, *, limit: int) -> Op[int]:
        """Let go what arrived: cars whose train has no locomotive, jobs whose `after` are over, machines whose signals
        or children are there; and go on with what is done in pieces: the dependents of one job, the members of a group
        that stops, the cars of a train that is cleared. Claim and promote do it by themselves. Gives how many
        arrivals were looked at."""
        ...

    def sweep(self, *, limit: int) -> Op[Swept]:
        """Repair what an outside hand broke (a row deleted by SQL): trains with waiting cars that nothing will move,
        held jobs whose `after` are over or gone, waiting machines that have what they wait for, jobs aside for a limit
        that has room. Gives what it found; looks at
        up to `limit` trains and keys a call, going on where the last call stopped."""
        ...

    def due(self, *, kinds: Sequence[str], declared: Sequence[str], limit: int) -> Op[Due]:
        """What is to be fired now: enabled schedules whose next_fire_at has come, those of origin code only if they are
        among `declared`; and events that are pending, with the enabled triggers of their tenant on their name that were
        created before they were emitted and have no fire for them. `kinds` are those that the caller knows: a schedule
        whose kind (or template's kind) is not among them and whose definition is `computed` is left to others; such a
        trigger of an event is given as `computed`, and an event that has no other is left to others for ten minutes.
        Up to `limit` of each. An event whose payload cannot be read is given with the fault. Writes nothing; finding
        nothing is a few probes."""
        ...

    def fire(self, firings: Sequence[Firing]) -> Op[list[Fire]]:
        """Write that schedules fired: their fires, the jobs of these, and when they are due again; all or none.
        A firing whose row is locked by somebody, is not enabled, or has another revision or next_fire_at than it was
        planned by, is void; a nominal time that is there already is left as it is. With overlap skip, a fire whose
        trigger still has an unfinished job (of its last 20 fires that made one, or the job that retries one of those)
        is written as skipped, also where that job is of the same firing. A fire without a job is written as failed, and
        its error kept on the trigger; a fire that makes a job takes the error back, and moves last_fired_at and
        last_job_id; one whose enqueue met an existing job is written as deduped. Gives the fires that were written.
        Waits for nobody longer than a quarter of a second (`StoreBusy`). Raises what `enqueue` raises."""
        ...

    def run_trigger(self, fire: NewFire, *, tenant_id: str | None, actor: str | None) -> Op[Fire | None]:
        """Write a fire that somebody asked for by hand, with its job, whatever `enabled`, `overlap` and the schedule
        say; next_fire_at stays. None if there is no such trigger. Audited. Raises what `enqueue` raises."""
        ...

    def handle(self, handlings: Sequence[Handling]) -> Op[list[Fire]]:
        """Write what events came to: their fires with their jobs, and that they are handled; all or none. An event that
        is not pending any more is void. A fire whose trigger is gone, disabled or has fired for the event is not
        written; one whose dedupe_key the trigger enqueued a job by, less than its dedupe window ago (also in this
        call), is written as deduped (trigger rows are locked, in order of id, before this is looked at). An event with
        a fire that failed, in this call or before, is failed, with the errors, one a line, each after its trigger's
        name; one that is `left` stays pending. A fire without a job and without an error is written as skipped. Gives
        the fires that were written. An event with a trigger that somebody has locked is void. Waits for nobody longer
        than a quarter of a second (`StoreBusy`). Raises what `enqueue` raises."""
        ...

    def prune_fires(self, *, events_ms: int, failed_ms: int, fires_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` of each: events that were handled, or failed, longer ago, with their fires, and fires of
        schedules that are older. Gives how many rows of events and of schedules' fires."""
        ...

    def prune_audit(self, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` of the oldest entries of the audit, those that are older; gives how many."""
        ...

    def prune(self, status: Status, *, older_than_ms: int, limit: int) -> Op[int]:
        """Delete up to `limit` jobs that ended in that status longer ago, oldest first, with their attempts and
        signals. A child is kept until the machine that waits for it has gone on."""
        ...

    # reads

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

    def queues(self, *, tenant_id: str | None) -> Op[list[Queue]]:
        """Every queue that has unfinished jobs (of this tenant), a worker or a setting. A tenant is not told who paused
        or reserved it."""
        ...

    def trains(
        self, *, tenant_id: str | None, train: str | None, blocked: bool | None, limit: int, after: str | None
    ) -> Op[list[Train]]:
        """The trains that have unfinished cars or are on hold, in order of name and tenant id; `train` names one,
        `blocked` picks those on hold (or not), `after` is the name that the last page ended with. A page has all the
        trains of its last name, and so may have more than `limit`."""
        ...

    def cars(self, train: str, *, tenant_id: str | None, limit: int) -> Op[list[Job]]:
        """The unfinished cars of a train in their order, the locomotive first. tenant_id None is the default tenant."""
        ...

    def train_place(self, job_id: str) -> Op[tuple[int, str | None]]:
        """For a held car: how many unfinished cars of its train come before it (up to 10,000), and the locomotive."""
        ...

    def group(self, group_id: str, *, tenant_id: str | None) -> Op[Group | None]:
        """A group with the counts of its members (a failed at_most_once job is counted by the job that retries it)."""
        ...

    def signals(self, job_id: str, *, tenant_id: str | None) -> Op[list[Signal]]:
        """A job's signals in order of arrival: pending, consumed (by which execution), or undelivered."""
        ...

    def children(self, job_id: str, *, fence: int | None, tenant_id: str | None) -> Op[list[Child]]:
        """The jobs that this machine spawned (or, for a fork, those that its origin had spawned) at that fence, or,
        with None, by the Spawn that it waits for or was woken by (`joining`); in the order in which they were given. An
        at_most_once child that failed is shown as the job that retries it."""
        ...

    def began(self, job_id: str, *, tenant_id: str | None) -> Op[Began]:
        """Where a fork, or the job that retries an at_most_once machine, began; an empty one for any other job."""
        ...

    def spawned(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[int, str]]]:
        """(fence, child id) of everything that this machine ever spawned and that is not pruned, in order."""
        ...

    def awaited(self, job_id: str, *, tenant_id: str | None) -> Op[list[tuple[str, Status | None]]]:
        """For a job with `after`: (id, status) of each job that it still waits for; status None: the row is gone."""
        ...

    def definitions(self, kinds: Sequence[str] | None) -> Op[list[Definition]]:
        """The definitions of these kinds, or all, in order of kind."""
        ...

    def templates(
        self, ids: Sequence[str] | None, *, tenant_id: str | None, name: str | None, limit: int, after: str | None
    ) -> Op[list[Template]]:
        """Templates in order of id; `after` is the last id of the page before."""
        ...

    def triggers(
        self,
        *,
        tenant_id: str | None,
        type: TriggerType | None,  # noqa: A002
        name: str | None,
        event: str | None,
        limit: int,
        after: str | None,
    ) -> Op[list[Trigger]]:
        """Triggers in order of id; `after` is the last id of the page before."""
        ...

    def fires(
        self,
        *,
        tenant_id: str | None,
        trigger_id: str | None,
        event_id: str | None,
        limit: int,
        before: str | None,
    ) -> Op[list[Fire]]:
        """The newest fires, newest first (by id); `before` is the last id of the page before."""
        ...

    def events(
        self,
        ids: Sequence[str] | None,
        *,
        tenant_id: str | None,
        name: str | None,
        status: EventStatus | None,
        limit: int,
        before: str | None,
    ) -> Op[list[Event]]:
        """The newest events that match, newest first (by id); `before` is the last id of the page before."""
        ...

    def limits(self) -> Op[list[Limit]]:
        """What operators set, in order of scope and name."""
        ...

    def usage(self, key: str, *, tenant_id: str | None = None) -> Op[Usage]:
        """How many jobs (of this tenant) run under this limit key (see `model/limit.py`), and how many wait for it."""
        ...

    def reservations(self) -> Op[list[Reservation]]:
        """The reservations that stand, in order of queue."""
        ...

    def running_in(self, queue: str) -> Op[int]:
        """How many jobs of the queue are running."""
        ...

    def workers(self) -> Op[list[Worker]]:
        """The registered workers."""
        ...

    def ahead(self, job_id: str, *, tenant_id: str | None = None) -> Op[int]:
        """How many queued jobs (of this tenant) of its queue come before this queued job (counted up to 10,000)."""
        ...

    def tenants(self, ids: Sequence[str]) -> Op[dict[str, str]]:
        """The names of these tenants, as far as they are known."""
        ...

    def tenants_named(self, names: Sequence[str], *, create: bool) -> Op[dict[str, str]]:
        """The ids of the tenants of these names, as far as there are such; an id is a name, too. With `create`, names
        that are new become tenants, under random ids (an id under itself, without a name), unless the login may act
        for one tenant only. Raises `InvalidJob` for a name that is not valid, or that a tenant had before."""
        ...

    def audit_log(
        self, *, tenant_id: str | None, actor: str | None, action: str | None, limit: int, before: int | None
    ) -> Op[list[AuditEntry]]:
        """What people and programs did, also to no job, newest first; `before` is the last number of a page."""
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
