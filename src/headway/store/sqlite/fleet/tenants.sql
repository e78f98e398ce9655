-- Differs because names are looked up and added by separate statements, under the write lock.

-- name: known
-- those of these ids that have a row
select id
from tenants
where id in (select value from json_each(?1));

-- name: named
-- the tenants of these names; an id counts as a name
select named.value, tenants.id
from json_each(?1) as named
join tenants
  on tenants.slug = named.value
union
select named.value, tenants.id
from json_each(?1) as named
join tenants
  on tenants.id = named.value;

-- name: names
select id, slug
from tenants
where id in (select value from json_each(?1))
  and slug is not null;

-- name: taken
-- those of these names that a tenant has or had
select slug, 0
from tenants
where slug in (select value from json_each(?1))
union all
select slug, 1
from retired_slugs
where slug in (select value from json_each(?1));

-- name: deleted
-- those of these ids that a deleted tenant had
select tenant_id
from retired_slugs
where tenant_id in (select value from json_each(?1));

-- name: add
insert into tenants (id, slug, created_at)
values (?1, ?2, ?3);
