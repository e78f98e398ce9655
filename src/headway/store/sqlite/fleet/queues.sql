-- Differs because a worker's queues are JSON text, read by json_each.

-- name: queues
select
  named.name, queues.paused_at, queues.paused_by, coalesce(queues.fair, 0), limits.max_running, reservations.holder,
  reservations.expires_at, queues.retention
from (
  select name
  from queues
  union
  select name
  from limits
  where scope = 'queue'
  union
  select queue
  from reservations
  where expires_at > ?1
) as named
left join queues
  on queues.name = named.name
left join limits
  on limits.scope = 'queue'
  and limits.name = named.name
left join reservations
  on reservations.queue = named.name
  and reservations.expires_at > ?1
where queues.paused_at is not null
  or queues.guarded = 0
  or queues.fair = 1
  or queues.retention is not null
  or limits.name is not null
  or reservations.queue is not null;

-- name: counts
select queue, 'queued', count(*), min(queued_at)
from jobs indexed by jobs_claim
where status = 'queued'
  and limited_by is null
  and (?1 is null or tenant_id = ?1)
group by queue
union all
select queue, 'limited', count(*), min(queued_at)
from jobs indexed by jobs_aside
where limited_by is not null
  and (?1 is null or tenant_id = ?1)
group by queue
union all
select queue, 'scheduled', count(*), null
from jobs indexed by jobs_due
where status = 'scheduled'
  and (?1 is null or tenant_id = ?1)
group by queue
union all
select queue, 'running', count(*), null
from jobs indexed by jobs_running
where status = 'running'
  and (?1 is null or tenant_id = ?1)
group by queue
union all
select queue, status, count(*), null
from jobs indexed by jobs_listed
where (status = 'held' or status = 'waiting')
  and status <> 'queued'
  and status <> 'running'
  and (?1 is null or tenant_id = ?1)
group by queue, status;

-- name: queued
-- a skip scan over the names, and of each the first ?2 in its line
with recursive named (name) as (
  select min(queue)
  from jobs indexed by jobs_claim
  where status = 'queued'
    and limited_by is null
  union all
  select (
    select min(queue)
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
      and queue > named.name
  )
  from named
  where named.name is not null
)
select waiting.queue, 'queued', count(*), min(waiting.queued_at)
from named
cross join jobs as waiting
where waiting.rowid in (
    select rowid
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
      and queue = named.name
    order by priority, position, id
    limit ?2
  )
  and (?1 is null or waiting.tenant_id = ?1)
group by waiting.queue
union all
select queue, 'limited', count(*), min(queued_at)
from (
  select tenant_id, queue, queued_at
  from jobs indexed by jobs_aside
  where limited_by is not null
  limit ?2
)
where ?1 is null
  or tenant_id = ?1
group by queue;

-- name: workers
select served.key, workers.kinds
from workers
join json_each(workers.queues) as served
where workers.lease_expires_at > ?1
  and (?2 is null or coalesce(json_extract(workers.metadata, '$.tenant'), ?2) = ?2);

-- name: pause
insert into queues (name, paused_at, paused_by)
values (?1, ?2, ?3)
on conflict (name) do update
set paused_at = excluded.paused_at,
  paused_by = excluded.paused_by
where paused_at is null;

-- name: resume
update queues
set paused_at = null,
  paused_by = null
where name = ?1
  and paused_at is not null;

-- name: set_retention
insert into queues (name, retention)
values (?1, ?2)
on conflict (name) do update
set retention = excluded.retention;
