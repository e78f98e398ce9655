-- Differs because names are checked first, under the write lock.

-- name: page
select id
from connector_configs
where (?1 is null or tenant_id = ?1)
  and (?2 is null or name = ?2)
  and (?3 is null or kind = ?3)
  and id > ?4
  and (?6 is null or id in (select value from json_each(?6)))
order by id
limit ?5;

-- name: read
select
  c.id, c.tenant_id, coalesce(t.slug, c.tenant_id), c.name, c.kind, c.url, c.headers, c.options, c.events,
  c.description, c.enabled, c.disabled_reason, c.secret_version, c.old_secret_ends_at, c.revision, c.created_by,
  c.created_at, c.updated_at
from connector_configs as c
left join tenants as t
  on t.id = c.tenant_id
where c.id in (select value from json_each(?1))
order by c.id;

-- name: named
select id
from connector_configs
where tenant_id = ?1
  and name = ?2;

-- name: insert
insert into connector_configs (
  id, tenant_id, name, kind, url, headers, options, events, description, enabled, created_by, created_at, updated_at,
  secret_version, revision
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, 1, 1);

-- name: changing
select
  tenant_id, revision, name, url, headers, options, events, description, enabled, disabled_reason, secret_version,
  old_secret_ends_at
from connector_configs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: change
update connector_configs
set name = ?2,
  url = ?3,
  headers = ?4,
  options = ?5,
  events = ?6,
  description = ?7,
  enabled = ?8,
  disabled_reason = ?9,
  secret_version = ?10,
  old_secret_ends_at = ?11,
  updated_at = ?12,
  revision = revision + 1
where id = ?1;

-- name: delete
delete from connector_configs
where id = ?1
  and (?2 is null or tenant_id = ?2)
returning tenant_id, name;
