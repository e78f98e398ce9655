-- Differs because names and triggers are checked first, under the write lock.

-- name: page
select id
from templates
where (?1 is null or tenant_id = ?1)
  and (?2 is null or name = ?2)
  and id > ?3
order by id
limit ?4;

-- name: page_of_ids
select id
from templates
where id in (select value from json_each(?5))
  and (?1 is null or tenant_id = ?1)
  and (?2 is null or name = ?2)
  and id > ?3
order by id
limit ?4;

-- name: read
-- as blobs: a text that is not UTF-8 would fail the whole read
select
  m.id, m.tenant_id, coalesce(t.slug, m.tenant_id), m.name, m.kind, cast(m.payload as blob), cast(m.options as blob),
  m.description, m.revision, m.created_by, m.created_at, m.updated_at
from templates as m
left join tenants as t
  on t.id = m.tenant_id
where m.id in (select value from json_each(?1))
order by m.id;

-- name: named
select id
from templates
where tenant_id = ?1
  and name = ?2;

-- name: insert
insert into templates (
  id, tenant_id, name, kind, payload, options, description, created_by, created_at, updated_at, revision
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, 1);

-- name: changing
select tenant_id, name, kind, payload, options, description
from templates
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: change
update templates
set name = ?2,
  kind = ?3,
  payload = ?4,
  options = ?5,
  description = ?6,
  updated_at = ?7,
  revision = revision + 1
where id = ?1;

-- name: used_by
select type, name
from triggers indexed by triggers_template
where template_id = ?1
order by name, id
limit 4;

-- name: delete
delete from templates
where id = ?1;
