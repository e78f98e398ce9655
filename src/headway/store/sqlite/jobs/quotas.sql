-- Differs because writers are serial: a check after the insert sees everything.

-- name: of
-- the quotas of these tenants: their own, else those of every tenant
select
  named.value, coalesce(tenants.slug, named.value), limits.max_pending, limits.max_bytes, limits.max_events,
  limits.max_schedules, limits.max_group, limits.max_fan_out, limits.suspended
from json_each(?1) as named
join limits
  on limits.scope = 'tenant'
  and limits.name = coalesce(
    (select own.name from limits as own where own.scope = 'tenant' and own.name = named.value), '*'
  )
left join tenants
  on tenants.id = named.value;

-- name: pending
select count(*)
from (
  select 1
  from jobs indexed by jobs_metered
  where tenant_id = ?1
    and metered = 1
    and finished_at is null
    and status <> 'running'
  limit ?2
);

-- name: bytes
-- of payloads in rows, and of those that rows refer to
select coalesce(sum(
  length(cast(payload as blob))
  + iif(
    substr(payload, 1, 14) = '{"$artifact":"',
    coalesce((
      select size
      from artifacts
      where job_id = jobs.id
        and fence = 0
        and jobs.payload = '{"$artifact":"' || artifacts.id || '"}'
    ), 0),
    0
  )
), 0)
from jobs indexed by jobs_metered
where tenant_id = ?1
  and metered = 1
  and finished_at is null
  and status <> 'running';

-- name: events
select count(*)
from (
  select 1
  from events indexed by events_turn
  where tenant_id = ?1
    and status = 'pending'
  limit ?2
);

-- name: schedules
select count(*)
from triggers
where tenant_id = ?1;

-- name: full_group
select named.value
from json_each(?1) as named
where (
  select count(*)
  from (select 1 from jobs where group_id = named.value limit ?2 + 1)
) > ?2
order by named.value
limit 1;

-- name: fanned_out
select named.value
from json_each(?1) as named
where (
  select count(*)
  from (select 1 from edges where parent_id = named.value and fence = 0 limit ?2 + 1)
) > ?2
order by named.value
limit 1;
