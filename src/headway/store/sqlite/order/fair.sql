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
order by priority, position, id
limit ?4 offset ?5;

-- name: turn
select turn
from queues
where name = ?1;

-- name: set_turn
update queues
set turn = ?2
where name = ?1;

-- name: set
insert into queues (name, fair)
values (?1, ?2)
on conflict (name) do update
set fair = excluded.fair;

-- name: mark_queued
update jobs indexed by jobs_claim
set fair = ?2
where status = 'queued'
  and limited_by is null
  and queue = ?1
  and fair <> ?2;

-- name: mark_limited
update jobs indexed by jobs_aside
set fair = ?2
where limited_by is not null
  and queue = ?1
  and fair <> ?2;

-- name: mark_scheduled
update jobs indexed by jobs_due
set fair = ?2
where status = 'scheduled'
  and queue = ?1
  and fair <> ?2;

-- name: mark_parked
update jobs indexed by jobs_listed
set fair = ?2
where (status = 'held' or status = 'waiting')
  and status <> 'queued'
  and status <> 'running'
  and queue = ?1
  and fair <> ?2;

-- name: mark_running
update jobs indexed by jobs_running
set fair = ?2
where status = 'running'
  and queue = ?1
  and fair <> ?2;
