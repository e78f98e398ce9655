-- Entries are numbered in the order in which they are written.

-- name: record
insert into audit (at, tenant_id, job_id, actor, action, detail, request_id, address, actor_name)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: record_change
insert into audit (at, tenant_id, job_id, actor, action, detail, changes, request_id, address, actor_name)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: of_job
select at, actor, action, detail, id, job_id, tenant_id, request_id, address, actor_name, changes, seal,
  nullif(lower(hex(hash)), ''), erased_at
from audit
where job_id = ?1
  and (?2 is null or tenant_id = ?2)
order by id;

-- name: log
select at, actor, action, detail, id, job_id, tenant_id, request_id, address, actor_name, changes, seal,
  nullif(lower(hex(hash)), ''), erased_at
from audit
where (?1 is null or tenant_id = ?1)
  and (?2 is null or actor = ?2)
  and (?3 is null or action = ?3)
  and id < ?4
  and id > ?6
order by id desc
limit ?5;

-- name: log_after
select at, actor, action, detail, id, job_id, tenant_id, request_id, address, actor_name, changes, seal,
  nullif(lower(hex(hash)), ''), erased_at
from audit
where (?1 is null or tenant_id = ?1)
  and (?2 is null or actor = ?2)
  and (?3 is null or action = ?3)
  and id < ?4
  and id > ?6
order by id
limit ?5;

-- name: record_if_changed
-- no entry if the statement before it changed nothing
insert into audit (at, detail, actor, action, request_id, address, actor_name)
select ?1, ?2, ?3, ?4, ?5, ?6, ?7
where changes() > 0;

-- name: record_setting
insert into audit (at, detail, actor, action, request_id, address, actor_name)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7);
