-- Sessions of browsers, by the hash of their secret.

-- name: create
insert into sessions (secret_hash, key_id, created_at, expires_at, valid_until)
values (?1, ?2, ?3, ?4, ?5)
on conflict (secret_hash) do nothing;

-- name: find
select key_id, created_at, expires_at, valid_until
from sessions
where secret_hash = ?1
  and valid_until > ?2;

-- name: extend
update sessions
set valid_until = min(expires_at, ?2)
where secret_hash = ?1
  and valid_until < min(expires_at, ?2);

-- name: delete
delete from sessions
where secret_hash = ?1;

-- name: prune_probe
select exists (
  select 1
  from sessions
  where valid_until <= ?1
);

-- name: prune
delete from sessions
where secret_hash in (
  select secret_hash
  from sessions
  where valid_until <= ?1
  order by valid_until
  limit ?2
)
returning key_id;
