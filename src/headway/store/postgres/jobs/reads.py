"""Reads of jobs: plain selects, which row-level security narrows for roles that are under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from headway.model import codec
from headway.model.ids import DEFAULT_TENANT_ID
from headway.model.job import Attempt, Brief, Counted, Job, Outcome, Watched, with_artifacts
from headway.model.spill import stored_result
from headway.model.status import FINISHED, STATUSES, Status
from headway.store.ops import Op, Row, Rows, Statement, Steps
from headway.store.postgres.engine.decode import job, plain, utc
from headway.store.postgres.engine.verbs import read
from headway.store.postgres.jobs.artifacts import OF_A_JOB, SPILLED, to_artifact

# JSON as text: a library whose connection the caller passes would decode it
JOB = """
select j.id, j.tenant_id, coalesce(t.slug, j.tenant_id::text), j.kind, j.queue, j.status, j.priority, j.position,
       j.payload::text, j.fence, j.tries, j.losses, j.max_attempts, j.max_losses, j.backoff_base_ms, j.backoff_cap_ms,
       j.timeout_ms, j.delivery, j.idempotency_key, j.unique_key, j.unique_scope, j.scheduled_for, j.expires_at,
       j.created_at, j.queued_at, j.started_at, j.finished_at, j.worker_id, j.attempt_started_at,
       j.cancel_requested_at, j.progress, j.progress_note, j.log_tail, j.result::text, j.error, j.correlation_id,
       j.trace_id, j.source, j.source_ref, j.created_by, j.retry_of, j.meta::text,
       j.train, coalesce(j.on_canceled, 'advance'), coalesce(j.on_dead, 'advance'), j.partition, j.concurrency,
       j.concurrency_key, j.rate_count, j.rate_period_ms, j.rate_burst, j.rate_key, j.limited_by, j.group_id,
       coalesce(j.pending, false), j.version, j.step, j.state::text, j.awaiting,
       case when j.match_all then 'all' else 'any' end, j.deadline_at, j.joining, j.woken, j.home_queue,
       j.home_partition, j.forked_from, j.parent_id, j.log_end, j.template_id, j.template_revision, j.trigger_id,
       j.tags, j.unique_group
  from headway.jobs j
  left join headway.tenants t on t.id = j.tenant_id
"""
_GET = JOB + " where j.id = any ($1::uuid[]) and ($2::uuid is null or j.tenant_id = $2)"
_ATTEMPTS = """
select a.job_id, a.fence, a.status, a.started_at, a.finished_at, a.worker_id, a.error, a.step, a.state::text,
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
_RESULTS = (
    "select j.id, j.status, j.result::text, case when j.finished_at is not null then j.error end,"
    + SPILLED
    + "from headway.jobs j where j.id = any ($1::uuid[]) and ($2::uuid is null or j.tenant_id = $2)"
)
_IDS = "'00000000-0000-0000-0000-000000000000'::uuid", "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid"
# each in the order of the one index that has only such jobs: without it the planner may read the table
FIRST_OF: dict[str, str] = {
    "queued": "j.status = 'queued' and j.limited_by is null order by j.queue, j.priority, j.position, j.id",
    "limited": "j.limited_by is not null order by j.limited_by, j.queue, j.priority, j.position, j.id",
    "scheduled": "j.status = 'scheduled' order by j.scheduled_for, j.id",
    "held": "j.status = 'held' order by j.tenant_id, j.train, j.position, j.id",
    "running": "j.status = 'running' order by j.worker_id",
    "waiting": "j.status = 'waiting' order by j.deadline_at, j.id",
    **{
        status: f"j.finished_at is not null and (j.status, j.id) >= ('{status}', {_IDS[0]})"
        f" and (j.status, j.id) <= ('{status}', {_IDS[1]}) order by j.status, j.id"
        for status in FINISHED
    },
}
FIRST_OF_TENANT: dict[str, str] = {
    status: f"j.tenant_id = $1::uuid and (j.status, j.id) >= ('{status}', {_IDS[0]})"
    f" and (j.status, j.id) <= ('{status}', {_IDS[1]}) order by j.status, j.id"
    for status in STATUSES
}


def _some_counts(first: Mapping[str, str], column: str = "", where: str = "") -> str:
    return " union all ".join(
        f"select '{status}', (select count(*)"  # noqa: S608 - texts of this file
        f" from (select {column} from headway.jobs j where {rows} limit $2::integer) j{where})"
        for status, rows in first.items()
    )


_SOME_OF_ALL = _some_counts(FIRST_OF, where=" where $1::uuid is null")
# the default tenant has no index of its own: what it has among the first of each status
_SOME_OF_DEFAULT = _some_counts(FIRST_OF, "j.tenant_id", " where j.tenant_id = $1::uuid")
_SOME_OF_TENANT = _some_counts(FIRST_OF_TENANT)

_ATTEMPT_COLUMNS = Attempt.__struct_fields__[:-1]  # its artifacts are rows of their own


class ReadVerbs:
    def get(self, ids: Sequence[str], *, tenant_id: str | None, raw: bool = False) -> Op[list[Job]]:
        return read(_GET, [list(ids), tenant_id], lambda rows: [job(row, raw) for row in rows])

    def ids_from(self, first: str, last: str, *, limit: int) -> Op[list[str]]:
        return read(
            "select j.id from headway.jobs j where j.id between $1::uuid and $2::uuid order by j.id limit $3::integer",
            [first, last, limit],
            lambda rows: [str(job_id) for (job_id,) in rows],
        )

    def attempts(self, job_id: str, *, tenant_id: str | None, raw: bool = False) -> Op[list[Attempt]]:
        def steps() -> Steps[list[Attempt]]:
            rows = yield Statement(_ATTEMPTS, [job_id, tenant_id])
            stored = [to_artifact(row) for row in (yield Statement(OF_A_JOB, [job_id, tenant_id]))]
            return with_artifacts([_attempt(row, raw) for row in rows], stored)

        return Op(steps, writes=False)

    def results(self, ids: Sequence[str], *, tenant_id: str | None, raw: bool = False) -> Op[dict[str, Outcome]]:
        return read(
            _RESULTS,
            [list(ids), tenant_id],
            lambda rows: {
                job_id: Outcome(status, stored_result(result, spilled, raw=raw), error)
                for job_id, status, result, error, spilled in rows
            },
        )

    def counts(self, *, tenant_id: str | None, most: int | None = None) -> Op[dict[Status, int]]:
        if most is not None:
            sql = {None: _SOME_OF_ALL, DEFAULT_TENANT_ID: _SOME_OF_DEFAULT}.get(tenant_id, _SOME_OF_TENANT)
            return read(sql, [tenant_id, most], partial(_counted, most=most))
        return read(
            "select j.status, count(*) from headway.jobs j"
            " where ($1::uuid is null or j.tenant_id = $1) group by j.status",
            [tenant_id],
            lambda rows: dict(rows),
        )

    def brief(self, ids: Sequence[str]) -> Op[list[Brief]]:
        return read(
            "select j.id, j.tenant_id, j.kind, j.queue, j.status, j.queued_at, j.scheduled_for from headway.jobs j"
            " where j.id = any ($1::uuid[])",
            [list(ids)],
            lambda rows: [Brief(*map(plain, row)) for row in rows],
        )

    def watched(self, log_ends: Mapping[str, int | None], *, tenant_id: str | None) -> Op[list[Watched]]:
        return read(
            "select j.id, j.status, j.fence, j.tries, j.losses, j.queue, j.priority, j.scheduled_for, j.worker_id,"
            " j.cancel_requested_at, j.finished_at, j.progress, j.progress_note, j.step,"
            " j.max_attempts, j.max_losses, j.timeout_ms, j.expires_at, j.log_end,"
            " case when j.log_end is distinct from w.log_end or j.log_end is null then j.log_tail end"
            " from unnest($1::uuid[], $2::integer[]) as w (id, log_end) join headway.jobs j on j.id = w.id"
            " where $3::uuid is null or j.tenant_id = $3",
            [list(log_ends), list(log_ends.values()), tenant_id],
            lambda rows: [
                Watched(**dict(zip(Watched.__struct_fields__, map(plain, row), strict=True))) for row in rows
            ],
        )

    def counts_by_kind(self, *, tenant_id: str | None) -> Op[list[Counted]]:
        return read(
            "select j.queue, j.kind, j.status, count(*) from headway.jobs j"
            " where ($1::uuid is null or j.tenant_id = $1) group by 1, 2, 3 order by 1, 2, 3",
            [tenant_id],
            lambda rows: [Counted(*row) for row in rows],
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
        # asked to see whether the database is there at all, also while every connection is busy
        return read("select headway.now()", [], lambda rows: utc(rows[0][0]), urgent=True)


def _counted(rows: Rows, most: int) -> dict[Status, int]:
    counts: dict[Status, int] = {}
    for name, count in rows:
        status: Status = "queued" if name == "limited" else name
        counts[status] = min(most, counts.get(status, 0) + count)
    return {status: count for status, count in counts.items() if count}


def _attempt(row: Row, raw: bool) -> Attempt:
    fields = dict(zip(_ATTEMPT_COLUMNS, map(utc, row), strict=True))
    fields["state"] = (codec.as_stored if raw else codec.shown)(fields["state"], what="state")
    return Attempt(**fields)
