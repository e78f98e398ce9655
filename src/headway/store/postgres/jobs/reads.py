"""Reads of jobs: plain selects, which row-level security narrows for roles that are under it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.model import codec
from headway.model.job import Attempt, Filter, Job, Outcome
from headway.model.status import Status
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.paging import in_pieces
from headway.store.postgres.engine.decode import job, utc
from headway.store.postgres.engine.verbs import read

JOB = """
select j.id, j.tenant_id, coalesce(t.slug, j.tenant_id::text), j.kind, j.queue, j.status, j.priority, j.position,
       j.payload, j.fence, j.tries, j.losses, j.max_attempts, j.max_losses, j.backoff_base_ms, j.backoff_cap_ms,
       j.timeout_ms, j.delivery, j.idempotency_key, j.unique_key, j.unique_scope, j.scheduled_for, j.expires_at,
       j.created_at, j.queued_at, j.started_at, j.finished_at, j.worker_id, j.attempt_started_at,
       j.cancel_requested_at, j.progress, j.progress_note, j.log_tail, j.result, j.error, j.correlation_id,
       j.trace_id, j.source, j.source_ref, j.created_by, j.retry_of, j.meta,
       j.train, coalesce(j.on_canceled, 'advance'), coalesce(j.on_dead, 'advance'), j.partition, j.concurrency,
       j.concurrency_key, j.rate_count, j.rate_period_ms, j.rate_burst, j.rate_key, j.limited_by, j.group_id,
       coalesce(j.pending, false), j.version, j.step, j.state, j.awaiting,
       case when j.match_all then 'all' else 'any' end, j.deadline_at, j.joining, j.woken, j.home_queue,
       j.home_partition, j.forked_from, j.parent_id, j.log_end, j.template_id, j.template_revision, j.trigger_id
  from headway.jobs j
  left join headway.tenants t on t.id = j.tenant_id
"""
_GET = JOB + " where j.id = any ($1::uuid[]) and ($2::uuid is null or j.tenant_id = $2)"
# a line whose parameter is null is removed by the planner: reads are planned with their values
_FILTER = """
 where ($1::uuid is null or j.tenant_id = $1)
   and ($3::text is null or j.kind = $3)
   and ($4::text is null or j.queue = $4)
   and ($5::text is null or j.source = $5)
   and ($6::text is null or j.correlation_id = $6)
   and ($7::text is null or j.unique_key = $7)
   and ($8::uuid is null or j.retry_of = $8)
   and ($9::uuid is null or j.group_id = $9)
   and ($10::uuid is null or j.parent_id = $10)
   and ($11::timestamptz is null or j.created_at > $11)
   and ($12::timestamptz is null or j.created_at < $12)
   and ($13::uuid is null or j.id < $13)
"""
_OF_STATUS = "   and ($2::text is null or j.status = $2)"
_FIND = f"""
{JOB} {_FILTER} {_OF_STATUS}
 order by j.id desc
 limit $14::integer
"""
# as a range of (status, id), which only the index jobs_ended serves: behind a backlog of newer jobs the planner would
# walk back through all of it
_FIND_FINISHED = f"""
{JOB} {_FILTER}
   and j.finished_at is not null
   and (j.status, j.id) >= ($2::text, '00000000-0000-0000-0000-000000000000'::uuid)
   and (j.status, j.id) < ($2, coalesce($13::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid))
 order by j.status desc, j.id desc
 limit $14::integer
"""
# few and anywhere: found by the partial index of their status, not by walking back through everything that is newer
_FIND_LIVE = f"""
with live as materialized (
  select j.id from headway.jobs j {_FILTER} {_OF_STATUS}
), page as (
  select l.id from live l order by l.id desc limit $14::integer
)
{JOB}
  join page p on p.id = j.id
 order by j.id desc
"""  # noqa: S608 - texts of this file
# by the edges, and where a child was retried by a new job, by retry_of: an index of parent_id would cost every settle
_FIND_SPAWNED = f"""
with recursive kin (id) as (
  select e.parent_id from headway.edges e where e.child_id = $10::uuid and e.fence > 0
  union
  select r.retry_of from kin k join headway.jobs r on r.id = k.id where r.retry_of is not null
), page as materialized (
  select j.id from kin k join headway.jobs j on j.id = k.id {_FILTER} {_OF_STATUS} order by j.id desc limit $14::integer
)
{JOB}
  join page p on p.id = j.id
 order by j.id desc
"""  # noqa: S608 - texts of this file
_ATTEMPTS = """
select a.job_id, a.fence, a.status, a.started_at, a.finished_at, a.worker_id, a.error, a.step, a.state,
       a.exit_code, a.stdout_tail, a.stderr_tail, a.pid, a.version, a.outcome, a.note, a.woken
  from headway.attempts a
 where a.job_id = $1::uuid
   and ($2::uuid is null or a.tenant_id = $2)
union all
select j.id, j.fence, 'running', j.attempt_started_at, null, j.worker_id, null, j.step, null, null, j.log_tail, null,
       null, j.version, null, null, j.woken
  from headway.jobs j
 where j.id = $1::uuid
   and j.status = 'running'
   and ($2::uuid is null or j.tenant_id = $2)
 order by 2
"""


class ReadVerbs:
    def get(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[list[Job]]:
        return read(_GET, [list(ids), tenant_id], lambda rows: [job(row) for row in rows])

    def ids_from(self, first: str, last: str, *, limit: int) -> Op[list[str]]:
        return read(
            "select j.id from headway.jobs j where j.id between $1::uuid and $2::uuid order by j.id limit $3::integer",
            [first, last, limit],
            lambda rows: [str(job_id) for (job_id,) in rows],
        )

    def find(self, where: Filter, *, limit: int, before_id: str | None) -> Op[list[Job]]:
        params = [getattr(where, name) for name in Filter.__struct_fields__]
        match where.status:
            case _ if where.parent_id is not None:
                sql = _FIND_SPAWNED
            case "running" | "scheduled" | "held" | "waiting":
                sql = _FIND_LIVE
            case "succeeded" | "dead" | "failed" | "canceled":
                sql = _FIND_FINISHED
            case _:
                sql = _FIND

        def page(count: int, before: str | None) -> Steps[Rows]:
            return (yield Statement(sql, [*params, before, count]))

        return Op(lambda: in_pieces(limit, before_id, page, job), writes=False)

    def attempts(self, job_id: str, *, tenant_id: str | None) -> Op[list[Attempt]]:
        return read(_ATTEMPTS, [job_id, tenant_id], lambda rows: [_attempt(row) for row in rows])

    def results(self, ids: Sequence[str], *, tenant_id: str | None) -> Op[dict[str, Outcome]]:
        return read(
            "select j.id, j.status, j.result, case when j.finished_at is not null then j.error end from headway.jobs j"
            " where j.id = any ($1::uuid[]) and ($2::uuid is null or j.tenant_id = $2)",
            [list(ids), tenant_id],
            lambda rows: {
                job_id: Outcome(status, codec.shown(result, what="result"), error)
                for job_id, status, result, error in rows
            },
        )

    def counts(self, *, tenant_id: str | None) -> Op[dict[Status, int]]:
        return read(
            "select j.status, count(*) from headway.jobs j"
            " where ($1::uuid is null or j.tenant_id = $1) group by j.status",
            [tenant_id],
            lambda rows: dict(rows),
        )

    def ahead(self, job_id: str, *, tenant_id: str | None = None) -> Op[int]:
        return read(
            "select count(*) from (select from headway.jobs me join headway.jobs j"
            " on j.queue = me.queue and j.status = 'queued' and j.limited_by is null"
            " and (j.priority, j.position, j.id) < (me.priority, me.position, me.id)"
            " and ($2::uuid is null or j.tenant_id = $2)"
            " where me.id = $1::uuid and me.status = 'queued' limit 10000) before",
            [job_id, tenant_id],
            lambda rows: rows[0][0],
        )

    def now(self) -> Op[datetime]:
        return read("select headway.now()", [], lambda rows: utc(rows[0][0]))


def _attempt(row: Row) -> Attempt:
    fields = dict(zip(Attempt.__struct_fields__, map(utc, row), strict=True))
    fields["state"] = codec.shown(fields["state"], what="state")
    return Attempt(**fields)
