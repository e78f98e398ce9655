"""What the verbs ask of the store: checked requests, made into ops, the same for both colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import product
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from headway.app.masking import masked
from headway.app.results import Results
from headway.app.tenants import TenantLookup, found
from headway.app.why import Why, why
from headway.clock import Clock, from_micros
from headway.define import checks
from headway.define.change import change_of
from headway.define.checks import group_id
from headway.define.cycles import check_acyclic
from headway.define.definitions import Definitions
from headway.define.option_types import UsingOptions
from headway.define.registry import Registry
from headway.errors import InvalidJob, NotAllowed, NotFound, UnknownKind
from headway.model import codec
from headway.model.group import NewGroup
from headway.model.ids import as_id, given_id, is_id, tenant_ref
from headway.model.job import Attempt, AuditEntry, Enqueued, Filter, Job, NewJob, Outcome
from headway.model.status import STATUSES, Status
from headway.store.ops import Op, Steps
from headway.store.paging import Page
from headway.store.run import Store
from headway.worker.wake import Wake

REPEATABLE = ("status", "kind", "queue", "source")
"""The filters that may have several values, of which any will do."""
_MOST_READS = 64

T = TypeVar("T")
U = TypeVar("U")


class VerbBase(TenantLookup):
    """Holds whom an app acts for, and turns calls into ops; raises before anything is sent."""

    clock: Clock
    payload_limit: int
    _strict_kinds: bool | None
    _retention_ms: Mapping[str, int]
    _registry: Registry
    _wake: Wake
    _emitted: Wake
    _definitions: Definitions
    _store: Store
    _whole: Store  # the same database for what belongs to all tenants
    _results: Results

    # the tenant that jobs are enqueued for, by name or id, and the id that everything else is narrowed to (None: all)
    _own: str
    _seen: str | None
    _is_narrow: bool

    def _run(self, op: Op[T]) -> T:
        return self._store.run(op)

    async def _arun(self, op: Op[T]) -> T:
        return await self._store.arun(op)

    def _read(self, op: Op[T]) -> T:
        """Run it, for people: what is secret in it is not shown."""
        self.learn(None)
        return masked(self._run(op), self._definitions)

    async def _aread(self, op: Op[T]) -> T:
        await self.alearn(None)
        return masked(await self._arun(op), self._definitions)

    def learn(self, conn: Any) -> None:
        """Hear of what operators changed of kinds, if that was not heard of lately."""
        if self._definitions.are_old:
            op = self._store.ops.definitions(None)
            found = self._run(op) if conn is None else self._store.run_in(conn, op)
            self._definitions.hear(found)

    async def alearn(self, conn: Any) -> None:
        if self._definitions.are_old:
            op = self._store.ops.definitions(None)
            found = await (self._arun(op) if conn is None else self._store.arun_in(conn, op))
            self._definitions.hear(found)

    def _put(self, batch: list[NewJob], group: NewGroup | None, conn: Any) -> list[Enqueued]:
        """Every enqueue goes through here, or through its twin."""
        batch, group = self._identified(batch, group, conn)
        op = self._enqueue(batch, group)
        done = self._store.run(op) if conn is None else self._store.run_in(conn, op)
        self._poke(batch, conn)
        return done

    async def _aput(self, batch: list[NewJob], group: NewGroup | None, conn: Any) -> list[Enqueued]:
        batch, group = await self._aidentified(batch, group, conn)
        op = self._enqueue(batch, group)
        done = await (self._store.arun(op) if conn is None else self._store.arun_in(conn, op))
        self._poke(batch, conn)
        return done

    def _identified(
        self, batch: list[NewJob], group: NewGroup | None, conn: Any
    ) -> tuple[list[NewJob], NewGroup | None]:
        """The jobs with the ids of the tenants that they name; a name that is new becomes a tenant."""
        refs = _unknown(batch)
        return _named(batch, group, self._look_up(refs, create=True, conn=conn)) if refs else (batch, group)

    async def _aidentified(
        self, batch: list[NewJob], group: NewGroup | None, conn: Any
    ) -> tuple[list[NewJob], NewGroup | None]:
        refs = _unknown(batch)
        return _named(batch, group, await self._alook_up(refs, create=True, conn=conn)) if refs else (batch, group)

    def _enqueue(self, batch: list[NewJob], group: NewGroup | None) -> Op[list[Enqueued]]:
        if len(batch) > 1:
            codec.check_batch((job.payload for job in batch), "jobs")
        for job in batch:
            if job.after:
                check_acyclic(batch)
                break
        return self._store.ops.enqueue(batch) if group is None else self._store.ops.enqueue(batch, group)

    def _built(self, kind: str | NewJob, payload: Mapping[str, Any] | None, options: UsingOptions) -> NewJob:
        given: Any = {name: value for name, value in options.items() if name != "conn"}
        if isinstance(kind, NewJob):
            if payload is not None or given:
                raise InvalidJob("a job made by build() is complete: give its options to using(), before build()")
            return kind
        if payload is not None and not isinstance(payload, Mapping):
            raise InvalidJob(f"the payload of {kind!r} is a mapping of its parameters, not {type(payload).__name__}")
        if self._is_unknown(checks.name(kind, "kind")):
            raise UnknownKind(
                f"{self._registry.unknown(kind, self._definitions.names)}. One that the worker of another app has "
                "declared is known, too; strict_kinds=False takes any"
            )
        return self._definitions.build(kind, payload or {}, given, now=self.clock.now(), limit=self.payload_limit)

    def _is_unknown(self, kind: object) -> bool:
        """Whether it names a kind that neither the code here nor any worker has defined, and this app is strict."""
        if not isinstance(kind, str) or kind in self._registry or self._definitions.get(kind) is not None:
            return False
        strict = self._strict_kinds
        return self._registry.has_code if strict is None else strict

    def _mine(self, job: NewJob) -> NewJob:
        if not isinstance(job, NewJob):
            raise InvalidJob(f"enqueue_many takes what kind.build(…) gives, not {type(job).__name__}")
        if job.tenant is None:
            return msgspec.structs.replace(job, tenant=self._own, tenant_id=self._tenants.get(self._own))
        if self._is_narrow and job.tenant != self._own and job.tenant_id != self._seen and job.tenant != self._seen:
            raise NotAllowed(f"this app acts for tenant {self._own} only, not for {job.tenant}")
        return job if job.tenant_id else msgspec.structs.replace(job, tenant_id=self._tenants.get(job.tenant))

    def _poke(self, jobs: list[NewJob], conn: Any) -> None:
        if conn is None:
            for queue in {job.queue for job in jobs}:
                self._wake.poke(queue)

    def _get(self, job_id: str | UUID) -> Op[Job]:
        key = as_id(job_id)
        return then(self._store.ops.get([key], tenant_id=self._seen), lambda jobs: jobs[0] if jobs else missing(key))

    def _find(self, limit: int, before: str | UUID | None, filters: Mapping[str, Any]) -> Op[list[Job]]:
        before_id = None if before is None else given_id(before, "before")
        size = _page_size(limit)
        ops = [
            self._store.ops.find(self._filter(each), limit=size, before_id=before_id) for each in _each_alone(filters)
        ]
        if len(ops) == 1:
            return ops[0]

        def steps() -> Steps[list[Job]]:
            found: list[Job] = []
            last = ""
            for op in ops:
                page = yield from op.steps()
                found += page
                if isinstance(page, Page) and page.early:
                    last = max(last, page[-1].id)  # below this, not all are known
            known = [job for job in found if job.id >= last]
            return sorted(known, key=lambda job: job.id, reverse=True)[:size]

        return Op(steps, writes=False)

    def _filter(self, filters: Mapping[str, Any]) -> Filter:
        given = {name: value for name, value in filters.items() if value is not None}
        tenant = given.pop("tenant", None)
        unknown = set(given) - set(Filter.__struct_fields__) | set(given) & {"tenant_id"}
        if unknown:
            raise InvalidJob(
                f"{sorted(unknown)[0]!r} is not a filter: use tenant, {', '.join(Filter.__struct_fields__[1:])}"
            )
        if given.get("status", "queued") not in STATUSES:
            raise InvalidJob(f"status={given['status']!r} does not exist: use {', '.join(STATUSES)}")
        for name in ("created_after", "created_before"):
            if name in given and (not isinstance(given[name], datetime) or given[name].tzinfo is None):
                raise InvalidJob(f"{name}={given[name]!r} must be a datetime with a zone")
        for name in {"retry_of", "parent_id"} & given.keys():
            given[name] = given_id(given[name], name)
        if "group_id" in given:
            given["group_id"] = group_id(given["group_id"], "group_id")
        return Filter(tenant_id=self._narrowed(tenant), **given)

    def _narrowed(self, tenant: str | UUID | None) -> str | None:
        """The id of the tenant that is asked for; None: of all."""
        if tenant is None:
            return self._seen
        return self._id_of(self._whose(tenant))

    def _whose(self, tenant: str | UUID | None) -> str:
        """The tenant that a name is looked for in, or made for: the one that is given, or the app's own."""
        if tenant is None:
            return self._own
        ref = tenant_ref(tenant)
        if self._is_narrow and ref != self._own and not (is_id(ref) and ref == self._seen):
            raise NotAllowed(f"this app sees tenant {self._own} only, not {tenant}")
        return ref

    def _attempts(self, job_id: str | UUID) -> Op[list[Attempt]]:
        key = as_id(job_id)

        def steps() -> Steps[list[Attempt]]:
            yield from self._get(key).steps()
            return (yield from self._store.ops.attempts(key, tenant_id=self._seen).steps())

        return Op(steps, writes=False)

    def _peek(self, key: str) -> Op[Outcome]:
        return then(
            self._store.ops.results([key], tenant_id=self._seen),
            lambda found: found[key] if key in found else missing(key),
        )

    def _audit_log(
        self, actor: str | None, action: str | None, tenant: str | UUID | None, limit: int, before: int | None
    ) -> Op[list[AuditEntry]]:
        return self._store.ops.audit_log(
            tenant_id=self._narrowed(tenant), actor=actor, action=action, limit=_page_size(limit), before=before
        )

    def _why(self, job_id: str | UUID) -> Op[Why]:
        key = as_id(job_id)
        return then(why(self._store.ops, key, tenant_id=self._seen), lambda answer: answer or missing(key))

    def _cancel(self, job_id: str | UUID, reason: str | None, actor: str | None) -> Op[Status]:
        key = as_id(job_id)
        if reason is not None:
            codec.check_text(reason, "reason")
        op = self._store.ops.cancel([key], tenant_id=self._seen, reason=reason, actor=actor)
        return then(op, lambda found: found[key] if key in found else missing(key))

    def _retry(self, job_id: str | UUID, actor: str | None) -> Op[tuple[str, str]]:
        key = as_id(job_id)

        def steps() -> Steps[tuple[str, str]]:
            job = yield from self._get(key).steps()
            done = yield from self._store.ops.retry([key], tenant_id=self._seen, actor=actor, keep_place=True).steps()
            if key not in done:
                raise NotAllowed(f"job {key} is {job.status}: only a finished job can be retried")
            return done[key], job.queue

        return Op(steps, writes=True, repeatable=False)

    def _change(self, job_id: str | UUID, actor: str | None, changes: Mapping[str, Any]) -> Op[Status]:
        key = as_id(job_id)
        change = change_of(changes, now=from_micros(self.clock.now()), limit=self.payload_limit)

        def steps() -> Steps[Status]:
            checked = change
            if not isinstance(change.payload, msgspec.UnsetType):
                job = yield from self._get(key).steps()
                # as strict as an enqueue: what the handler cannot take would only end dead
                payload = self._definitions.checked(job.kind, changes["payload"], limit=self.payload_limit)
                checked = msgspec.structs.replace(change, payload=payload)
            op = self._store.ops.change(key, checked, tenant_id=self._seen, actor=actor)
            return (yield from op.steps()) or missing(key)

        return Op(steps, writes=True)

    def _everyones(self, what: str, op: Op[T]) -> Op[T]:
        if self._is_narrow:
            nouns = next((noun for noun in ("definitions", "limits") if noun[:-1] in what), "queues")
            raise NotAllowed(f"{nouns} are shared by all tenants: {what} with the app itself, not for one tenant")
        return op


def _each_alone(filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The filters with one value each: several values of one become several reads, and each keeps its index."""
    several: dict[str, list[Any]] = {}
    for name, value in filters.items():
        if isinstance(value, list | tuple | set | frozenset):
            if name not in REPEATABLE:
                raise InvalidJob(f"{name} takes one value, not several: {', '.join(REPEATABLE)} take several")
            if not value:
                raise InvalidJob(f"{name} has no value: leave it out for any")
            several[name] = sorted(set(value))
    found = [dict(zip(several, values, strict=True)) for values in product(*several.values())]
    if len(found) > _MOST_READS:
        raise InvalidJob(f"these filters are {len(found)} combinations of values: give {_MOST_READS} at most")
    return [{**filters, **each} for each in found]


def _page_size(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10_000:
        raise InvalidJob(f"limit={limit!r} must be a whole number from 1 to 10,000")
    return limit


def _unknown(batch: list[NewJob]) -> set[str]:
    """The tenants of these jobs whose ids are to be looked up."""
    return {job.tenant for job in batch if not job.tenant_id and job.tenant is not None}


def _named(batch: list[NewJob], group: NewGroup | None, ids: Mapping[str, str]) -> tuple[list[NewJob], NewGroup | None]:
    jobs = [
        job if job.tenant_id else msgspec.structs.replace(job, tenant_id=found(str(job.tenant), ids)) for job in batch
    ]
    if group is not None:
        group = msgspec.structs.replace(group, tenant_id=jobs[0].tenant_id)
    return jobs, group


def then(op: Op[T], shape: Callable[[T], U]) -> Op[U]:
    """The op with its answer shaped."""

    def steps() -> Steps[U]:
        return shape((yield from op.steps()))

    return Op(steps, writes=op.writes, repeatable=op.repeatable)


def missing(job_id: str) -> Any:
    raise NotFound(f"there is no job {job_id} (or it is another tenant's, or it was pruned)")
