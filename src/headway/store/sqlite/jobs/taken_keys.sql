-- Differs because existing jobs are looked up, decided on in Python and written one by one, under the write lock.

-- name: newest
-- the rows inserted last have the highest rowids
select id
from jobs
where rowid > (select max(rowid) from jobs) - ?1;

-- name: by_idempotency_key
-- by (tenant, kind, idempotency key); the first column is the index in the list
select named.key, job.id, job.status
from json_each(?1) as named
join jobs as job
  on job.tenant_id = named.value ->> 0
  and job.kind = named.value ->> 1
  and job.idempotency_key = named.value ->> 2;

-- part: replaced
job.payload, job.version, job.step, job.state, job.scheduled_for, job.priority, job.queue, job.home_queue,
job.expires_at, job.max_attempts, job.max_losses, job.backoff_base_ms, job.backoff_cap_ms, job.timeout_ms, job.meta,
job.tags, job.partition, job.home_partition, job.concurrency, job.concurrency_key, job.rate_count,
job.rate_period_ms, job.rate_burst, job.rate_key

-- name: by_unique_key
-- by (tenant, unique group or kind, unique key): who holds it, and who is in line for it
select
  named.key, job.rowid, job.id, job.status, job.fence, coalesce(job.retry_of, job.forked_from) is not null,
  instr(job.unique_scope, '"' || job.status || '"') = 0, job.position, job.created_at, job.replacement_id,
  {replaced}
from json_each(?1) as named
join jobs as job
  on job.tenant_id = named.value ->> 0
  and coalesce(job.unique_group, job.kind) = named.value ->> 1
  and job.unique_key = named.value ->> 2
  and (
    instr(job.unique_scope, '"' || job.status || '"') > 0 or instr(job.unique_scope, '"+' || job.status || '"') > 0
  );

-- name: replace
update jobs
set status = ?2,
  position = ?3,
  queued_at = case when ?2 = 'queued' and status <> 'queued' then ?4 else queued_at end,
  replacement_id = ?5,
  limited_by = case when ?2 = 'queued' and not ?6 then limited_by end,
  fair = case when queue = ?13 then fair else tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' or exists (select 1 from queues where name = ?13 and fair = 1) end,
  payload = ?7,
  version = ?8,
  step = ?9,
  state = ?10,
  scheduled_for = ?11,
  priority = ?12,
  queue = ?13,
  home_queue = ?14,
  expires_at = ?15,
  max_attempts = ?16,
  max_losses = ?17,
  backoff_base_ms = ?18,
  backoff_cap_ms = ?19,
  timeout_ms = ?20,
  meta = ?21,
  tags = ?22,
  partition = ?23,
  home_partition = ?24,
  concurrency = ?25,
  concurrency_key = ?26,
  rate_count = ?27,
  rate_period_ms = ?28,
  rate_burst = ?29,
  rate_key = ?30
where rowid = ?1;
