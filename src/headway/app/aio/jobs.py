"""Generated from app/jobs.py by tools/async_twins.py: change that, and run this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

from headway.app.aio.base import AsyncVerbBase
from headway.app.jobs import JobVerbs, awaited_statuses
from headway.app.why import Why
from headway.define.option_types import JobChanges, RetryChanges
from headway.model.duration import Duration, to_ms
from headway.model.ids import as_id
from headway.model.job import Attempt, AuditEntry, Counted, Job, Outcome, Waiter, Watched
from headway.model.request import Request
from headway.model.status import FINISHED, Status


class AsyncJobVerbs(JobVerbs, AsyncVerbBase):
    """The async twins of the verbs of `JobVerbs`."""

    async def aget(self, job_id: str | UUID, *, raw: bool = False) -> Job:
        """One job as it is stored now; raises `NotFound`. With `raw`, here and elsewhere, its JSON is `msgspec.Raw`,
        the text as it is stored, and no secret in it is masked."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._get(job_id, raw=raw), raw=raw)

    async def achain(self, job_id: str | UUID, *, raw: bool = False) -> list[Job]:
        """A job with those that it retries, and that retry it, the first one first; raises `NotFound`. Most jobs are
        retried as themselves: only an at_most_once job is retried by a new one."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._chain(job_id, raw), raw=raw)

    async def aattempts(self, job_id: str | UUID, *, raw: bool = False) -> list[Attempt]:
        """The executions of a job in order, the open one last; raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._attempts(job_id, raw), raw=raw)

    async def aresult(self, job_id: str | UUID, timeout: Duration | None = None, *, raw: bool = False) -> Outcome:
        """Wait for a job to end: `.status`, `.value` (what it returned) and `.error`.

        If the timeout passes first, the outcome has the job's status at that moment. Raises `NotFound`; for a result
        that an artifact has, what `open_artifact` raises, too.
        """
        await self._aensure_known(self._own_tenant)
        return await self.await_(job_id, timeout=timeout, raw=raw)

    async def await_(
        self,
        job_id: str | UUID,
        *,
        status: Status | Collection[Status] = FINISHED,
        timeout: Duration | None = None,
        raw: bool = False,
    ) -> Outcome:
        """Wait until a job has this status, or one of these: `app.wait(job.id, status="waiting")`.

        A job that ends otherwise, or the timeout, ends the wait, too: look at the outcome's status. A status that the
        job has for a moment only may go unnoticed. Raises `NotFound`, `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant)
        key, wanted = (as_id(job_id), awaited_statuses(status))
        outcome = await self._aread(self._peek(key, raw), raw=True)
        limit = None if timeout is None else to_ms(timeout, "timeout") / 1000
        if outcome.status in wanted or outcome.status in FINISHED or limit == 0:
            return outcome if raw else await self._awith_value(outcome)
        there = await self._results.aoutcome(key, limit, wanted)
        if there is None or raw:
            there = await self._aread(self._peek(key, raw), raw=True)
        return there if raw else await self._awith_value(there)

    async def awaiters(self, job_id: str | UUID, *, limit: int = 100) -> list[Waiter]:
        """The jobs that wait for this one: those that come `after` it, its group's callback, the machine that spawned
        it and waits for its children, and the cars behind it in its train. Raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._waiters(job_id, limit))

    async def awhy(self, job_id: str | UUID) -> Why:
        """Why a job is not running (or what it is doing), and what to do about it; raises `NotFound`."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._why(job_id))

    async def aaudit(self, job_id: str | UUID) -> list[AuditEntry]:
        """What people did to a job, oldest first."""
        await self._aensure_known(self._own_tenant)
        return await self._aread(self._store.ops.audit(as_id(job_id), tenant_id=self._visible_tenant), raw=True)

    async def aaudit_log(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: int | None = None,
        after: int | None = None,
    ) -> list[AuditEntry]:
        """What people and programs did to jobs, queues, trains and settings, newest first.

        For the next page give the last one's `id` as `before`. With `after`, those with a higher `id`, oldest first.
        """
        await self._aensure_known(self._own_tenant, tenant)
        return await self._aread(self._audit_log(actor, action, tenant, limit, before, after), raw=True)

    async def acounts(self, *, most: int | None = None) -> dict[Status, int]:
        """How many jobs are in each status. With `most`, counted up to that many: quick, however many there are."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.counts(tenant_id=self._visible_tenant, most=most))

    async def awatched(self, log_ends: Mapping[str, int | None]) -> list[Watched]:
        """What can change of these jobs, without their payloads, with one small query; the log of each only if it does
        not end where the caller says that it knows it to end."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.watched(log_ends, tenant_id=self._visible_tenant))

    async def acounts_by_kind(self) -> list[Counted]:
        """How many jobs each queue and kind has in each status."""
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._store.ops.counts_by_kind(tenant_id=self._visible_tenant))

    async def acancel(
        self,
        job_id: str | UUID,
        *,
        reason: str | None = None,
        at_once: bool = False,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> Status:
        """Cancel a job at once, or ask it to stop if it is running; returns its status now. Raises `NotFound`. A flow
        that has begun is asked, too, and may undo what it did; `at_once`, or a second cancel, ends it without that.

        With `if_match`, here and in other verbs, only if the `etag` of the job as it is stored is one of these; raises
        `ChangedMeanwhile`.
        """
        await self._aensure_known(self._own_tenant)
        status = await self._arun(
            self._if_matching(job_id, if_match, self._cancel(job_id, reason, actor, at_once)), conn
        )
        self._wake_up(None, conn)
        return status

    async def aretry(
        self,
        job_id: str | UUID,
        *,
        keep_place: bool = True,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        request: Request | None = None,
        **changes: Unpack[RetryChanges],
    ) -> str:
        """Run a finished job again, with a full budget; returns the id that will run (a new one for at_most_once).

        It gets its old place in the line; without `keep_place` it goes to the end. With scheduled_for or delay it runs
        later, with max_attempts or payload with those; a machine keeps its payload: its state came from it.
        Raises `NotFound`, `NotAllowed` (not finished yet; the payload of a machine), `Duplicate` (its unique key is
        taken), `InvalidJob`; a `request` that was done before raises `Replayed`. A flow that is set aside, because its
        code does not fit what it has recorded, is looked at again now.
        """
        await self._aensure_known(self._own_tenant)
        retrying = self._if_matching(job_id, if_match, self._retry(job_id, actor, keep_place, changes))
        runs_as, queue = await self._arun(self._creating_once(request, retrying, lambda made: made[0]), conn)
        self._wake_up(queue, conn)
        return runs_as

    async def achange(
        self,
        job_id: str | UUID,
        *,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
        **changes: Unpack[JobChanges],
    ) -> Status:
        """Change priority, queue, scheduled_for, delay, expires_at, max_attempts, max_losses, timeout, payload, meta or
        tags; meta and tags, which are replaced, also of a finished job.

        Raises `NotFound`, `NotAllowed` (running or finished; a payload once it ran), `InvalidJob`.
        """
        await self._aensure_known(self._own_tenant)
        return await self._arun(self._if_matching(job_id, if_match, self._change(job_id, actor, changes)), conn)
