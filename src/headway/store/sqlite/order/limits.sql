-- Differs because a claim counts and takes under the write lock: there are no gates.

-- name: of_kinds
select name, max_running, rate_count, rate_period_ms, rate_burst
from limits
where scope = 'kind'
  and name in (select value from json_each(?1));

-- name: of_tenants
select name, max_running
from limits
where scope = 'tenant'
  and name in (select value from json_each(?1));

-- name: partitions
-- of these (tenant, partition), those that have a running job
select named.value ->> 0, named.value ->> 1
from json_each(?1) as named
where exists (
  select 1
  from jobs indexed by jobs_partition
  where tenant_id = named.value ->> 0
    and partition = named.value ->> 1
    and status = 'running'
);

-- name: keys
-- what runs under each of these (tenant, kind, concurrency key)
select named.value ->> 0, named.value ->> 1, named.value ->> 2, (
  select count(*)
  from jobs indexed by jobs_limited
  where limited > 0
    and status = 'running'
    and kind = named.value ->> 1
    and tenant_id = named.value ->> 0
    and concurrency_key = named.value ->> 2
)
from json_each(?1) as named;

-- name: kinds
select named.value, (
  select count(*)
  from jobs indexed by jobs_limited
  where limited > 0
    and limited = 1
    and status = 'running'
    and kind = named.value
)
from json_each(?1) as named;

-- name: tenants
select tenant_id, count(*)
from jobs indexed by jobs_limited
where limited > 0
  and limited = 1
  and status = 'running'
  and tenant_id in (select value from json_each(?1))
group by tenant_id;

-- name: buckets
select key, at, tokens, starts
from buckets
where key in (select value from json_each(?1));

-- name: fill
-- what is left of a bucket, and when somebody should look again because some wait for it
insert into buckets (key, tokens, at, full_at, wake_at, starts)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (key) do update
set tokens = excluded.tokens,
  at = excluded.at,
  full_at = excluded.full_at,
  starts = excluded.starts,
  wake_at = coalesce(excluded.wake_at, wake_at);

-- name: due
select key
from buckets indexed by buckets_wake
where wake_at <= ?1
order by wake_at
limit ?2;

-- name: next_wake
select min(wake_at)
from buckets indexed by buckets_wake
where wake_at is not null;

-- name: wake
update buckets
set wake_at = ?2
where key = ?1;

-- name: empty_full
delete from buckets
where key in (
  select key
  from buckets indexed by buckets_full
  where full_at <= ?1
    and wake_at is null
  order by full_at
  limit ?2
);

-- name: first_aside
-- the first of those that wait for each of these keys
select
  job.limited_by, job.queue,
  job.rowid, job.id, job.tenant_id, job.kind, job.partition, job.concurrency, job.concurrency_key, job.rate_count,
  job.rate_period_ms, job.rate_burst, job.rate_key
from json_each(?1) as named
join jobs as job
  on job.rowid = (
    select rowid
    from jobs indexed by jobs_aside
    where limited_by = named.value
    order by queue, priority, position, id
    limit 1
  );

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
-- what runs already counts from now on
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
-- as many as the limit needs to know of
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
-- one tenant's part of a kind's limit
select count(*)
from jobs indexed by jobs_limited
where limited > 0
  and status = 'running'
  and kind = ?1
  and tenant_id = ?2;

-- name: waiting
select count(*)
from (
  select 1
  from jobs indexed by jobs_aside
  where limited_by = ?1
    and (?2 is null or tenant_id = ?2)
  limit 10000
);
