-- name: candidates
select
  rowid, id, tenant_id, kind, partition, concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst, rate_key
from jobs
where status = 'queued'
  and limited_by is null
  and queue = ?1
  and (expires_at is null or expires_at > ?2)
order by priority, position, id
limit ?3;

-- name: candidate
select
  rowid, id, tenant_id, kind, partition, concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst, rate_key
from jobs
where id = ?1
  and status = 'queued'
  and (expires_at is null or expires_at > ?2);

-- name: take
update or ignore jobs
set status = 'running',
  fence = fence + 1,
  worker_id = ?1,
  started_at = coalesce(started_at, ?3),
  attempt_started_at = ?3,
  limited = ?4,
  limited_by = null,
  progress = null,
  progress_note = null,
  log_tail = null,
  log_end = null
where rowid in (select value from json_each(?2))
returning
  rowid, id, tenant_id, kind, queue, payload, fence, tries, losses, max_attempts, max_losses,
  backoff_base_ms, backoff_cap_ms, timeout_ms, delivery, correlation_id, trace_id, meta,
  fence - step_fence, coalesce(train, partition, group_id, parent_id) is not null or limited > 0,
  coalesce(step, signaled, parent_id) is not null;
