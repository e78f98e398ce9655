-- Differs because rows are read, decided on in Python and written one by one, under the write lock.

-- name: changing
select
  rowid, tenant_id, status, fence, position, unique_key, unique_scope, tags, step is not null, meta,
  priority, queue, max_attempts, max_losses, timeout_ms, scheduled_for, expires_at, payload
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: meta
update jobs
set meta = ?2
where rowid = ?1;

-- name: tags
update jobs
set tags = ?2
where rowid = ?1;

-- name: change
update jobs
set status = ?2,
  position = ?3,
  queued_at = coalesce(?4, queued_at),
  priority = ?5,
  limited_by = case when ?2 = 'queued' and queue = ?6 then limited_by end,
  fair = case when queue = ?6 then fair else tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' or exists (select 1 from queues where name = ?6 and fair = 1) end,
  queue = ?6,
  max_attempts = ?7,
  max_losses = ?8,
  timeout_ms = ?9,
  scheduled_for = ?10,
  expires_at = ?11,
  payload = ?12
where rowid = ?1;
