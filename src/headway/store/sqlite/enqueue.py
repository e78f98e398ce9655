"""Enqueue: puts new jobs in, all or none, and answers those that met an existing one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from headway.clock import to_micros
from headway.errors import Duplicate, StoreError
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Enqueued, NewJob
from headway.model.status import Status
from headway.store.ops import Batch, Op, Row, Statement, Steps
from headway.store.sqlite.op import SqliteOp, Verbs, json_list, positions
from headway.store.sqlite.sql import statements

_SQL = statements("enqueue")

_scope_text = lru_cache(maxsize=256)(json_list)


class EnqueueVerbs(Verbs):
    def enqueue(self, jobs: Sequence[NewJob]) -> Op[list[Enqueued]]:
        def steps() -> Steps[list[Enqueued]]:
            if not jobs:
                return []
            now = self._clock.now()
            starts = [_starts_at(job, now) for job in jobs]
            later = [start is not None and start > now for start in starts]
            places = iter((yield from positions(later.count(False))))
            rows = [
                _row(job, now, start, None if wait else next(places))
                for job, start, wait in zip(jobs, starts, later, strict=True)
            ]
            tenants = {job.tenant_id: (job.tenant_id, _slug(job), now) for job in jobs}
            yield Batch(_SQL["tenant"], list(tenants.values()))
            ((before,),) = yield Statement(_SQL["changes"])
            yield Batch(_SQL["insert"], rows)
            ((after,),) = yield Statement(_SQL["changes"])
            if after - before == len(rows):
                return [Enqueued(row[0], row[4], True) for row in rows]
            return (yield from _answers(jobs))

        return SqliteOp(steps, writes=True)


def _slug(job: NewJob) -> str:
    if job.tenant is not None:
        return job.tenant
    return "default" if job.tenant_id == DEFAULT_TENANT_ID else job.tenant_id


def _starts_at(job: NewJob, now: int) -> int | None:
    if job.scheduled_for is not None:
        return to_micros(job.scheduled_for)
    return None if job.delay_ms is None else now + job.delay_ms * 1000


def _row(job: NewJob, now: int, scheduled_for: int | None, position: int | None) -> Row:
    queued = position is not None
    return (
        job.id,
        job.tenant_id,
        job.kind,
        job.queue,
        "queued" if queued else "scheduled",
        job.priority,
        position,
        job.max_attempts,
        job.max_losses,
        job.backoff_base_ms,
        job.backoff_cap_ms,
        job.timeout_ms,
        job.delivery,
        job.idempotency_key,
        job.unique_key,
        _scope_text(job.unique_scope) if job.unique_key is not None else "[]",
        scheduled_for,
        None if job.expires_at is None else to_micros(job.expires_at),
        now,
        now if queued else None,
        job.correlation_id,
        job.trace_id,
        job.source,
        job.source_ref,
        job.created_by,
        job.payload,
        job.meta,
    )


def _answers(jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
    """Who each job is, now that some of them met an existing one."""
    rows = yield Statement(_SQL["present"], (json_list([job.id for job in jobs]),))
    present: dict[tuple[str, str], Status] = {(job_id, tenant): status for job_id, tenant, status in rows}
    answers = []
    for job in jobs:
        status = present.get((job.id, job.tenant_id))
        if status is not None:
            # its own row, also when this enqueue repeats one whose acknowledgement was lost
            answers.append(Enqueued(job.id, status, True))
        else:
            answers.append((yield from _existing(job)))
    return answers


def _existing(job: NewJob) -> Steps[Enqueued]:
    for name in ("idempotency_key", "unique_key"):
        key = getattr(job, name)
        if key is None:
            continue
        rows = yield Statement(_SQL[f"by_{name}"], (job.tenant_id, job.kind, key))
        if rows:
            job_id, status = rows[0]
            if name == "unique_key" and job.on_conflict == "raise":
                raise Duplicate(
                    f'unique key "{key}" of kind {job.kind} is taken by job {job_id} ({status}): '
                    "nothing was enqueued; on_conflict='return' gives that job instead",
                    job_id,
                )
            return Enqueued(job_id, status, False)
    raise StoreError(f"job id {job.id} belongs to another tenant's job: nothing was enqueued; ids must be new")
