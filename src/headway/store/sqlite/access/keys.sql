-- The secret's hash is read only where a request is checked.

-- part: columns
id, name, role, mode, tenant_id, queues, kinds, created_at, created_by, expires_at, last_used_at, revoked_at, revoked_by

-- name: create
insert into api_keys (id, secret_hash, name, role, mode, tenant_id, queues, kinds, expires_at, created_at, created_by)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
on conflict (id) do nothing
returning id;

-- name: get
select {columns}, secret_hash
from api_keys
where id = ?1;

-- name: list
select {columns}, secret_hash
from api_keys
where (?1 is null or tenant_id = ?1)
order by created_at, id;

-- name: revoke
update api_keys
set revoked_at = ?2,
  revoked_by = ?3
where id = ?1
  and revoked_at is null
returning tenant_id;

-- name: touch
update api_keys
set last_used_at = ?2
where id = ?1
  and (last_used_at is null or last_used_at < ?2);
