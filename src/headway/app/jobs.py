"""The verbs of one job: look at it, wait for it, cancel, retry and change it; and counts of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack
from uuid import UUID

import msgspec

from headway.app.base import VerbBase, missing, page_size, then
from headway.app.why import Why, why
from headway.clock import from_micros
from headway.define.change import change_of, retry_change_of
from headway.define.option_types import JobChanges, RetryChanges
from headway.errors import InvalidJob, NotAllowed
from headway.model.codec import check_text
from headway.model.duration import Duration, to_ms
from headway.model.ids import as_id
from headway.model.job import Attempt, AuditEntry, Change, Counted, Job, Outcome, Waiter, Watched
from headway.model.journal import FLOW
from headway.model.journal_row import is_set_aside
from headway.model.listing import Filter
from headway.model.request import Request
from headway.model.status import FINISHED, STATUSES, Status
from headway.store.ops import Op, Steps

_LONGEST_CHAIN = 1_000
"""How many retries of retries are followed."""


class JobVerbs(VerbBase):
    """Name a job by its id. `find.py` lists jobs by filters, and `bulk.py` works on every one that matches."""

    # look

    def get(self, job_id: str | UUID, *, raw: bool = False) -> Job:
        """One job as it is stored now; raises `NotFound`. With `raw`, here and elsewhere, its JSON is `msgspec.Raw`,
        the text as it is stored, and no secret in it is masked."""
        return self._read(self._get(job_id, raw=raw), raw=raw)

    def chain(self, job_id: str | UUID, *, raw: bool = False) -> list[Job]:
        """A job with those that it retries, and that retry it, the first one first; raises `NotFound`. Most jobs are
        retried as themselves: only an at_most_once job is retried by a new one."""
        return self._read(self._chain(job_id, raw), raw=raw)

    def attempts(self, job_id: str | UUID, *, raw: bool = False) -> list[Attempt]:
        """The executions of a job in order, the open one last; raises `NotFound`."""
        return self._read(self._attempts(job_id, raw), raw=raw)

    def result(self, job_id: str | UUID, timeout: Duration | None = None, *, raw: bool = False) -> Outcome:
        """Wait for a job to end: `.status`, `.value` (what it returned) and `.error`.

        If the timeout passes first, the outcome has the job's status at that moment. Raises `NotFound`; for a result
        that an artifact has, what `open_artifact` raises, too.
        """
        return self.wait(job_id, timeout=timeout, raw=raw)

    def wait(
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
        key, wanted = as_id(job_id), awaited_statuses(status)
        outcome = self._read(self._peek(key, raw), raw=True)
        limit = None if timeout is None else to_ms(timeout, "timeout") / 1_000
        if outcome.status in wanted or outcome.status in FINISHED or limit == 0:
            return outcome if raw else self._with_value(outcome)
        there = self._results.outcome(key, limit, wanted)
        if there is None or raw:
            there = self._read(self._peek(key, raw), raw=True)
        return there if raw else self._with_value(there)

    def waiters(self, job_id: str | UUID, *, limit: int = 100) -> list[Waiter]:
        """The jobs that wait for this one: those that come `after` it, its group's callback, the machine that spawned
        it and waits for its children, and the cars behind it in its train. Raises `NotFound`."""
        return self._run(self._waiters(job_id, limit))

    def why(self, job_id: str | UUID) -> Why:
        """Why a job is not running (or what it is doing), and what to do about it; raises `NotFound`."""
        return self._run(self._why(job_id))

    def audit(self, job_id: str | UUID) -> list[AuditEntry]:
        """What people did to a job, oldest first."""
        return self._read(self._store.ops.audit(as_id(job_id), tenant_id=self._visible_tenant), raw=True)

    def audit_log(
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
        return self._read(self._audit_log(actor, action, tenant, limit, before, after), raw=True)

    def counts(self, *, most: int | None = None) -> dict[Status, int]:
        """How many jobs are in each status. With `most`, counted up to that many: quick, however many there are."""
        return self._run(self._store.ops.counts(tenant_id=self._visible_tenant, most=most))

    def watched(self, log_ends: Mapping[str, int | None]) -> list[Watched]:
        """What can change of these jobs, without their payloads, with one small query; the log of each only if it does
        not end where the caller says that it knows it to end."""
        return self._run(self._store.ops.watched(log_ends, tenant_id=self._visible_tenant))

    def counts_by_kind(self) -> list[Counted]:
        """How many jobs each queue and kind has in each status."""
        return self._run(self._store.ops.counts_by_kind(tenant_id=self._visible_tenant))

    # operate

    def cancel(
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
        status = self._run(self._if_matching(job_id, if_match, self._cancel(job_id, reason, actor, at_once)), conn)
        self._wake_up(None, conn)  # what waited for it may run now
        return status

    def retry(
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
        retrying = self._if_matching(job_id, if_match, self._retry(job_id, actor, keep_place, changes))
        runs_as, queue = self._run(self._creating_once(request, retrying, lambda made: made[0]), conn)
        self._wake_up(queue, conn)
        return runs_as

    def change(
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
        return self._run(self._if_matching(job_id, if_match, self._change(job_id, actor, changes)), conn)

    # as ops

    def _chain(self, job_id: str | UUID, raw: bool) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            found = [(yield from self._get(job_id, raw=raw).steps())]
            while found[0].retry_of is not None and len(found) < _LONGEST_CHAIN:
                before = yield from self._store.ops.get(
                    [found[0].retry_of], tenant_id=self._visible_tenant, raw=raw
                ).steps()
                if not before:  # it was pruned
                    break
                found = before + found
            while len(found) < _LONGEST_CHAIN:
                where = Filter(tenant_id=self._visible_tenant, retry_of=found[-1].id)
                after = yield from self._store.ops.find(where, limit=1, raw=raw).steps()
                if not after:
                    break
                found += after
            return found

        return Op(steps, writes=False)

    def _attempts(self, job_id: str | UUID, raw: bool) -> Op[list[Attempt]]:
        key = as_id(job_id)

        def steps() -> Steps[list[Attempt]]:
            yield from self._get(key).steps()
            return (yield from self._store.ops.attempts(key, tenant_id=self._visible_tenant, raw=raw).steps())

        return Op(steps, writes=False)

    def _waiters(self, job_id: str | UUID, limit: int) -> Op[list[Waiter]]:
        key, most = as_id(job_id), page_size(limit)

        def steps() -> Steps[list[Waiter]]:
            yield from self._get(key).steps()
            return (yield from self._store.ops.waiters(key, tenant_id=self._visible_tenant, limit=most).steps())

        return Op(steps, writes=False)

    def _peek(self, key: str, raw: bool = False) -> Op[Outcome]:
        return then(
            self._store.ops.results([key], tenant_id=self._visible_tenant, raw=raw),
            lambda found: found[key] if key in found else missing(key),
        )

    def _audit_log(
        self,
        actor: str | None,
        action: str | None,
        tenant: str | UUID | None,
        limit: int,
        before: int | None,
        after: int | None,
    ) -> Op[list[AuditEntry]]:
        return self._store.ops.audit_log(
            tenant_id=self._tenant_to_read(tenant),
            actor=actor,
            action=action,
            limit=page_size(limit),
            before=before,
            after=after,
        )

    def _why(self, job_id: str | UUID) -> Op[Why]:
        key = as_id(job_id)
        return then(why(self._store.ops, key, tenant_id=self._visible_tenant), lambda answer: answer or missing(key))

    def _cancel(self, job_id: str | UUID, reason: str | None, actor: str | None, at_once: bool) -> Op[Status]:
        key = as_id(job_id)
        if reason is not None:
            check_text(reason, "reason")
        op = self._store.ops.cancel([key], tenant_id=self._visible_tenant, reason=reason, actor=actor, at_once=at_once)
        return then(op, lambda found: found[key] if key in found else missing(key))

    def _retry(
        self, job_id: str | UUID, actor: str | None, keep_place: bool, changes: Mapping[str, Any]
    ) -> Op[tuple[str, str]]:
        key = as_id(job_id)
        change = retry_change_of(changes, now=from_micros(self.clock.now()), limit=self.payload_limit)

        def steps() -> Steps[tuple[str, str]]:
            job = yield from self._get(key).steps()
            done = yield from self._store.ops.retry(
                [key],
                tenant_id=self._visible_tenant,
                actor=actor,
                keep_place=keep_place,
                change=None if change is None else self._with_checked_payload(change, job.kind, changes),
            ).steps()
            if key in done:
                return done[key], job.queue
            if change is None and job.step == FLOW and job.status == "scheduled":
                attempts = yield from self._store.ops.attempts(key, tenant_id=self._visible_tenant, raw=True).steps()
                if attempts and is_set_aside(attempts[-1].error):
                    now = Change(scheduled_for=from_micros(self.clock.now()))
                    yield from self._store.ops.change(key, now, tenant_id=self._visible_tenant, actor=actor).steps()
                    return key, job.queue
            raise NotAllowed(f"job {key} is {job.status}: only a finished job can be retried")

        return Op(steps, writes=True, repeatable=False, atomic=True)

    def _change(self, job_id: str | UUID, actor: str | None, changes: Mapping[str, Any]) -> Op[Status]:
        key = as_id(job_id)
        change = change_of(changes, now=from_micros(self.clock.now()), limit=self.payload_limit)

        def steps() -> Steps[Status]:
            checked = change
            if not isinstance(change.payload, msgspec.UnsetType):
                job = yield from self._get(key).steps()
                checked = self._with_checked_payload(change, job.kind, changes)
            op = self._store.ops.change(key, checked, tenant_id=self._visible_tenant, actor=actor)
            return (yield from op.steps()) or missing(key)

        return Op(steps, writes=True, atomic=True)

    def _with_checked_payload(self, change: Change, kind: str, given: Mapping[str, Any]) -> Change:
        """The change, its payload checked as strictly as an enqueue's: one that the handler cannot take would only end
        dead."""
        if isinstance(change.payload, msgspec.UnsetType):
            return change
        payload = self._definitions.checked(kind, given["payload"], limit=self.payload_limit)
        return msgspec.structs.replace(change, payload=payload)


def awaited_statuses(status: Status | Collection[Status]) -> frozenset[Status]:
    """Raises `InvalidJob` for what is no status."""
    wanted: list[Status] = [status] if isinstance(status, str) else list(status)
    if not wanted:
        raise InvalidJob(f"status={status!r} is empty: name one to wait for, of {', '.join(STATUSES)}")
    for each in wanted:
        if each not in STATUSES:
            raise InvalidJob(f"status={each!r} does not exist: use {', '.join(STATUSES)}")
    return frozenset(wanted)
