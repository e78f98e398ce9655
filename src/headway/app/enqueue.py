"""The verbs that enqueue jobs, and the path that every enqueue takes: checks, tenants, one op, a wake-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

import msgspec

from headway.app.payloads import PayloadVerbs, Spilled
from headway.app.tenants import found
from headway.define import checks
from headway.define.cycles import check_acyclic
from headway.define.enqueuer import EnqueueMiddleware
from headway.define.option_types import UsingOptions
from headway.define.options import laid_over
from headway.errors import HeadwayError, InvalidJob, NotAllowed, UnknownKind
from headway.model import codec
from headway.model.group import NewGroup
from headway.model.job import Brief, Enqueued, Job, NewJob
from headway.model.request import Requests
from headway.store.ops import Op, Steps
from headway.worker.wake import News


class EnqueueVerbs(PayloadVerbs):
    """Enqueue jobs by a kind's name, or as `kind.build(…)` made them."""

    def enqueue(
        self, kind: str | NewJob, payload: Mapping[str, Any] | None = None, **options: Unpack[UsingOptions]
    ) -> Enqueued:
        """Enqueue one job, by its kind's name or as `kind.build(…)` made it; returns its id, status and `created`.

        It is durable when this returns; with `conn=`, exactly if that connection's transaction commits.
        Raises `UnknownKind`, `InvalidJob`, `InvalidPayload`, `Duplicate` (on_conflict="raise"), `QueueFull`,
        `StoreUnavailable`.
        """
        self.learn(options.get("conn"))
        if self._is_unknown(kind):
            self.learn_again(options.get("conn"))
        return self.enqueue_new(self._built(kind, payload, options), options.get("conn"))

    def enqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        conn: Any = None,
        request: Requests = None,
        existing: Callable[[Job], None] | None = None,
        rows: list[Brief] | None = None,
    ) -> list[Enqueued]:
        """Enqueue jobs that `kind.build(…)` made: one batch, one transaction, all or none, in this order.

        They may wait for each other (`using(after=…)`), but not in a circle (`InvalidJob`). A `request` that was done
        before raises `Replayed`; with several, each is about the job at its place. `existing` is called for each job
        that is returned in place of a new one, before the transaction commits: what it raises undoes all. `rows` is
        filled with what that transaction stored, in no order.
        """
        self.learn(conn)
        return self._store_jobs([self._for_own_tenant(job) for job in jobs], None, conn, request, existing, rows)

    def build_job(
        self, kind: str, payload: Mapping[str, Any] | msgspec.Raw | None = None, **options: Unpack[UsingOptions]
    ) -> NewJob:
        """What `enqueue` would store, for `enqueue_many`, from the kind's definition as this app last read it; nothing
        is read or written. A `msgspec.Raw` payload is stored as it is. Raises as `enqueue` does."""
        return self._built(kind, payload, options)

    def job_builder(
        self, kind: str, *, stored: bool = False, **options: Unpack[UsingOptions]
    ) -> Callable[[Mapping[str, Any] | msgspec.Raw], NewJob]:
        """The same for many payloads: gives what makes a job from each. The options are checked once. With `stored` by
        the stored definition, if there is one, also where the code is here: it may be another version than the
        workers'."""
        return self._builder(kind, options, stored=stored)

    def wake(self, *queues: str) -> None:
        """Let workers of this process and this machine look for jobs in these queues now; without names, in the queues
        of this app's kinds, and for events.

        For the time after a commit that Headway cannot see: what was enqueued with `conn=` of psycopg, asyncpg or a
        SQLite library is found by the next poll otherwise.
        """
        for queue in queues or sorted(self._registry.queues | {"default"}):
            self._wake_up(checks.name(queue, "queue"), None)
        if not queues:
            self._tell_of_events(None)

    def enqueue_new(self, job: NewJob, conn: Any) -> Enqueued:
        return self._store_jobs([self._for_own_tenant(job)], None, conn)[0]

    # the path of every enqueue

    def _store_jobs(
        self,
        batch: list[NewJob],
        group: NewGroup | None,
        conn: Any,
        request: Requests = None,
        existing: Callable[[Job], None] | None = None,
        rows: list[Brief] | None = None,
    ) -> list[Enqueued]:
        """Every enqueue goes through here, or through its async twin."""
        batch, group = self._identified(batch, group, conn)
        if self._tracing is None:
            return self._store_identified(batch, group, conn, request, existing, rows)
        queues = {job.queue for job in batch}
        with self._tracing.sending("enqueue", queues.pop() if len(queues) == 1 else None, batch) as traced:
            return self._store_identified(traced, group, conn, request, existing, rows)

    def _store_identified(
        self,
        batch: list[NewJob],
        group: NewGroup | None,
        conn: Any,
        request: Requests,
        existing: Callable[[Job], None] | None,
        rows: list[Brief] | None,
    ) -> list[Enqueued]:
        written: Spilled = ()
        most = self.payload_limit >> 2  # a character has at most four bytes
        for job in batch:
            if len(job.payload) > most:
                batch, written = self._spilled(batch, conn)
                break
        op = self._once(request, self._checking(existing, self._enqueue(batch, group, written)))
        if rows is not None:
            op = self._reading(rows, batch, op)
        try:
            done = self._store.run(op) if conn is None else self._store.run_in(conn, op)
        except HeadwayError as error:
            self._drop(batch, written, error)
            raise
        self._poke(batch, conn)
        return done

    def _identified(
        self, batch: list[NewJob], group: NewGroup | None, conn: Any
    ) -> tuple[list[NewJob], NewGroup | None]:
        """The jobs with the ids of the tenants that they name; a new name becomes a tenant."""
        refs = {job.tenant for job in batch if not job.tenant_id and job.tenant is not None}
        if not refs:
            return batch, group
        ids = self._look_up(refs, create=True, conn=conn)
        return with_tenant_ids(batch, group, ids)

    def _enqueue(self, batch: list[NewJob], group: NewGroup | None, written: Spilled = ()) -> Op[list[Enqueued]]:
        if len(batch) > 1:
            codec.check_batch((job.payload for job in batch), "jobs")
        for job in batch:
            if job.after:
                check_acyclic(batch)
                break
        op = self._store.ops.enqueue(batch) if group is None else self._store.ops.enqueue(batch, group)
        return self._keeping(written, op) if written else op

    def _checking(self, existing: Callable[[Job], None] | None, op: Op[list[Enqueued]]) -> Op[list[Enqueued]]:
        """The op; `existing` sees the jobs that were there before, in the same transaction."""
        if existing is None:
            return op

        def steps() -> Steps[list[Enqueued]]:
            done = yield from op.steps()
            there = sorted({each.id for each in done if not each.created})
            for job in (yield from self._store.ops.get(there, tenant_id=self._visible_tenant, raw=True).steps()):
                existing(job)
            return done

        return Op(steps, writes=True, refusable=True, atomic=True)

    def _reading(self, rows: list[Brief], batch: list[NewJob], op: Op[list[Enqueued]]) -> Op[list[Enqueued]]:
        """The op, which also reads the rows of its jobs."""

        def steps() -> Steps[list[Enqueued]]:
            done = yield from op.steps()
            # all that were queued now were queued at the same moment: the last of them tells when
            alike = {job.id: job for job, each in zip(batch, done, strict=True) if _is_queued_now(job, each)}
            last = alike.popitem()[0] if alike else None
            rows[:] = yield from self._store.ops.brief([each.id for each in done if each.id not in alike]).steps()
            for moment in [row.queued_at for row in rows if row.id == last]:
                rows.extend(
                    Brief(job.id, job.tenant_id, job.kind, job.queue, "queued", moment, None) for job in alike.values()
                )
            return done

        return msgspec.structs.replace(op, steps=steps, alone=None, atomic=True)

    def _built(
        self, kind: str | NewJob, payload: Mapping[str, Any] | msgspec.Raw | None, options: UsingOptions
    ) -> NewJob:
        given: Any = {name: value for name, value in options.items() if name != "conn"}
        if isinstance(kind, NewJob):
            if payload is not None or given:
                raise InvalidJob("a job made by build() is complete: give its options to using(), before build()")
            return kind
        if payload is not None and not isinstance(payload, Mapping | msgspec.Raw):
            raise InvalidJob(f"the payload of {kind!r} is a mapping of its parameters, not {type(payload).__name__}")
        return self._builder(kind, given)({} if payload is None else payload)

    def _builder(
        self, kind: str, options: Mapping[str, Any], *, stored: bool = False
    ) -> Callable[[Mapping[str, Any] | msgspec.Raw], NewJob]:
        if self._is_unknown(checks.name(kind, "kind")):
            raise UnknownKind(
                f"{self._registry.unknown(kind, self._definitions.names)}. One that the worker of another app has "
                "declared is known, too; strict_kinds=False takes any"
            )
        limit, spill_limit = self.payload_limit, self.spill_limit
        definitions = self._definitions.as_stored if stored else self._definitions
        return definitions.builder(kind, options, now=self.clock.now(), limit=limit, spill_limit=spill_limit)

    def _is_unknown(self, kind: object) -> bool:
        """Whether this app refuses it: neither the code here nor any worker has defined such a kind."""
        if not isinstance(kind, str) or kind in self._registry or self._definitions.get(kind) is not None:
            return False
        strict = self._strict_kinds
        return self._registry.has_code if strict is None else strict

    def _for_own_tenant(self, job: NewJob) -> NewJob:
        """The job as the middleware wants it, for the app's tenant if it names none; raises `NotAllowed` if this app
        cannot see its tenant."""
        if not isinstance(job, NewJob):
            raise InvalidJob(f"enqueue_many takes what kind.build(…) gives, not {type(job).__name__}")
        for look_at in self._enqueue_middleware:
            job = self._changed(job, look_at(job), look_at)
        if job.tenant is None:
            return msgspec.structs.replace(job, tenant=self._own_tenant, tenant_id=self._tenants.get(self._own_tenant))
        if (
            self._is_for_one_tenant
            and job.tenant != self._own_tenant
            and job.tenant_id != self._visible_tenant
            and job.tenant != self._visible_tenant
        ):
            raise NotAllowed(f"this app acts for tenant {self._own_tenant} only, not for {job.tenant}")
        return job if job.tenant_id else msgspec.structs.replace(job, tenant_id=self._tenants.get(job.tenant))

    def _changed(self, job: NewJob, given: Mapping[str, Any] | None, middleware: EnqueueMiddleware) -> NewJob:
        """The job with what a middleware gave laid over it, as strict as an enqueue."""
        if given is None:
            return job
        if not isinstance(given, Mapping) or "conn" in given:
            what = "conn, which is the caller's" if isinstance(given, Mapping) else type(given).__name__
            raise InvalidJob(
                f"{middleware!r} gave {what}: enqueue middleware returns a mapping of the options of using(), or None"
            )
        options = {name: value for name, value in given.items() if name != "payload"}
        if options:
            job = laid_over(job, options, now=self.clock.now())
        if "payload" in given:
            payload = self._definitions.checked(job.kind, given["payload"], limit=self.payload_limit)
            job = msgspec.structs.replace(job, payload=payload)
        return job

    def _poke(self, jobs: list[NewJob], conn: Any) -> None:
        if len(jobs) == 1:
            (job,) = jobs
            self._wake_up(job.queue, conn, frozenset(((job.tenant_id, job.kind),)))
            return
        news: dict[str, set[News]] = {}
        for job in jobs:
            news.setdefault(job.queue, set()).add((job.tenant_id, job.kind))
        for queue, came in news.items():
            self._wake_up(queue, conn, frozenset(came))


def _is_queued_now(job: NewJob, made: Enqueued) -> bool:
    return (made.id, made.created, made.status, job.delay_ms, job.scheduled_for) == (job.id, True, "queued", None, None)


def with_tenant_ids(
    batch: list[NewJob], group: NewGroup | None, ids: Mapping[str, str]
) -> tuple[list[NewJob], NewGroup | None]:
    jobs = [
        job if job.tenant_id else msgspec.structs.replace(job, tenant_id=found(str(job.tenant), ids)) for job in batch
    ]
    if group is not None:
        group = msgspec.structs.replace(group, tenant_id=jobs[0].tenant_id)
    return jobs, group
