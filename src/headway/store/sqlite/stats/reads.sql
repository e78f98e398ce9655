-- name: stats
select
  at, tenant_id, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs, depth,
  oldest_ms
from stats indexed by stats_at
where span = ?1
  and at >= ?2
  and at < ?3
  and queue <> ''
  and kind <> ''
  and (?4 is null or queue = ?4)
  and (?5 is null or kind = ?5);

-- part: deaths
min(at), tenant_id, queue, kind, 0, 0, 0, 0, 0, sum(dead), 0, 0, '{}', '{}', null, null

-- name: deaths
-- of each tenant, queue and kind together, at the first of these times
select {deaths}
from stats indexed by stats_at
where span = ?1
  and at >= ?2
  and at < ?3
  and dead > 0
  and queue <> ''
  and kind <> ''
  and (?4 is null or queue = ?4)
  and (?5 is null or kind = ?5)
group by tenant_id, queue, kind;

-- name: deaths_of_tenant
select {deaths}
from stats
where tenant_id = ?6
  and span = ?1
  and at >= ?2
  and at < ?3
  and dead > 0
  and queue <> ''
  and kind <> ''
  and (?4 is null or queue = ?4)
  and (?5 is null or kind = ?5)
group by tenant_id, queue, kind;

-- name: stats_of_tenants
select
  at, tenant_id, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs, depth,
  oldest_ms
from stats indexed by stats_tenants
where span = ?1
  and at >= ?2
  and at < ?3
  and queue = ''
  and tenant_id <> '00000000-0000-0000-0000-000000000000';

-- name: side_by_side
-- each tenant's minutes together; the histograms as lists, which take longer to add up in SQL
select
  tenant_id, sum(enqueued), sum(started), sum(succeeded), sum(failed), sum(retried), sum(dead), sum(canceled),
  sum(lost), '[' || group_concat(waits) || ']', '[' || group_concat(runs) || ']'
from stats indexed by stats_tenants
where span = 'minute'
  and at >= ?1
  and at < ?2
  and queue = ''
  and tenant_id <> '00000000-0000-0000-0000-000000000000'
group by tenant_id;

-- name: last_samples
select tenant_id, depth, oldest_ms
from stats indexed by stats_tenants
where span = 'minute'
  and at >= ?1
  and at < ?2
  and at > ?3
  and queue = ''
  and tenant_id <> '00000000-0000-0000-0000-000000000000'
  and depth is not null
order by at;

-- name: sums
-- of a tenant or of all: by queue if ?4 is given or ?7 is 1, else in all
select
  at, tenant_id, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs, depth,
  oldest_ms
from stats
where tenant_id = ?6
  and span = ?1
  and at >= ?2
  and at < ?3
  and kind = ''
  and (queue <> '') = ?7
  and (?4 is null or queue = ?4)
  and ?5 is null;

-- name: stats_of_tenant
select
  at, tenant_id, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs, depth,
  oldest_ms
from stats
where tenant_id = ?6
  and span = ?1
  and at >= ?2
  and at < ?3
  and queue <> ''
  and (?4 is null or queue = ?4)
  and (?5 is null or kind = ?5);

-- name: deltas
select at, tenant_id, queue, kind, enqueued, succeeded, failed, retried, dead, canceled, lost, ended, waits, runs
from stat_deltas
where (?1 is null or queue = ?1)
  and (?2 is null or kind = ?2)
  and (?3 is null or tenant_id = ?3);
