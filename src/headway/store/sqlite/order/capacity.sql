-- Differs because a claim counts and starts under the write lock: there are no gates.

-- part: candidate
jobs.rowid, jobs.id, tenant_id, kind, partition, concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst, rate_key

-- part: bytes
-- of a claim: payload, state, and a machine's unread signals
length(cast(jobs.payload as blob)) + coalesce(length(cast(state as blob)), 0)
+ case when coalesce(step, signaled) is null then 0 else {machines/inbox.bytes} end

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
-- a bucket's tokens, and when it has one again for jobs that wait for it
insert into buckets (key, tokens, at, full_at, wake_at, starts)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (key) do update
set tokens = excluded.tokens,
  at = excluded.at,
  full_at = excluded.full_at,
  starts = excluded.starts,
  wake_at = coalesce(excluded.wake_at, wake_at);

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
