-- name: holder
-- the other job that holds this job's unique key
select other.id
from jobs as me
join jobs as other
  on other.tenant_id = me.tenant_id
  and coalesce(other.unique_group, other.kind) = coalesce(me.unique_group, me.kind)
  and other.unique_key = me.unique_key
  and instr(other.unique_scope, '"' || other.status || '"') > 0
where me.rowid = ?1
  and other.id <> me.id;

-- name: supersede
update jobs
set status = 'canceled',
  finished_at = ?2,
  error = ?3,
  limited_by = null,
  pending = 0,
  unique_scope = replace(unique_scope, '"canceled"', '"-canceled"')
where rowid = ?1;

-- name: key
select unique_key
from jobs
where rowid = ?1;
