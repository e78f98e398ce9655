"""The verbs of jobs: look at them, wait for them, cancel, retry and change them, one or many."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Unpack
from uuid import UUID

import msgspec

from headway.app.base import VerbBase, missing, page_size, then
from headway.app.job_filters import JobFilters, filter_of, one_value_each
from headway.app.why import Why, why
from headway.clock import from_micros
from headway.define.change import change_of, retry_change_of
from headway.define.option_types import JobChanges, RetryChanges
from headway.errors import Duplicate, InvalidJob, NotAllowed
from headway.model.codec import check_text
from headway.model.duration import Duration, to_ms
from headway.model.ids import as_id, given_id
from headway.model.job import Attempt, AuditEntry, Change, Counted, Job, Outcome, Waiter, Watched
from headway.model.listing import Cursor, Filter, Order, check_order, sort_key
from headway.model.status import FINISHED, STATUSES, Status
from headway.store.ops import Op, Steps
from headway.store.paging import Page

PAGE = 1_000


class JobVerbs(VerbBase):
    """Name one job by its id, many by filters."""

    # look

    def get(self, job_id: str | UUID, *, raw: bool = False) -> Job:
        """One job as it is stored now; raises `NotFound`. With `raw`, here and elsewhere, its JSON is `msgspec.Raw`,
        the text as it is stored, and no secret in it is masked."""
        return self._read(self._get(job_id, raw=raw), raw=raw)

    def jobs(
        self,
        *,
        limit: int = 50,
        before: str | UUID | None = None,
        after: Job | str | None = None,
        order: Order = "newest",
        offset: int = 0,
        raw: bool = False,
        search_limit: int | None = None,
        **filters: Unpack[JobFilters],
    ) -> list[Job]:
        """The first jobs that match, newest first; for the next page give the last one, or its `cursor`, as `after`.

        Filters: status kind queue tenant group_id parent_id source correlation_id unique_key retry_of created_after
        created_before tags any_tags meta train id_prefix ids error. Status, kind, queue and source also take several
        values: `status=("dead", "canceled")`. A job has all of `tags`, one of `any_tags`, and in
        `meta={"customer.id": 7}` exactly that at that path; its last execution ended with `error`, a fingerprint of
        `app.errors`. Orders: newest, oldest, priority (then oldest first), and run, in which one queue runs its queued
        jobs. `before` is the same as `after` for the newest first, by the last one's id. `offset` skips that many, by
        reading them.

        No index finds a rare kind, queue, source, train, key or text of meta: those jobs are searched for among all.
        With `search_limit` and no offset, the newest or oldest first, that many are looked at; if they are not all, the
        list has `early` set, and `reached`, which the next page gets as `after`, although it may be short or empty.
        """
        last = _last(before, after, order)
        find = self._find(limit, last, order, filters, offset=offset, raw=raw, search_limit=search_limit)
        return self._read(find, raw=raw)

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
        outcome = self._run(self._peek(key, raw))
        limit = None if timeout is None else to_ms(timeout, "timeout") / 1_000
        if outcome.status in wanted or outcome.status in FINISHED or limit == 0:
            return outcome if raw else self._with_value(outcome)
        there = self._results.outcome(key, limit, wanted)
        if there is None or raw:
            there = self._run(self._peek(key, raw))
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
        return self._run(self._store.ops.audit(as_id(job_id), tenant_id=self._visible_tenant))

    def audit_log(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        tenant: str | UUID | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[AuditEntry]:
        """What people and programs did to jobs, queues, trains and settings, newest first.

        For the next page give the last one's `id` as `before`.
        """
        return self._run(self._audit_log(actor, action, tenant, limit, before))

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

    # operate on one

    def cancel(
        self,
        job_id: str | UUID,
        *,
        reason: str | None = None,
        actor: str | None = None,
        if_match: Collection[str] | None = None,
        conn: Any = None,
    ) -> Status:
        """Cancel a job at once, or ask it to stop if it is running; returns its status now. Raises `NotFound`.

        With `if_match`, here and in other verbs, only if the `etag` of the job as it is stored is one of these; raises
        `ChangedMeanwhile`.
        """
        status = self._run(self._if_matching(job_id, if_match, self._cancel(job_id, reason, actor)), conn)
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
        **changes: Unpack[RetryChanges],
    ) -> str:
        """Run a finished job again, with a full budget; returns the id that will run (a new one for at_most_once).

        It gets its old place in the line; without `keep_place` it goes to the end. With scheduled_for or delay it runs
        later, with max_attempts or payload with those; a machine keeps its payload, for its state came of it.
        Raises `NotFound`, `NotAllowed` (not finished yet; the payload of a machine), `Duplicate` (its unique key is
        taken), `InvalidJob`.
        """
        retrying = self._retry(job_id, actor, keep_place, changes)
        runs_as, queue = self._run(self._if_matching(job_id, if_match, retrying), conn)
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

    # operate on many

    def count_jobs(self, **filters: Unpack[JobFilters]) -> int:
        """How many jobs match: those that `cancel_jobs` or `retry_jobs` with the same filters would look at."""
        count = 0
        for page in self._pages(filters):
            count += len(page)
        return count

    def cancel_jobs(
        self,
        *,
        limit: int | None = None,
        reason: str | None = None,
        actor: str | None = None,
        conn: Any = None,
        **filters: Unpack[JobFilters],
    ) -> int:
        """Cancel every job that matches, or the oldest `limit` of them; returns how many were canceled or asked to
        stop. Needs a filter."""
        left = at_most(limit)
        done = 0
        for page in self._pages(at_least_one(filters, "cancel"), limit, conn):
            live = [job.id for job in page if job.status not in FINISHED][:left]
            op = self._store.ops.cancel(live, tenant_id=self._visible_tenant, reason=reason, actor=actor)
            statuses = self._run(op, conn)
            done += sum(status in ("canceled", "running") for status in statuses.values())
            left -= len(live)
            if not left:
                break
        self._wake_up(None, conn)
        return done

    def retry_jobs(
        self,
        *,
        limit: int | None = None,
        keep_place: bool = False,
        actor: str | None = None,
        conn: Any = None,
        **filters: Unpack[JobFilters],
    ) -> int:
        """Retry every finished job that matches, or the oldest `limit` of them; returns how many. Needs a filter.

        They go to the end of the line, in their old order, so that they do not delay the work that waits now; with
        `keep_place`, each gets its old place back. A job whose unique key is taken, or that was retried already, stays
        as it is.
        """
        most = at_most(limit)
        found: list[Job] = []
        for page in self._pages(at_least_one(filters, "retry"), limit, conn):
            found += [job for job in page if job.status in FINISHED][: most - len(found)]
            if len(found) == most:
                break
        ids = sorted(job.id for job in found)  # the oldest first: what waits for another comes after it
        done = 0
        for at in range(0, len(ids), PAGE):
            done += self._retry_all(ids[at : at + PAGE], actor, keep_place, conn)
        for queue in {job.queue for job in found}:
            self._wake_up(queue, conn)
        return done

    def _retry_all(self, ids: list[str], actor: str | None, keep_place: bool, conn: Any) -> int:
        """Retry them; where one is refused, halve the batch until it is alone."""
        op = self._store.ops.retry(ids, tenant_id=self._visible_tenant, actor=actor, keep_place=keep_place)
        try:
            done = self._run(op, conn)
        except Duplicate:
            if len(ids) == 1:
                return 0
            half = len(ids) // 2
            first = self._retry_all(ids[:half], actor, keep_place, conn)
            return first + self._retry_all(ids[half:], actor, keep_place, conn)
        return len(done)

    def _pages(self, filters: Mapping[str, Any], limit: int | None = None, conn: Any = None) -> Iterator[list[Job]]:
        """All jobs that match; where only the first ones matter, the oldest first. An empty page is the end: one of
        large jobs ends early."""
        order: Order = "newest" if limit is None else "oldest"
        last: Cursor | None = None
        while page := self._run(self._find(PAGE, last, order, filters), conn):
            last = Cursor.of(page[-1], "after")
            yield page

    # as ops

    def _find(
        self,
        limit: int,
        last: Cursor | None,
        order: Order,
        filters: Mapping[str, Any],
        *,
        offset: int = 0,
        raw: bool = False,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        if not offset:
            return self._page(limit, last, order, filters, raw, search_limit)

        def steps() -> Steps[list[Job]]:
            left, at = offset, last
            while left:
                skipped = yield from self._page(min(left, PAGE), at, order, filters, True).steps()
                if not skipped:
                    return skipped
                left -= len(skipped)
                at = Cursor.of(skipped[-1], "after")
            return (yield from self._page(limit, at, order, filters, raw).steps())

        return Op(steps, writes=False)

    def _page(
        self,
        limit: int,
        last: Cursor | None,
        order: Order,
        filters: Mapping[str, Any],
        raw: bool,
        search_limit: int | None = None,
    ) -> Op[list[Job]]:
        size = page_size(limit)
        single = one_value_each(filters)
        order = check_order(order, single[0] if len(single) == 1 else filters, last)
        tenant_id = self._tenant_to_read(filters.get("tenant"))
        wanted = [filter_of(one, tenant_id=tenant_id) for one in single]
        each = None if search_limit is None else max(1, search_limit // len(wanted))
        find = self._store.ops.find
        ops = [find(one, limit=size, order=order, after=last, raw=raw, search_limit=each) for one in wanted]
        if len(ops) == 1:
            return ops[0]

        def steps() -> Steps[list[Job]]:
            found: Page[Job] = Page()
            key = sort_key(order)
            ends = []  # beyond these, some may be missing
            searched = False
            for op in ops:
                part = yield from op.steps()
                found += part
                if isinstance(part, Page) and part.early:
                    ends.append(part.reached or key(part[-1]))
                    searched = searched or part.reached is not None
            backwards = order == "newest"
            found.sort(key=key, reverse=backwards)
            if not ends:
                return Page(found[:size])
            end = (max if backwards else min)(ends)
            page = Page([job for job in found if (key(job) >= end if backwards else key(job) <= end)][:size])
            page.early = True
            if searched and len(page) < size:
                page.reached = end
            return page

        return Op(steps, writes=False)

    def _chain(self, job_id: str | UUID, raw: bool) -> Op[list[Job]]:
        def steps() -> Steps[list[Job]]:
            found = [(yield from self._get(job_id, raw=raw).steps())]
            while found[0].retry_of is not None and len(found) < PAGE:
                before = yield from self._store.ops.get(
                    [found[0].retry_of], tenant_id=self._visible_tenant, raw=raw
                ).steps()
                if not before:  # it was pruned
                    break
                found = before + found
            while len(found) < PAGE:
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
        self, actor: str | None, action: str | None, tenant: str | UUID | None, limit: int, before: int | None
    ) -> Op[list[AuditEntry]]:
        return self._store.ops.audit_log(
            tenant_id=self._tenant_to_read(tenant), actor=actor, action=action, limit=page_size(limit), before=before
        )

    def _why(self, job_id: str | UUID) -> Op[Why]:
        key = as_id(job_id)
        return then(why(self._store.ops, key, tenant_id=self._visible_tenant), lambda answer: answer or missing(key))

    def _cancel(self, job_id: str | UUID, reason: str | None, actor: str | None) -> Op[Status]:
        key = as_id(job_id)
        if reason is not None:
            check_text(reason, "reason")
        op = self._store.ops.cancel([key], tenant_id=self._visible_tenant, reason=reason, actor=actor)
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
            if key not in done:
                raise NotAllowed(f"job {key} is {job.status}: only a finished job can be retried")
            return done[key], job.queue

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


def at_most(limit: int | None) -> int:
    """How many jobs a bulk verb may touch; raises `InvalidJob`."""
    if limit is None:
        return sys.maxsize
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidJob(f"limit={limit!r} must be a whole number from 1, or None for all that match")
    return limit


def _last(before: str | UUID | None, after: Job | str | None, order: str) -> Cursor | None:
    """Where the previous page ended; raises `InvalidJob`."""
    if before is None:
        return None if after is None else Cursor.of(after, "after")
    if after is not None or order != "newest":
        raise InvalidJob("before= is for the newest first, and alone: give the last job of the page as after=")
    return Cursor(given_id(before, "before"))


def at_least_one(filters: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """The filters; raises `InvalidJob` where there are none: nobody means all jobs by leaving them out."""
    if all(value is None for value in filters.values()):
        raise InvalidJob(f"which jobs to {what}? Give a filter, such as status= or kind=")
    return filters


def awaited_statuses(status: Status | Collection[Status]) -> frozenset[Status]:
    """Raises `InvalidJob` for what is no status."""
    wanted: list[Status] = [status] if isinstance(status, str) else list(status)
    if not wanted:
        raise InvalidJob(f"status={status!r} is empty: name one to wait for, of {', '.join(STATUSES)}")
    for each in wanted:
        if each not in STATUSES:
            raise InvalidJob(f"status={each!r} does not exist: use {', '.join(STATUSES)}")
    return frozenset(wanted)
