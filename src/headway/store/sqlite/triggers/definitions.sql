-- Differs because a row is read, changed in Python under the write lock, and written as a whole.

-- name: read
select
  kind, description, schema, timeout_ms, max_attempts, queue, enqueuer_may, policy, computed, active, changed, origin, revision,
  created_at, updated_at, code
from definitions
where ?1 is null
  or kind in (select value from json_each(?1))
order by kind;

-- name: put
insert or replace into definitions (
  kind, description, schema, timeout_ms, max_attempts, queue, enqueuer_may, policy, computed, active, changed, origin, revision,
  created_at, updated_at, code
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: delete
delete from definitions
where kind = ?1
returning kind;
