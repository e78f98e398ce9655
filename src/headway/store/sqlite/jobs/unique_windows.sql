-- Differs because windows are looked up before the insert and written after it, under the write lock.

-- name: open
-- by (tenant, unique group or kind, unique key): the job whose window it is, unless that was deleted
select named.key, jobs.id, jobs.status
from json_each(?1) as named
join unique_windows
  on unique_windows.tenant_id = named.value ->> 0
  and unique_windows.scope = named.value ->> 1
  and unique_windows.key = named.value ->> 2
  and unique_windows.until > ?2
join jobs
  on jobs.id = unique_windows.job_id;

-- name: window
select unique_windows.until
from jobs
join unique_windows
  on unique_windows.tenant_id = jobs.tenant_id
  and unique_windows.scope = coalesce(jobs.unique_group, jobs.kind)
  and unique_windows.key = jobs.unique_key
  and unique_windows.job_id = jobs.id
  and unique_windows.until > ?2
where jobs.id = ?1;

-- name: write
insert into unique_windows (tenant_id, scope, key, job_id, until)
values (?1, ?2, ?3, ?4, ?5)
on conflict (tenant_id, scope, key) do update
set job_id = excluded.job_id,
  until = excluded.until;

-- name: probe
select exists (
  select 1
  from unique_windows indexed by unique_windows_until
  where until <= ?1
);

-- name: prune
delete from unique_windows
where (tenant_id, scope, key) in (
  select tenant_id, scope, key
  from unique_windows indexed by unique_windows_until
  where until <= ?1
  order by until
  limit ?2
)
returning job_id;
