-- Differs because the running jobs are read once, decided on in Python under the write lock, and written: those that end
-- alike by one statement, the others row by row.

-- part: running
-- started_at may be null if SQL wrote the row with checks off; the last column is evaluated once for all rows
rowid, id, fence, worker_id, coalesce(attempt_started_at, started_at, created_at), log_tail,
cancel_requested_at is not null, cancel_reason,
unique_key, unique_scope, tenant_id || ' ' || queue || ' ' || kind, queued_at,
case
  when partition is not null or concurrency_key is not null or limited = 1 or group_id is not null
    or exists (
      select 1
      from edges
      where parent_id = jobs.id
    )
    or (step is '$flow' and exists (select 1 from edges where child_id = jobs.id and fence = -1 and state = 'pending'))
  then 1
  when train is not null then 2
  else 0
end,
coalesce(step, signaled) is not null,
exists (
  select 1
  from triggers indexed by triggers_engine
  where enabled = 1
    and type = 'event'
    and event >= 'headway.job.'
    and event < 'headway.job/'
)

-- name: running
-- without those whose handlers have committed an outcome: settle_committed ends them
select {running}
from jobs
where id in (select value from json_each(?1))
  and status = 'running'
  and committed is null;

-- name: attempt
insert into attempts (
  job_id, fence, status, started_at, finished_at, worker_id, error, exit_code, stdout_tail, stderr_tail, pid
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- name: attempt_alike
-- the same for many without an error, output or exit code
insert into attempts (job_id, fence, status, started_at, finished_at, worker_id, stdout_tail)
select id, fence, ?2, coalesce(attempt_started_at, started_at, ?3), ?3, worker_id, log_tail
from jobs
where rowid in (select value from json_each(?1));

-- name: finish
update jobs
set status = ?2,
  finished_at = ?3,
  tries = tries + ?4,
  losses = losses + ?5,
  result = ?6,
  error = ?7,
  unique_scope = case when ?8 then replace(unique_scope, '"' || ?2 || '"', '"-' || ?2 || '"') else unique_scope end,
  worker_id = null,
  attempt_started_at = null,
  cancel_requested_at = null,
  cancel_reason = null
where rowid = ?1;

-- name: finish_alike
-- one statement for all: because of the trigger, each statement copies the pages that it changes, and each one releases
-- the interpreter lock and waits for it
update jobs
set status = ?2,
  finished_at = ?3,
  tries = tries + ?4,
  result = null,
  error = null,
  worker_id = null,
  attempt_started_at = null,
  cancel_requested_at = null,
  cancel_reason = null
where rowid in (select value from json_each(?1));

-- name: again
update jobs
set status = ?2,
  scheduled_for = coalesce(?3, scheduled_for),
  queued_at = coalesce(?4, queued_at),
  tries = tries + ?5,
  losses = losses + ?6,
  error = ?7,
  worker_id = null,
  attempt_started_at = null
where rowid = ?1;

-- name: release
-- the execution never started: a job without attempts gets no started_at
update jobs
set status = ?2,
  scheduled_for = coalesce(?3, scheduled_for),
  queued_at = coalesce(?4, queued_at),
  started_at = case
    when started_at = attempt_started_at and not exists (select 1 from attempts where job_id = jobs.id) then null
    else started_at
  end,
  worker_id = null,
  attempt_started_at = null,
  step_fence = step_fence + 1
where rowid = ?1;

-- name: unstart
update jobs
set started_at = null
where rowid = ?1
  and started_at = attempt_started_at
  and not exists (
    select 1
    from attempts
    where job_id = jobs.id
  );

-- name: copy
-- the new job that retries an at_most_once one, at its position; ?5: with a full budget, else the tries go on counting;
-- ?6: why it ends at once
insert into jobs (
  id, tenant_id, kind, queue, status, priority, position, step_fence, tries, losses, max_attempts, max_losses,
  backoff_base_ms, backoff_cap_ms, timeout_ms, delivery, unique_group, unique_key, unique_scope, scheduled_for, expires_at,
  created_at, queued_at, finished_at, error, correlation_id, trace_id, source, source_ref, created_by,
  retry_of, payload, meta, train, on_canceled, on_dead, partition, concurrency, concurrency_key, rate_count,
  rate_period_ms, rate_burst, rate_key, metered, fair, group_id, pending,
  version, step, awaiting, match_all, deadline_at, joining, woken, home_queue, home_partition, forked_from,
  parent_id, signaled, state, template_id, template_revision, trigger_id, tags, began
)
select
  ?2, tenant_id, kind, queue, ?8, priority, coalesce(?10, position),
  case when ?5 then 0 else step_fence - fence end,
  case when ?5 then 0 else tries end,
  case when ?5 then 0 else losses end,
  max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms, delivery, unique_group,
  ?7,
  case
    when ?6 is null then replace(replace(unique_scope, '"-', '"'), '"+', '"')
    else replace(replace(replace(unique_scope, '"-', '"'), '"+', '"'), '"canceled"', '"-canceled"')
  end,
  ?4,
  case when ?5 then null else expires_at end,
  ?3,
  case when ?8 = 'queued' then ?3 end,
  case when ?6 is not null then ?3 end,
  ?6, correlation_id, coalesce(trace_id, replace(id, '-', '')), source, source_ref, created_by,
  id, payload, meta, train, on_canceled, on_dead, partition, concurrency, concurrency_key, rate_count,
  rate_period_ms, rate_burst, rate_key, metered, tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' or exists (select 1 from queues where name = jobs.queue and fair = 1),
  group_id, ?9,
  version, step, awaiting, match_all, deadline_at, joining, woken, home_queue, home_partition, forked_from,
  parent_id, signaled, state, template_id, template_revision, trigger_id, tags,
  case
    when step is not null
    then '{"version":' || coalesce(version, 'null') || coalesce(',"state":' || state, '')
      || ',"joining":' || coalesce(joining, 'null') || '}'
  end
from jobs
where rowid = ?1;
