"""Vitals: how the database and its fleet are right now."""

from __future__ import annotations

from headway.model.vitals import MOST_COUNTED, Condition, Depth, Vitals
from headway.store.ops import Op, Statement, Steps
from headway.store.postgres.engine.verbs import read

# each by an index that has only such jobs, and no further than $1; dead ones are those that wait for an operator
WHERE = (
    "j.status = 'queued' and j.limited_by is null",
    "j.limited_by is not null and j.status = 'queued'",
    "j.status = 'scheduled'",
    "j.status = 'held'",
    "j.status = 'waiting'",
    "j.status = 'running'",
    "j.status = 'dead' and j.finished_at is not null",
)
_EACH = " union all ".join(
    "(select j.tenant_id, j.queue, j.status, j.queued_at from headway.jobs j"  # noqa: S608 - texts of this file
    f" where {where} limit $1::integer)"
    for where in WHERE
)
DEPTHS = f"""
select j.tenant_id::text, j.queue, j.status, count(*),
       (extract(epoch from headway.now() - min(j.queued_at) filter (where j.status = 'queued')) * 1000)::float8
  from ({_EACH}) j
 group by 1, 2, 3
"""  # noqa: S608 - texts of this file
_REST = """
with t as (select headway.now() as now)
select (select count(*) from headway.workers w where w.lease_expires_at > t.now),
       (select extract(epoch from t.now - min(w.heartbeat_at)) * 1000 from headway.workers w
         where w.lease_expires_at > t.now)::float8,
       (select extract(epoch from t.now - min(r.next_fire_at)) * 1000 from headway.triggers r
         where r.enabled and r.type = 'schedule' and r.next_fire_at is not null)::float8,
       (select extract(epoch from t.now - e.emitted_at) * 1000 from headway.events e
         where e.status = 'pending' order by e.id limit 1)::float8,
       (select extract(epoch from clock_timestamp() - min(a.xact_start)) * 1000 from pg_stat_activity a
         where a.datname = current_database() and a.pid <> pg_backend_pid())::float8,
       pg_database_size(current_database()),
       has_function_privilege('pg_ls_waldir()', 'execute')
  from t
"""
_WAL = "select coalesce(sum(w.size), 0)::bigint from pg_ls_waldir() w"
_CONDITION = """
select (select extract(epoch from clock_timestamp() - min(a.xact_start)) * 1000 from pg_stat_activity a
         where a.datname = current_database() and a.pid <> pg_backend_pid())::float8,
       -- it refuses to write three million ids before they wrap around
       (select age(d.datfrozenxid) / (2147483648.0 - 3000000) from pg_database d
         where d.datname = current_database())::float8
"""


class VitalVerbs:
    def vitals(self) -> Op[Vitals]:
        def steps() -> Steps[Vitals]:
            depths = yield Statement(DEPTHS, [MOST_COUNTED])
            ((workers, heartbeat, due, emitted, transaction, size, may_see_wal),) = yield Statement(_REST, [])
            wal = (yield Statement(_WAL))[0][0] if may_see_wal else None
            return Vitals(
                depths=[
                    Depth(tenant_id, queue, status, count, None if oldest is None else max(0.0, oldest))
                    for tenant_id, queue, status, count, oldest in depths
                ],
                workers=workers,
                heartbeat_ms=heartbeat,
                schedule_lag_ms=max(0.0, due or 0.0),
                event_lag_ms=max(0.0, emitted or 0.0),
                oldest_transaction_ms=max(0.0, transaction or 0.0),
                database_bytes=size,
                wal_bytes=wal,
            )

        return Op(steps, writes=False)

    def condition(self) -> Op[Condition]:
        return read(_CONDITION, [], lambda rows: Condition(oldest_transaction_ms=rows[0][0], ids_used=rows[0][1]))
