-- Differs because groups are added up in Python, under the write lock.

-- name: insert
insert into error_deltas (at, tenant_id, queue, kind, job_id, fence, status, dead, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: any
select exists (select 1 from error_deltas);

-- name: take
select seq, at, tenant_id, queue, kind, job_id, fence, status, dead, error
from error_deltas
order by seq
limit ?1;

-- name: delete
delete from error_deltas
where seq <= ?1;

-- name: known
select tenant_id, fingerprint, queue
from errors
where tenant_id in (select value from json_each(?1));

-- name: add
insert into errors (
  tenant_id, fingerprint, queue, kind, status, type, place, count, dead, first_seen_at, last_seen_at, job_id, fence,
  message, sample
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
on conflict (tenant_id, fingerprint, queue) do update
set count = count + excluded.count,
  dead = dead + excluded.dead,
  type = excluded.type,
  place = excluded.place,
  first_seen_at = min(first_seen_at, excluded.first_seen_at),
  last_seen_at = max(last_seen_at, excluded.last_seen_at),
  job_id = excluded.job_id,
  fence = excluded.fence,
  message = excluded.message,
  sample = excluded.sample;

-- name: add_job
-- one that was deleted since needs no entry
insert into job_errors (job_id, tenant_id, fence, fingerprint)
select ?1, ?2, ?3, ?4
where exists (
  select 1
  from jobs
  where id = ?1
)
on conflict (job_id) do update
set fence = excluded.fence,
  fingerprint = excluded.fingerprint
where excluded.fence > fence;

-- part: stored
select
  tenant_id, fingerprint, queue, kind, status, type, place, count, dead, first_seen_at, last_seen_at, job_id, fence,
  message, case when ?2 is null then '' else sample end

-- part: matches
(?3 is null or last_seen_at >= ?3)
and (?4 is null or kind in (select value from json_each(?4)))
and (?5 is null or queue in (select value from json_each(?5)))

-- name: errors
{stored}
from errors indexed by errors_seen
where last_seen_at >= coalesce(?3, -9223372036854775808)
  and {matches}
order by last_seen_at desc
limit ?6;

-- name: errors_of_tenant
{stored}
from errors indexed by errors_tenant
where tenant_id = ?1
  and {matches}
order by last_seen_at desc
limit ?6;

-- name: errors_alike
{stored}
from errors indexed by errors_fingerprint
where fingerprint = ?2
  and (?1 is null or tenant_id = ?1)
  and {matches}
order by last_seen_at desc
limit ?6;

-- name: deltas
select at, tenant_id, queue, kind, job_id, fence, status, dead, error
from error_deltas
where (?1 is null or tenant_id = ?1)
  and (?2 is null or kind in (select value from json_each(?2)))
  and (?3 is null or queue in (select value from json_each(?3)))
order by seq;

-- name: deltas_of_job
select at, tenant_id, queue, kind, job_id, fence, status, dead, error
from error_deltas
where job_id = ?1
  and (?2 is null or tenant_id = ?2)
order by seq desc;

-- name: job
select fingerprint
from job_errors
where job_id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: prune
delete from errors
where rowid in (
  select rowid
  from errors indexed by errors_seen
  where last_seen_at < ?1
  order by last_seen_at
  limit ?2
)
returning 1;
