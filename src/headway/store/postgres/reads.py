"""The reads on PostgreSQL: plain selects, which row-level security narrows for roles that are under it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.model.fleet import Queue, Worker
from headway.model.job import Attempt, AuditEntry, Filter, Job, Outcome
from headway.model.status import Status
from headway.store.ops import Op, Row, Statement, Steps

_JOB = """
select j.id, j.tenant_id, coalesce(t.slug, j.tenant_id::text), j.kind, j.queue, j.status, j.priority, j.position,
       j.payload, j.fence, j.tries, j.losses, j.max_attempts, j.max_losses, j.backoff_base_ms, j.backoff_cap_ms,
       j.timeout_ms, j.delivery, j.idempotency_key, j.unique_key, j.unique_scope, j.scheduled_for, j.expires_at,
       j.created_at, j.queued_at, j.started_at, j.finished_at, j.worker_id, j.attempt_started_at,
       j.cancel_requested_at, j.progress, j.progress_note, j.log_tail, j.result, j.error, j.correlation_id,
       j.trace_id, j.source, j.source_ref, j.created_by, j.retry_of, j.meta
  from headway.jobs j
  left join headway.tenants t on t.id = j.tenant_id
"""
_JSON_FIELDS = ("payload", "result", "meta")
_FIELDS = Job.__struct_fields__
_GET = _JOB + " where j.id = any ($1::uuid[]) and ($2::uuid is null or j.tenant_id = $2)"
# a parameter that is null folds its line away: these statements are planned with their values
_MATCHES = """
 where ($1::uuid is null or j.tenant_id = $1)
   and ($2::text is null or j.status = $2)
   and ($3::text is null or j.kind = $3)
   and ($4::text is null or j.queue = $4)
   and ($5::text is null or j.source = $5)
   and ($6::text is null or j.correlation_id = $6)
   and ($7::text is null or j.unique_key = $7)
   and ($8::uuid is null or j.retry_of = $8)
   and ($9::timestamptz is null or j.created_at > $9)
   and ($10::timestamptz is null or j.created_at < $10)
   and ($11::uuid is null or j.id < $11)
"""
_FIND = _JOB + _MATCHES + " order by j.id desc limit $12::integer"
# as a range of (status, id), which only the index of that name serves: behind a backlog of newer jobs the planner
# would walk back through all of it
_FIND_FINISHED = (
    _JOB
    + _MATCHES.replace(
        "and ($2::text is null or j.status = $2)",
        "and j.finished_at is not null and (j.status, j.id) >= ($2::text, '00000000-0000-0000-0000-000000000000'::uuid)"
        " and (j.status, j.id) < ($2, coalesce($11::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))",
    )
    + " order by j.status desc, j.id desc limit $12::integer"
)
# few and anywhere: found by their own partial index, not by walking back through everything that came after them
_FIND_LIVE = f"""
with live as materialized (
  select j.id from headway.jobs j {_MATCHES}
), page as (
  select l.id from live l order by l.id desc limit $12::integer
)
{_JOB}
  join page p on p.id = j.id
 order by j.id desc
"""  # noqa: S608 - texts of this file
_ATTEMPTS = """
select a.job_id, a.fence, a.status, a.started_at, a.finished_at, a.worker_id, a.error, a.step, a.state,
       a.exit_code, a.stdout_tail, a.stderr_tail
  from headway.attempts a
 where a.job_id = $1::uuid
   and ($2::uuid is null or a.tenant_id = $2)
union all
select j.id, j.fence, 'running', j.attempt_started_at, null, j.worker_id, null, null, null, null, j.log_tail, null
  from headway.jobs j
 where j.id = $1::uuid
   and j.status = 'running'
   and ($2::uuid is null or j.tenant_id = $2)
 order by 2
"""
_QUEUES = """
with live as (
  select j.queue as name, j.status, count(*) as n, min(j.queued_at) filter (where j.status = 'queued') as oldest
    from headway.jobs j
   where j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
     and ($1::uuid is null or j.tenant_id = $1)
   group by j.queue, j.status
), per_queue as (
  select l.name, jsonb_object_agg(l.status, l.n) as counts, min(l.oldest) as oldest
    from live l
   group by l.name
)
select name, q.paused_at is not null, q.paused_at, q.paused_by, p.counts, p.oldest, coalesce(w.workers, 0), w.kinds
  from per_queue p
  full join headway.queues q using (name)
  full join (select l.queue as name, l.workers, l.kinds from headway.listening() l) w using (name)
 order by name
"""


class PostgresReads:
    """The reads of `Ops`."""

    def get(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[list[Job]]:
        return _read(_GET, [list(ids), tenant_id], lambda rows: [_job(row) for row in rows])

    def find(self, where: Filter, *, limit: int, before_id: str | None) -> Op[list[Job]]:
        params = [getattr(where, name) for name in Filter.__struct_fields__]
        match where.status:
            case "running" | "scheduled" | "held" | "waiting":
                sql = _FIND_LIVE
            case "succeeded" | "dead" | "failed" | "canceled":
                sql = _FIND_FINISHED
            case _:
                sql = _FIND
        return _read(sql, [*params, before_id, limit], lambda rows: [_job(row) for row in rows])

    def attempts(self, job_id: str, *, tenant_id: str | None) -> Op[list[Attempt]]:
        return _read(_ATTEMPTS, [job_id, tenant_id], lambda rows: [_attempt(row) for row in rows])

    def results(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[dict[str, Outcome]]:
        return _read(
            "select j.id, j.status, j.result, case when j.finished_at is not null then j.error end from headway.jobs j"
            " where j.id = any ($1::uuid[]) and ($2::uuid is null or j.tenant_id = $2)",
            [list(ids), tenant_id],
            lambda rows: {job_id: Outcome(status, _decode(result), error) for job_id, status, result, error in rows},
        )

    def counts(self, *, tenant_id: str | None) -> Op[dict[Status, int]]:
        return _read(
            "select j.status, count(*) from headway.jobs j"
            " where ($1::uuid is null or j.tenant_id = $1) group by j.status",
            [tenant_id],
            lambda rows: dict(rows),
        )

    def queues(self, *, tenant_id: str | None) -> Op[list[Queue]]:
        return _read(_QUEUES, [tenant_id], lambda rows: [_queue(row) for row in rows])

    def now(self) -> Op[datetime]:
        return _read("select headway.now()", [], lambda rows: _utc(rows[0][0]))

    def workers(self) -> Op[list[Worker]]:
        return _read(
            "select w.id, w.hostname, w.pid, w.machine, w.process_started, w.version, w.queues, w.kinds, w.concurrency,"
            " w.running, w.started_at, w.heartbeat_at, w.lease_expires_at, w.metadata"
            " from headway.workers w order by w.started_at, w.id",
            [],
            lambda rows: [_worker(row) for row in rows],
        )

    def ahead(self, job_id: str) -> Op[int]:
        return _read(
            "select count(*) from (select from headway.jobs me join headway.jobs j"
            " on j.queue = me.queue and j.status = 'queued'"
            " and (j.priority, j.position, j.id) < (me.priority, me.position, me.id)"
            " where me.id = $1::uuid and me.status = 'queued' limit 10000) before",
            [job_id],
            lambda rows: rows[0][0],
        )

    def tenants(self, ids: Sequence[str]) -> Op[dict[str, str]]:
        return _read(
            "select t.id, t.slug from headway.tenants t where t.id = any ($1::uuid[])",
            [list(ids)],
            lambda rows: dict(rows),
        )

    def audit(self, job_id: str, *, tenant_id: str | None) -> Op[list[AuditEntry]]:
        return _read(
            "select a.at, a.actor, a.action, a.detail from headway.audit a"
            " where a.job_id = $1::uuid and ($2::uuid is null or a.tenant_id = $2) order by a.id",
            [job_id, tenant_id],
            lambda rows: [AuditEntry(_utc(at), *rest) for at, *rest in rows],
        )


def _read(sql: str, params: Sequence[Any], shape: Any) -> Op[Any]:
    def steps() -> Steps[Any]:
        return shape((yield Statement(sql, params)))

    return Op(steps, writes=False)


def _decode(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _job(row: Row) -> Job:
    fields = dict(zip(_FIELDS, map(_utc, row), strict=True))
    for name in _JSON_FIELDS:
        fields[name] = _decode(fields[name])
    fields["unique_scope"] = tuple(fields["unique_scope"] or ())
    return Job(**fields)


def _attempt(row: Row) -> Attempt:
    fields = dict(zip(Attempt.__struct_fields__, map(_utc, row), strict=True))
    fields["state"] = _decode(fields["state"])
    return Attempt(**fields)


def _worker(row: Row) -> Worker:
    fields = dict(zip(Worker.__struct_fields__, map(_utc, row), strict=True))
    fields["queues"] = _decode(fields["queues"])
    fields["metadata"] = _decode(fields["metadata"])
    fields["kinds"] = tuple(fields["kinds"])
    return Worker(**fields)


def _queue(row: Row) -> Queue:
    name, paused, paused_at, paused_by, counts, oldest, workers, kinds = map(_utc, row)
    return Queue(
        name=name,
        paused=bool(paused),
        paused_at=paused_at,
        paused_by=paused_by,
        counts=_decode(counts) or {},
        oldest_queued_at=oldest,
        workers=workers,
        kinds=tuple(kinds or ()),
    )
