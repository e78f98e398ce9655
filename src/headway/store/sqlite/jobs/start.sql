-- Differs because nothing is locked row by row.

-- part: running
status = 'running',
fence = fence + 1,
worker_id = ?1,
started_at = coalesce(started_at, ?3),
attempt_started_at = ?3,
progress = null,
progress_note = null,
log_tail = null,
log_end = null

-- part: claim
-- a Claim's columns; whether others may wait for its end; whether it may have a checkpoint
-- coalesce, because SQLite 3.40 gets `column is not null` wrong in a returning clause
id, tenant_id, kind, queue, payload, fence, tries, losses, max_attempts, max_losses,
backoff_base_ms, backoff_cap_ms, timeout_ms, delivery, correlation_id, trace_id, meta,
fence - step_fence, coalesce(train, partition, group_id, parent_id) is not null or limited > 0,
coalesce(step, signaled, parent_id) is not null

-- name: first
-- or ignore: a job that would enter a taken unique scope stays queued
update or ignore jobs
set {running},
  limited = 0
where rowid in (
  select rowid
  from jobs
  where status = 'queued'
    and limited_by is null
    and queue = ?2
    and (expires_at is null or expires_at > ?3)
  order by priority, position, id
  limit ?4
)
returning priority, position, {claim};

-- name: these
update or ignore jobs
set {running},
  limited = ?4,
  limited_by = null
where rowid in (select value from json_each(?2))
returning rowid, {claim};
