-- Signals. Differs because who sends one wakes the machine that waits for it, in the same transaction.

-- name: lock
-- changes nothing, but takes the write lock before anything is read: in a caller's transaction it could not be had later
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
-- each named by tenant, kind and unique key; the first column is its place in the list
select
  named.key, job.rowid, job.id, job.tenant_id, job.kind, job.queue, job.status, job.step is not null,
  exists (select 1 from attempts where attempts.job_id = job.id),
  job.awaiting, job.match_all, job.unique_key, job.unique_scope
from json_each(?1) as named
join jobs as job
  on job.tenant_id = named.value ->> 0
  and job.kind = named.value ->> 1
  and job.unique_key = named.value ->> 2
  and instr(job.unique_scope, '"' || job.status || '"') > 0;

-- name: put
insert into signals (id, job_id, tenant_id, name, payload, dedup_key, sent_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict do nothing
returning id;

-- name: with_id
select id, job_id
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

-- name: mark_id
update jobs
set signaled = 1
where id = ?1
  and step is null;

-- name: consume
update signals
set fence = ?3,
  consumed_at = ?4
where id = ?1
  and job_id = ?2
  and fence is null;

-- name: inbox
-- what nobody consumed yet, in order of arrival
select job_id, seq, name
from signals indexed by signals_job
where job_id in (select value from json_each(?1))
  and fence is null
order by job_id, seq;

-- name: received
select seq, job_id, id, name, payload, sent_at, dedup_key
from signals
where seq in (select value from json_each(?1));

-- name: names
select distinct job_id, name
from signals indexed by signals_job
where job_id in (select value from json_each(?1))
  and fence is null;

-- name: move
update signals
set job_id = ?2
where job_id = ?1
  and fence is null;

-- name: prune
delete from signals
where job_id = ?1;

-- name: of_job
select
  signals.id, signals.job_id, signals.name, signals.payload, signals.dedup_key, signals.sent_at,
  case
    when signals.fence is not null then 'consumed'
    when jobs.finished_at is not null then 'undelivered'
    else 'pending'
  end,
  signals.consumed_at, signals.fence
from signals
join jobs
  on jobs.id = signals.job_id
where signals.job_id = ?1
  and (?2 is null or jobs.tenant_id = ?2)
order by signals.seq;

-- name: give_back
-- what the execution consumed that ended a machine, which is retried
update signals
set fence = null,
  consumed_at = null
where job_id = ?1
  and fence = ?2;

-- name: began
-- where a fork begins; the state stays as it was written
update jobs
set began = '{"version":' || coalesce(version, 'null') || coalesce(',"state":' || state, '')
  || ',"joining":' || coalesce(joining, 'null') || coalesce(',"joined":"' || ?2 || '"', '') || '}'
where id = ?1;
