-- name: stats
-- filtered by the index alone: in a table without rowids, each row that the filter drops would be looked up, too
select
  stats.at, stats.tenant_id, stats.queue, stats.kind, enqueued, started, succeeded, failed, retried, dead, canceled,
  lost, waits, runs, depth, oldest_ms
from (
  select tenant_id, span, at, queue, kind
  from stats indexed by stats_at
  where span = ?1
    and at >= ?2
    and at < ?3
    and queue <> ''
    and kind <> ''
    and (?4 is null or queue in (select value from json_each(?4)))
    and (?5 is null or kind in (select value from json_each(?5)))
) as wanted
cross join stats
  on stats.tenant_id = wanted.tenant_id
  and stats.span = wanted.span
  and stats.at = wanted.at
  and stats.queue = wanted.queue
  and stats.kind = wanted.kind;

-- part: busy
-- tenants to which something happened; their rows lie side by side
(
  select distinct tenant_id
  from stats indexed by stats_tenants
  where span = ?1
    and at >= ?2
    and at < ?3
    and queue = ''
    and tenant_id <> '00000000-0000-0000-0000-000000000000'
)

-- part: deaths
min(at), stats.tenant_id, queue, kind, 0, 0, 0, 0, 0, sum(dead), 0, 0, '{}', '{}', null, null

-- name: deaths
-- of each tenant, queue and kind together, at the first of these times
select {deaths}
from {busy} as busy
cross join stats
  on stats.tenant_id = busy.tenant_id
  and span = ?1
  and at >= ?2
  and at < ?3
  and dead > 0
  and queue <> ''
  and kind <> ''
  and (?4 is null or queue in (select value from json_each(?4)))
  and (?5 is null or kind in (select value from json_each(?5)))
group by stats.tenant_id, queue, kind;

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
  and (?4 is null or queue in (select value from json_each(?4)))
  and (?5 is null or kind in (select value from json_each(?5)))
group by stats.tenant_id, queue, kind;

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
  stats.tenant_id, sum(enqueued), sum(started), sum(succeeded), sum(failed), sum(retried), sum(dead), sum(canceled),
  sum(lost), '[' || group_concat(waits) || ']', '[' || group_concat(runs) || ']'
from {busy} as busy
cross join stats
  on stats.tenant_id = busy.tenant_id
  and span = ?1
  and at >= ?2
  and at < ?3
  and queue = ''
group by stats.tenant_id;

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
  and (?4 is null or queue in (select value from json_each(?4)))
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
  and (?4 is null or queue in (select value from json_each(?4)))
  and (?5 is null or kind in (select value from json_each(?5)));

-- name: deltas
select at, tenant_id, queue, kind, enqueued, succeeded, failed, retried, dead, canceled, lost, ended, waits, runs
from stat_deltas
where (?1 is null or queue in (select value from json_each(?1)))
  and (?2 is null or kind in (select value from json_each(?2)))
  and (?3 is null or tenant_id = ?3);
