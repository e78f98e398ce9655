-- name: set
insert into limits (
  scope, name, max_running, rate_count, rate_period_ms, rate_burst, max_pending, max_bytes, max_events, max_schedules,
  max_group, max_fan_out
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
on conflict (scope, name) do update
set max_running = excluded.max_running,
  rate_count = excluded.rate_count,
  rate_period_ms = excluded.rate_period_ms,
  rate_burst = excluded.rate_burst,
  max_pending = excluded.max_pending,
  max_bytes = excluded.max_bytes,
  max_events = excluded.max_events,
  max_schedules = excluded.max_schedules,
  max_group = excluded.max_group,
  max_fan_out = excluded.max_fan_out;

-- name: remove
delete from limits
where scope = ?1
  and name = ?2;

-- name: mark
-- running jobs count from now on
update jobs indexed by jobs_running
set limited = 1
where status = 'running'
  and limited <> 1
  and case ?1
    when 'queue' then queue = ?2
    when 'kind' then kind = ?2
    else ?2 = '*' or tenant_id = ?2
  end;

-- name: meter
-- as many jobs as the limit needs to know of
update jobs
set metered = 1
where rowid in (
  select rowid
  from (
    select rowid, tenant_id
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
    union all
    select rowid, tenant_id
    from jobs indexed by jobs_aside
    where limited_by is not null
    union all
    select rowid, tenant_id
    from jobs indexed by jobs_due
    where status = 'scheduled'
    union all
    select rowid, tenant_id
    from jobs indexed by jobs_listed
    where (status = 'held' or status = 'waiting')
      and status <> 'queued'
      and status <> 'running'
  )
  where ?1 = '*' or tenant_id = ?1
  limit ?2
);

-- name: limit
select
  scope, name, max_running, rate_count, rate_period_ms, rate_burst, max_pending, max_bytes, max_events, max_schedules,
  max_group, max_fan_out
from limits
where scope = ?1
  and name = ?2;

-- name: limits
select
  scope, name, max_running, rate_count, rate_period_ms, rate_burst, max_pending, max_bytes, max_events, max_schedules,
  max_group, max_fan_out
from limits
order by scope, name;

-- name: usage_p
select count(*)
from jobs indexed by jobs_partition
where partition is not null
  and status = 'running'
  and tenant_id = ?1
  and partition = ?2;

-- name: usage_c
select count(*)
from jobs indexed by jobs_limited
where limited > 0
  and status = 'running'
  and kind = ?2
  and tenant_id = ?1
  and concurrency_key = ?3;

-- name: usage_k
-- one tenant's jobs under a kind's limit
select count(*)
from jobs indexed by jobs_limited
where limited > 0
  and status = 'running'
  and kind = ?1
  and tenant_id = ?2;

-- name: usage_q
select count(*)
from jobs indexed by jobs_running
where status = 'running'
  and queue = ?1;

-- name: waiting
select count(*)
from (
  select 1
  from jobs indexed by jobs_aside
  where limited_by = ?1
    and (?2 is null or tenant_id = ?2)
  limit 10000
);
