-- Differs because a worker's queues are JSON text, read by json_each.

-- name: queues
select
  named.name, queues.paused_at, queues.paused_by, coalesce(queues.unfair, 0), limits.max_running, reservations.holder,
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
  -- a row that says more than that jobs had limits, or that several tenants use the queue
  or queues.guarded = 0 and queues.fair = 0
  or queues.unfair = 1
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

-- part: queued_names
-- the queues that have something to claim, and null at the end: a skip scan, instead of a scan over all queued jobs
queued (name) as (
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
      and queue > queued.name
  )
  from queued
  where queued.name is not null
)

-- part: next_line
-- of the same queue, by the next priority
select queue, (
  select min(priority)
  from jobs indexed by jobs_claim
  where status = 'queued'
    and limited_by is null
    and queue = lines.queue
    and priority > lines.priority
)
from lines
where priority is not null

-- part: queued_in_lines
select queue, 'queued', case
  when ?2 is null then (
    select count(*)
    from (
      select 1
      from jobs indexed by jobs_claim
      where status = 'queued'
        and limited_by is null
        and queue = lines.queue
        and priority = lines.priority
      limit ?1
    )
  )
  else (
    select count(*)
    from (
      select tenant_id
      from jobs indexed by jobs_claim
      where status = 'queued'
        and limited_by is null
        and queue = lines.queue
        and priority = lines.priority
      limit ?1
    )
    where tenant_id = ?2
  )
end as queued, (
  select queued_at
  from jobs indexed by jobs_claim
  where status = 'queued'
    and limited_by is null
    and queue = lines.queue
    and priority = lines.priority
    and (?2 is null or tenant_id = ?2)
  order by position, id
  limit 1
)
from lines
where priority is not null
  and queued > 0

-- name: some_queued
-- of each queue and priority the first ?1 in the order of claims, and when the first of them was queued; with a tenant
-- (?2), only its own among those
with recursive {queued_names},
lines (queue, priority) as (
  select name, (
    select min(priority)
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
      and queue = queued.name
  )
  from queued
  where name is not null
  union all
  {next_line}
  limit 10000
)
{queued_in_lines};

-- name: some_queued_in
-- the same of the queues of these names (?3)
with recursive lines (queue, priority) as (
  select value, (
    select min(priority)
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
      and queue = json_each.value
  )
  from json_each(?3)
  union all
  {next_line}
)
{queued_in_lines};

-- name: some_others
-- of each other status the first ?2, but at least 1,000 that limits have set aside: that a queue has some is reported
-- however few are counted; with a tenant (?1), only its own among those
select queue, status, count(*), min(queued_at)
from (
  select queue, status, queued_at, tenant_id
  from (
    select queue, 'limited' as status, queued_at, tenant_id
    from jobs indexed by jobs_aside
    where limited_by is not null
    limit max(?2, 1000)
  )
  union all
  select queue, status, null, tenant_id
  from (
    select queue, status, tenant_id
    from jobs indexed by jobs_running
    where status = 'running'
    limit ?2
  )
  union all
  select queue, status, null, tenant_id
  from (
    select queue, status, tenant_id
    from jobs indexed by jobs_listed
    where status = 'scheduled'
      and status <> 'queued'
      and status <> 'running'
    limit ?2
  )
  union all
  select queue, status, null, tenant_id
  from (
    select queue, status, tenant_id
    from jobs indexed by jobs_listed
    where status = 'held'
      and status <> 'queued'
      and status <> 'running'
    limit ?2
  )
  union all
  select queue, status, null, tenant_id
  from (
    select queue, status, tenant_id
    from jobs indexed by jobs_listed
    where status = 'waiting'
      and status <> 'queued'
      and status <> 'running'
    limit ?2
  )
)
where ?1 is null or tenant_id = ?1
group by queue, status;

-- name: some_of_tenant
-- the first ?2 of each status
select queue, status, count(*), min(queued_at)
from (
  select queue, iif(limited_by is null, status, 'limited') as status, iif(status = 'queued', queued_at, null) as queued_at
  from jobs
  where jobs.rowid in (
    select rowid
    from (
      select rowid
      from jobs indexed by jobs_tenant
      where tenant_id = ?1
        and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
        and status = 'queued'
      limit ?2
    )
    union all
    select rowid
    from (
      select rowid
      from jobs indexed by jobs_tenant
      where tenant_id = ?1
        and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
        and status = 'scheduled'
      limit ?2
    )
    union all
    select rowid
    from (
      select rowid
      from jobs indexed by jobs_tenant
      where tenant_id = ?1
        and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
        and status = 'held'
      limit ?2
    )
    union all
    select rowid
    from (
      select rowid
      from jobs indexed by jobs_tenant
      where tenant_id = ?1
        and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
        and status = 'waiting'
      limit ?2
    )
    union all
    select rowid
    from (
      select rowid
      from jobs indexed by jobs_tenant
      where tenant_id = ?1
        and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
        and status = 'running'
      limit ?2
    )
  )
)
group by queue, status;

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

-- name: retention
select retention
from queues
where name = ?1;

-- name: set_retention
insert into queues (name, retention)
values (?1, ?2)
on conflict (name) do update
set retention = excluded.retention;
