-- name: stats
select
  at, tenant_id, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs, depth,
  oldest_ms
from stats indexed by stats_at
where span = ?1
  and at >= ?2
  and at < ?3
  and (?4 is null or queue = ?4)
  and (?5 is null or kind = ?5);

-- name: stats_of_tenant
select
  at, tenant_id, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs, depth,
  oldest_ms
from stats
where tenant_id = ?6
  and span = ?1
  and at >= ?2
  and at < ?3
  and (?4 is null or queue = ?4)
  and (?5 is null or kind = ?5);

-- name: deltas
select at, tenant_id, queue, kind, enqueued, succeeded, failed, retried, dead, canceled, lost, ended, waits, runs
from stat_deltas
where (?1 is null or queue = ?1)
  and (?2 is null or kind = ?2)
  and (?3 is null or tenant_id = ?3);
