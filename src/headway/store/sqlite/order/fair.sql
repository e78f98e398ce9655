-- Differs because the queue's row records the tenant served last, under the write lock.

-- name: tenants
-- the next tenants that have something to claim, each found by one probe
with recursive ring (tenant_id, n) as (
  select (
    select tenant_id
    from jobs indexed by jobs_fair
    where fair = 1
      and status = 'queued'
      and limited_by is null
      and queue = ?1
      and tenant_id > ?2
    order by tenant_id
    limit 1
  ), 1
  union all
  select (
    select tenant_id
    from jobs indexed by jobs_fair
    where fair = 1
      and status = 'queued'
      and limited_by is null
      and queue = ?1
      and tenant_id > ring.tenant_id
    order by tenant_id
    limit 1
  ), ring.n + 1
  from ring
  where ring.tenant_id is not null
    and ring.n < ?3
)
select tenant_id
from ring
where tenant_id is not null;

-- name: candidates
select {order/capacity.candidate}, {order/capacity.bytes}
from jobs indexed by jobs_fair
where fair = 1
  and status = 'queued'
  and limited_by is null
  and queue = ?1
  and tenant_id = ?2
  and (expires_at is null or expires_at > ?3)
  and (?6 or step is not '$flow')
order by priority, position, id
limit ?4 offset ?5;

-- name: candidates_of_kinds
-- among the first ?6 jobs of the tenant
select {order/capacity.candidate}, {order/capacity.bytes}
from jobs
where rowid in (
    select rowid
    from jobs indexed by jobs_fair
    where fair = 1
      and status = 'queued'
      and limited_by is null
      and queue = ?1
      and tenant_id = ?2
    order by priority, position, id
    limit ?6
  )
  and kind in (select value from json_each(?5))
  and (expires_at is null or expires_at > ?3)
  and (?7 or step is not '$flow')
order by priority, position, id
limit ?4;

-- name: turn
select turn
from queues
where name = ?1;

-- name: set_turn
update queues
set turn = ?2
where name = ?1;

-- part: indexed
-- the jobs of the queue ?2 in the index of tenants
fair = 1
and status = 'queued'
and limited_by is null
and queue = ?2

-- name: changes
select changes();

-- name: set
insert into queues (name, unfair)
values (?1, ?2)
on conflict (name) do update
set unfair = excluded.unfair;

-- name: set_indexed
insert into queues (name, fair)
values (?1, 1)
on conflict (name) do update
set fair = 1;

-- part: mark
update jobs
set fair = 1
where rowid in (
  select rowid

-- name: mark_queued
{mark}
  from jobs indexed by jobs_claim
  where status = 'queued'
    and limited_by is null
    and queue = ?1
    and fair = 0
  limit ?2
);

-- name: mark_limited
{mark}
  from jobs indexed by jobs_aside
  where limited_by is not null
    and queue = ?1
    and fair = 0
  limit ?2
);

-- name: mark_scheduled
{mark}
  from jobs indexed by jobs_due
  where status = 'scheduled'
    and queue = ?1
    and fair = 0
  limit ?2
);

-- name: mark_parked
{mark}
  from jobs indexed by jobs_listed
  where (status = 'held' or status = 'waiting')
    and status <> 'queued'
    and status <> 'running'
    and queue = ?1
    and fair = 0
  limit ?2
);

-- name: mark_running
{mark}
  from jobs indexed by jobs_running
  where status = 'running'
    and queue = ?1
    and fair = 0
  limit ?2
);
