-- name: child
insert into signals (id, job_id, tenant_id, name, payload, dedup_key, sent_at)
select ?1, id, tenant_id, ?3, ?4, ?5, ?6
from jobs
where id = ?2
  and finished_at is null
on conflict (job_id, dedup_key) where dedup_key is not null do update
set fence = null,
  consumed_at = null;

-- name: cancel
insert into signals (id, job_id, tenant_id, name, payload, dedup_key, sent_at)
select ?1, id, tenant_id, ?3, ?4, ?3, ?5
from jobs
where id = ?2
on conflict do nothing;

-- name: lasts
update jobs
set expires_at = null
where id = ?1
  and expires_at is not null;
