"""The verbs of an application: what can be done to jobs, in both colours, for one tenant or for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as NotYet
from typing import Any, Unpack
from uuid import UUID

from headway.app.definitions import DefinitionVerbs
from headway.app.events import EventVerbs
from headway.app.groups import GroupVerbs
from headway.app.limits import LimitVerbs
from headway.app.machines import MachineVerbs
from headway.app.reservations import ReservationVerbs
from headway.app.run_now import RunNowVerbs
from headway.app.schedules import ScheduleVerbs
from headway.app.templates import TemplateVerbs
from headway.app.trains import TrainVerbs
from headway.app.why import Why
from headway.define.checks import name as checked_name
from headway.define.option_types import UsingOptions
from headway.errors import Duplicate, InvalidJob
from headway.model.duration import Duration, to_ms
from headway.model.fleet import Queue, Worker
from headway.model.ids import as_id
from headway.model.job import Attempt, AuditEntry, Enqueued, Job, NewJob, Outcome
from headway.model.status import FINISHED, Status

_PAGE = 1_000


class Verbs(
    MachineVerbs,
    TrainVerbs,
    GroupVerbs,
    LimitVerbs,
    ReservationVerbs,
    RunNowVerbs,
    DefinitionVerbs,
    TemplateVerbs,
    ScheduleVerbs,
    EventVerbs,
):
    """Enqueue, look, operate. `app` has these for every tenant, `app.tenant(name)` for one alone."""

    # enqueue

    def enqueue(
        self, kind: str | NewJob, payload: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Enqueued:
        """Enqueue one job, by its kind's name or as `kind.build(…)` made it; gives its id, status and `created`.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits.
        Raises `UnknownKind`, `InvalidJob`, `InvalidPayload`, `Duplicate` (on_conflict="raise"), `QueueFull`,
        `StoreUnavailable`.
        """
        self.learn(options.get("conn"))
        if self._is_unknown(kind):  # it may have been declared a moment ago
            self._definitions.forget()
            self.learn(options.get("conn"))
        return self.enqueue_new(self._built(kind, payload, options), options.get("conn"))

    async def aenqueue(
        self, kind: str | NewJob, payload: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Enqueued:
        await self.alearn(options.get("conn"))
        if self._is_unknown(kind):
            self._definitions.forget()
            await self.alearn(options.get("conn"))
        return await self.aenqueue_new(self._built(kind, payload, options), options.get("conn"))

    def enqueue_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[Enqueued]:
        """Enqueue jobs that `kind.build(…)` made: one batch, one transaction, all or none, in this order.

        They may wait for each other (`using(after=…)`), but not in a circle (`InvalidJob`).
        """
        self.learn(conn)
        return self._put([self._mine(job) for job in jobs], None, conn)

    async def aenqueue_many(self, jobs: Iterable[NewJob], *, conn: Any = None) -> list[Enqueued]:
        await self.alearn(conn)
        return await self._aput([self._mine(job) for job in jobs], None, conn)

    def enqueue_new(self, job: NewJob, conn: Any) -> Enqueued:
        return self._put([self._mine(job)], None, conn)[0]

    async def aenqueue_new(self, job: NewJob, conn: Any) -> Enqueued:
        return (await self._aput([self._mine(job)], None, conn))[0]

    # look

    def get(self, job_id: str | UUID) -> Job:
        """One job as it is stored now; raises `NotFound`."""
        return self._read(self._get(job_id))

    async def aget(self, job_id: str | UUID) -> Job:
        return await self._aread(self._get(job_id))

    def jobs(self, *, limit: int = 50, before: str | UUID | None = None, **filters: Any) -> list[Job]:
        """The newest jobs that match, newest first; for the next page give the last one's id as `before`.

        Filters: status kind queue tenant group_id parent_id source correlation_id unique_key retry_of created_after
        created_before. Status, kind, queue and source take several values, too: `status=("dead", "canceled")`.
        """
        return self._read(self._find(limit, before, filters))

    async def ajobs(self, *, limit: int = 50, before: str | UUID | None = None, **filters: Any) -> list[Job]:
        return await self._aread(self._find(limit, before, filters))

    def attempts(self, job_id: str | UUID) -> list[Attempt]:
        """The executions of a job in order, the open one last; raises `NotFound`."""
        return self._read(self._attempts(job_id))

    async def aattempts(self, job_id: str | UUID) -> list[Attempt]:
        return await self._aread(self._attempts(job_id))

    def result(self, job_id: str | UUID, timeout: Duration | None = None) -> Outcome:
        """Wait for a job to end: `.status`, `.value` (what it returned) and `.error`.

        When the timeout passes first, the outcome has the status that the job has then. Raises `NotFound`.
        """
        key = as_id(job_id)
        outcome = self._run(self._peek(key))
        limit = None if timeout is None else to_ms(timeout, "timeout") / 1_000
        if outcome.status in FINISHED or limit == 0:
            return outcome
        future = self._results.wait_for(key)
        try:
            return future.result(limit)
        except NotYet:
            return self._run(self._peek(key))
        finally:
            self._results.forget(key, future)

    async def aresult(self, job_id: str | UUID, timeout: Duration | None = None) -> Outcome:
        key = as_id(job_id)
        outcome = await self._arun(self._peek(key))
        limit = None if timeout is None else to_ms(timeout, "timeout") / 1_000
        if outcome.status in FINISHED or limit == 0:
            return outcome
        future = self._results.wait_for(key)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            return await self._arun(self._peek(key))
        finally:
            self._results.forget(key, future)

    def why(self, job_id: str | UUID) -> Why:
        """Why a job is not running (or what it does instead), with the way out; raises `NotFound`."""
        return self._run(self._why(job_id))

    async def awhy(self, job_id: str | UUID) -> Why:
        return await self._arun(self._why(job_id))

    def audit(self, job_id: str | UUID) -> list[AuditEntry]:
        """What people did to a job, oldest first."""
        return self._run(self._store.ops.audit(as_id(job_id), tenant_id=self._seen))

    async def aaudit(self, job_id: str | UUID) -> list[AuditEntry]:
        return await self._arun(self._store.ops.audit(as_id(job_id), tenant_id=self._seen))

    def audit_log(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[AuditEntry]:
        """What people and programs did, also to queues, trains and settings, newest first.

        For the next page give the last one's `id` as `before`.
        """
        return self._run(self._audit_log(actor, action, tenant, limit, before))

    async def aaudit_log(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[AuditEntry]:
        return await self._arun(self._audit_log(actor, action, tenant, limit, before))

    def counts(self) -> dict[Status, int]:
        """How many jobs are in each status."""
        return self._run(self._store.ops.counts(tenant_id=self._seen))

    async def acounts(self) -> dict[Status, int]:
        return await self._arun(self._store.ops.counts(tenant_id=self._seen))

    def queues(self) -> list[Queue]:
        """The queues, with the number of their unfinished jobs per status."""
        return self._run(self._store.ops.queues(tenant_id=self._seen))

    async def aqueues(self) -> list[Queue]:
        return await self._arun(self._store.ops.queues(tenant_id=self._seen))

    def workers(self) -> list[Worker]:
        """The registered workers."""
        return self._run(self._store.ops.workers())

    async def aworkers(self) -> list[Worker]:
        return await self._arun(self._store.ops.workers())

    # operate

    def cancel(self, job_id: str | UUID, *, reason: str | None = None, actor: str | None = None) -> Status:
        """Cancel a job: at once, or, if it is running, by asking it; gives its status now. Raises `NotFound`."""
        status = self._run(self._cancel(job_id, reason, actor))
        self._wake.poke(None)  # what waited for it may run now
        return status

    async def acancel(self, job_id: str | UUID, *, reason: str | None = None, actor: str | None = None) -> Status:
        status = await self._arun(self._cancel(job_id, reason, actor))
        self._wake.poke(None)
        return status

    def retry(self, job_id: str | UUID, *, actor: str | None = None) -> str:
        """Run a finished job again, with a full budget; gives the id that will run (a new one for at_most_once).

        Raises `NotFound`, `NotAllowed` (not finished yet), `Duplicate` (its unique key is taken).
        """
        runs_as, queue = self._run(self._retry(job_id, actor))
        self._wake.poke(queue)
        return runs_as

    async def aretry(self, job_id: str | UUID, *, actor: str | None = None) -> str:
        runs_as, queue = await self._arun(self._retry(job_id, actor))
        self._wake.poke(queue)
        return runs_as

    def change(self, job_id: str | UUID, *, actor: str | None = None, **changes: Any) -> Status:
        """Change priority, queue, scheduled_for, delay, expires_at, max_attempts, max_losses, timeout or payload.

        Raises `NotFound`, `NotAllowed` (running or finished; a payload once it ran), `InvalidJob`.
        """
        return self._run(self._change(job_id, actor, changes))

    async def achange(self, job_id: str | UUID, *, actor: str | None = None, **changes: Any) -> Status:
        return await self._arun(self._change(job_id, actor, changes))

    def count_jobs(self, **filters: Any) -> int:
        """How many jobs match: what `cancel_jobs` or `retry_jobs` of the same filters would look at."""
        return sum(len(page) for page in self._pages(filters))

    def cancel_jobs(self, *, reason: str | None = None, actor: str | None = None, **filters: Any) -> int:
        """Cancel every job that matches; gives how many were canceled or asked to stop. Needs a filter."""
        done = 0
        for page in self._pages(_some(filters, "cancel")):
            live = [job.id for job in page if job.status not in FINISHED]
            op = self._store.ops.cancel(live, tenant_id=self._seen, reason=reason, actor=actor)
            done += sum(status in ("canceled", "running") for status in self._run(op).values())
        self._wake.poke(None)
        return done

    def retry_jobs(self, *, actor: str | None = None, keep_place: bool = False, **filters: Any) -> int:
        """Retry every finished job that matches; gives how many. Needs a filter.

        They go to the end of the line, in their old order, so that they do not hold up the work that waits now; with
        `keep_place`, each to its old place. A job whose unique key is taken, or which was retried already, is left as
        it is.
        """
        found = [job for page in self._pages(_some(filters, "retry")) for job in page if job.status in FINISHED]
        # the oldest first: what waits for another comes after it
        ids = [job.id for job in reversed(found)]
        done = sum(self._retry_all(ids[at : at + _PAGE], actor, keep_place) for at in range(0, len(ids), _PAGE))
        for queue in {job.queue for job in found}:
            self._wake.poke(queue)
        return done

    def _retry_all(self, ids: list[str], actor: str | None, keep_place: bool) -> int:
        """Retry them, by halves where one is refused."""
        op = self._store.ops.retry(ids, tenant_id=self._seen, actor=actor, keep_place=keep_place)
        try:
            return len(self._run(op))
        except Duplicate:
            half = len(ids) // 2
            parts = (ids[:half], ids[half:]) if half else ()
            return sum(self._retry_all(part, actor, keep_place) for part in parts)

    async def acount_jobs(self, **filters: Any) -> int:
        return await asyncio.to_thread(self.count_jobs, **filters)

    async def acancel_jobs(self, *, reason: str | None = None, actor: str | None = None, **filters: Any) -> int:
        return await asyncio.to_thread(self.cancel_jobs, reason=reason, actor=actor, **filters)

    async def aretry_jobs(self, *, actor: str | None = None, keep_place: bool = False, **filters: Any) -> int:
        return await asyncio.to_thread(self.retry_jobs, actor=actor, keep_place=keep_place, **filters)

    def pause(self, queue: str, *, actor: str | None = None) -> None:
        """Stop claims from a queue, on all machines; once this returned, none begins. Running jobs go on."""
        self._run(self._everyones("pause a queue", self._store.ops.pause(checked_name(queue, "queue"), actor=actor)))

    async def apause(self, queue: str, *, actor: str | None = None) -> None:
        await self._arun(
            self._everyones("pause a queue", self._store.ops.pause(checked_name(queue, "queue"), actor=actor))
        )

    def resume(self, queue: str, *, actor: str | None = None) -> None:
        """Let a paused queue go on."""
        self._run(self._everyones("resume a queue", self._store.ops.resume(checked_name(queue, "queue"), actor=actor)))
        self._wake.poke(queue)

    async def aresume(self, queue: str, *, actor: str | None = None) -> None:
        await self._arun(
            self._everyones("resume a queue", self._store.ops.resume(checked_name(queue, "queue"), actor=actor))
        )
        self._wake.poke(queue)

    def _pages(self, filters: Mapping[str, Any]) -> Iterable[list[Job]]:
        before: str | None = None
        while page := self._run(self._find(_PAGE, before, filters)):
            before = page[-1].id
            yield page
            if len(page) < _PAGE:
                return


def _some(filters: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Refuse to do it to everything by leaving the filters out."""
    if all(value is None for value in filters.values()):
        raise InvalidJob(f"which jobs to {what}? Give a filter, such as status= or kind=")
    return filters
