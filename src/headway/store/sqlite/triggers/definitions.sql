-- Differs because a row is read, changed in Python under the write lock, and written as a whole.

-- name: read
select
  kind, description, schema, timeout_ms, max_attempts, queue, enqueuer_may, policy, computed, active, changed, origin, revision,
  created_at, updated_at, tenants, code,
  (
    select json_group_array(tenants.id)
    from json_each(definitions.tenants) as named
    join tenants on tenants.id = named.value or tenants.slug = named.value
    where definitions.tenants is not null
  )
from definitions
where ?1 is null
  or kind in (select value from json_each(?1))
order by kind;

-- name: put
insert or replace into definitions (
  kind, description, schema, timeout_ms, max_attempts, queue, enqueuer_may, policy, computed, active, changed, origin, revision,
  created_at, updated_at, tenants, code
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17);

-- name: delete
delete from definitions
where kind = ?1
returning kind;

-- name: running
-- a live worker that registered before the schedule was last declared, or a minute ago, has started it already; one that
-- registered since starts together with the caller
select 1
from triggers
join workers
  on workers.lease_expires_at > ?2
  and workers.started_at <= max(coalesce(triggers.declared_at, 0), ?3)
  and exists (select 1 from json_each(workers.kinds) where value = triggers.kind)
where triggers.id = ?1
limit 1;

-- name: start
-- one that is overdue fires by its catch_up
update triggers
set next_fire_at = ?2
where id = ?1
  and enabled
  and next_fire_at > ?2
  and (start_at is null or start_at <= ?2);
