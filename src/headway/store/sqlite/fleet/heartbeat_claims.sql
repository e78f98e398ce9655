-- Differs because the rows are compared with the given claims in Python, under the write lock.

-- name: worker
select heartbeat_at, lease_expires_at
from workers
where id = ?1;

-- name: running
select id, fence, cancel_requested_at is not null, attempt_started_at, delivery, committed is not null
from jobs
where status = 'running'
  and worker_id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: renew
update workers
set heartbeat_at = ?2,
  lease_expires_at = ?2 + lease_ms * 1000,
  running = ?3
where id = ?1
returning lease_expires_at;
