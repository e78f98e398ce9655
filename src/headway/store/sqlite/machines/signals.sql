-- Differs because a signal wakes the machine that awaits it in the same transaction.

-- name: lock
-- changes nothing, but takes the write lock before the first read: a transaction that has read may not get it later
update counters
set value = value
where name = '';

-- name: by_id
select
  id, rowid, id, tenant_id, jobs.kind, queue, status, step is not null,
  exists (select 1 from attempts where attempts.job_id = jobs.id), awaiting, match_all, unique_key,
  unique_scope
from jobs
where id in (select value from json_each(?1));

-- name: by_key
-- by (tenant, unique group or kind, unique key); the first column is the index in the list
select
  named.key, job.rowid, job.id, job.tenant_id, job.kind, job.queue, job.status, job.step is not null,
  exists (select 1 from attempts where attempts.job_id = job.id),
  job.awaiting, job.match_all, job.unique_key, job.unique_scope
from json_each(?1) as named
join jobs as job
  on job.tenant_id = named.value ->> 0
  and coalesce(job.unique_group, job.kind) = named.value ->> 1
  and job.unique_key = named.value ->> 2
  and instr(job.unique_scope, '"' || job.status || '"') > 0;

-- name: put
insert into signals (id, job_id, tenant_id, name, payload, dedup_key, sent_at, trace_id, created_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
on conflict do nothing
returning id;

-- name: with_id
select id, job_id, tenant_id
from signals
where id in (select value from json_each(?1));

-- name: with_key
select signals.id, signals.job_id, signals.dedup_key
from json_each(?1) as named
join signals
  on signals.job_id = named.value ->> 0
  and signals.dedup_key = named.value ->> 1;

-- name: mark
update jobs
set signaled = 1
where rowid = ?1
  and step is null
  and signaled is null;

-- name: of_job
select
  signals.id, signals.job_id, signals.name, signals.payload, signals.dedup_key, signals.sent_at,
  case
    when signals.fence is not null then 'consumed'
    when jobs.finished_at is not null then 'undelivered'
    else 'pending'
  end,
  signals.consumed_at, signals.fence, signals.created_by
from signals
join jobs
  on jobs.id = signals.job_id
where signals.job_id = ?1
  and (?2 is null or jobs.tenant_id = ?2)
order by signals.seq;
