-- Differs because the row is read and decided on in Python, under the write lock.

-- name: flow
select rowid, tenant_id, kind, step, status, fence, position, unique_key, unique_scope
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: queue
update jobs
set status = 'queued',
  queued_at = ?2,
  scheduled_for = ?2,
  position = ?3
where rowid = ?1;
