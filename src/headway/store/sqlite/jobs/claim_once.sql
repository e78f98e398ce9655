-- Differs because a read without the write lock finds empty queues, and writers take turns without a lock on the worker.

-- name: worker
-- the lease, and whether this claim was made before
select lease_expires_at, lease_ms,
  exists (
    select 1
    from worker_claims
    where worker_id = ?1
      and claim_id = ?2
  )
from workers
where id = ?1;

-- name: idle
select not exists (
  select 1
  from jobs
  where status = 'running'
    and worker_id = ?1
);

-- name: renew
update workers
set heartbeat_at = ?2,
  lease_expires_at = ?2 + lease_ms * 1000,
  running = 0
where id = ?1;

-- name: remembered
select claims
from worker_claims
where worker_id = ?1
  and claim_id = ?2;

-- name: still_running
select {jobs/claim.claim}
from jobs
where id in (select value from json_each(?2))
  and status = 'running'
  and worker_id = ?1
  and (?3 is null or tenant_id = ?3);

-- name: remember
insert into worker_claims (worker_id, claim_id, claimed_at, claims)
values (?1, ?2, ?3, ?4);

-- name: forget
delete from worker_claims
where (worker_id, claim_id) in (
  select worker_id, claim_id
  from worker_claims
  where claimed_at < ?1
  order by claimed_at
  limit 10
);
