-- name: last_seal
select n, hash
from audit_seals
order by n desc
limit 1;

-- name: unsealed
select id, length(coalesce(detail, '')) + length(coalesce(changes, ''))
from audit indexed by audit_unsealed
where seal is null
order by id
limit ?1;

-- name: unsealed_probe
select exists (select 1 from audit indexed by audit_unsealed where seal is null);

-- name: to_seal
-- what is hashed of each, as texts, by their ids
select id, {parts}
from audit
where id in (select value from json_each(?1))
order by id;

-- part: parts
cast(id as text), cast(at as text), tenant_id, job_id, actor, actor_name, action, detail, changes, request_id, address

-- name: seal_entry
update audit
set seal = ?2, hash = ?3
where id = ?1;

-- name: add_seal
insert into audit_seals (n, first_id, last_id, entries, newest_at, sealed_at, hash)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: seals
select n, first_id, last_id, entries, newest_at, sealed_at, hash
from audit_seals
where n > ?1
order by n
limit ?2;

-- name: newest_seals
select n, first_id, last_id, entries, newest_at, sealed_at, hash
from audit_seals
order by n desc
limit ?1;

-- name: entries
select a.id, a.hash, a.erased_at is not null, cast(a.id as text), cast(a.at as text), a.tenant_id, a.job_id, a.actor,
  a.actor_name, a.action, a.detail, a.changes, a.request_id, a.address
from audit_seals as s
join audit as a on a.id between s.first_id and s.last_id and a.seal = s.n
where s.n = ?1
order by a.id;

-- name: state
select
  (
    select count(*)
    from audit as a
    where a.seal is not null
      and not exists (select 1 from audit_seals as s where s.n = a.seal and a.id between s.first_id and s.last_id)
  ),
  (
    select count(*)
    from audit as a
    where a.erased_at is not null
      and not exists (
        select 1
        from audit as e
        where e.action = 'audit.erased'
          and ', ' || e.detail || ', ' like '%, ' || a.id || ', %'
      )
  ),
  count(*),
  min(u.at)
from audit as u indexed by audit_unsealed
where u.seal is null;

-- name: oldest_seal
select n, first_id, last_id, newest_at
from audit_seals
where n > ?1
order by n
limit 1;

-- name: audit_probe
-- whether a seal with entries is old enough
select exists (
  select 1
  from audit_seals as s
  where s.newest_at < ?1
    and exists (select 1 from audit as a where a.id between s.first_id and s.last_id and a.seal = s.n)
);

-- name: prune_audit
delete from audit
where id between ?1 and ?2
  and seal = ?3
returning id;

-- name: forget_seals
delete from audit_seals
where n < ?1;

-- name: erase
update audit
set actor = null, actor_name = null, changes = null, request_id = null, address = null, erased_at = ?2,
  detail = case action when 'audit.erased' then detail end
where id in (select value from json_each(?1))
  and seal is not null
  and erased_at is null
returning id;
