-- Differs because rows are read, decided on and written one by one under the write lock.

-- name: audit
insert into audit (at, tenant_id, job_id, actor, action, detail)
values (?1, ?2, ?3, ?4, ?5, ?6);

-- name: finished
select
  rowid, id, tenant_id, kind, delivery, fence, position, unique_key, unique_scope, status
from jobs
where id in (select value from json_each(?1))
  and (?2 is null or tenant_id = ?2)
  and finished_at is not null;

-- name: retried_by
select id
from jobs
where retry_of = ?1;

-- name: retry
update jobs
set status = 'queued',
  queued_at = ?2,
  position = coalesce(position, ?3),
  tries = 0,
  losses = 0,
  scheduled_for = null,
  expires_at = null,
  finished_at = null,
  cancel_requested_at = null,
  cancel_reason = null,
  result = null
where rowid = ?1;

-- name: drop_key
update jobs
set unique_key = null
where rowid = ?1;

-- name: changing
select
  rowid, tenant_id, status, fence, position, unique_key, unique_scope,
  priority, queue, max_attempts, max_losses, timeout_ms, scheduled_for, expires_at, payload
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: change
update jobs
set status = ?2,
  position = ?3,
  queued_at = coalesce(?4, queued_at),
  priority = ?5,
  queue = ?6,
  max_attempts = ?7,
  max_losses = ?8,
  timeout_ms = ?9,
  scheduled_for = ?10,
  expires_at = ?11,
  payload = ?12
where rowid = ?1;
