-- Requests by the key that their sender chose (Idempotency-Key).

-- name: begin
-- nothing if it is known and not older than ?7
insert into requests (tenant_id, key_id, route, key, body_hash, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (tenant_id, key_id, route, key) do update
set body_hash = excluded.body_hash,
  answer = null,
  created_at = excluded.created_at
where created_at <= ?7
returning key;

-- name: known
select body_hash, answer
from requests
where tenant_id = ?1
  and key_id = ?2
  and route = ?3
  and key = ?4;

-- name: finish
update requests
set answer = ?5
where tenant_id = ?1
  and key_id = ?2
  and route = ?3
  and key = ?4;

-- name: prune_probe
select exists (
  select 1
  from requests
  where created_at <= ?1
);

-- name: prune
delete from requests
where (tenant_id, key_id, route, key) in (
  select tenant_id, key_id, route, key
  from requests
  where created_at <= ?1
  order by created_at
  limit ?2
)
returning key;
