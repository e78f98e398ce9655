-- Lists of jobs for bulk actions.

-- name: keep
insert into job_lists (token, tenant_id, key_id, action, ids, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (token) do nothing;

-- name: read
select action, ids, position
from job_lists
where token = ?1
  and tenant_id is ?2
  and key_id = ?3
  and created_at > ?4;

-- name: advance
update job_lists
set position = max(position, ?4)
where token = ?1
  and tenant_id is ?2
  and key_id = ?3;

-- name: prune_probe
select exists (
  select 1
  from job_lists
  where created_at <= ?1
);

-- name: prune
delete from job_lists
where created_at <= ?1
returning token;
