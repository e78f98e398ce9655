-- Differs because the write lock makes skip locked needless, and because an empty queue is found by a read alone.

-- name: probe
select
  exists (
    select 1
    from workers
    where id = ?1
  ),
  exists (
    select 1
    from queues
    where name = ?2
      and paused_at is not null
  ),
  exists (
    select 1
    from jobs
    where status = 'queued'
      and queue = ?2
      and (expires_at is null or expires_at > ?3)
  );

-- name: take
-- or ignore: a job that would enter a unique scope now taken stays behind, for `left`
update or ignore jobs
set status = 'running',
  fence = fence + 1,
  worker_id = ?1,
  started_at = coalesce(started_at, ?3),
  attempt_started_at = ?3,
  progress = null,
  progress_note = null,
  log_tail = null
where rowid in (
  select rowid
  from jobs
  where status = 'queued'
    and queue = ?2
    and (expires_at is null or expires_at > ?3)
  order by priority, position, id
  limit ?4
)
returning
  priority, position, id, tenant_id, kind, queue, payload, fence, tries, losses, max_attempts, max_losses,
  backoff_base_ms, backoff_cap_ms, timeout_ms, delivery, correlation_id, trace_id, meta;

-- name: left
-- of the first that are still queued, those that enter their unique scope only by running
select rowid, id, unique_key
from (
  select rowid, id, unique_key, unique_scope
  from jobs
  where status = 'queued'
    and queue = ?1
    and (expires_at is null or expires_at > ?2)
  order by priority, position, id
  limit ?3
)
where unique_key is not null
  and instr(unique_scope, '"running"') > 0
  and instr(unique_scope, '"queued"') = 0;

-- name: running
select id, fence
from jobs
where status = 'running'
  and worker_id = ?1;

-- name: report
update jobs
set progress = coalesce(?3, progress),
  progress_note = coalesce(?4, progress_note),
  log_tail = coalesce(?5, log_tail)
where id = ?1
  and fence = ?2
  and status = 'running';

-- name: canceling
select id, fence
from jobs
where status = 'running'
  and worker_id = ?1
  and cancel_requested_at is not null;
