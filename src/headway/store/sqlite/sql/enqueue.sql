-- Differs because the batch is one insert run per row; who met an existing job is asked for only when some did.

-- name: tenant
insert into tenants (id, slug, created_at)
values (?1, ?2, ?3)
on conflict (id) do update
set slug = excluded.slug
where tenants.slug = tenants.id
  and excluded.slug <> excluded.id;

-- name: changes
select total_changes();

-- name: insert
insert into jobs (
  id, tenant_id, kind, queue, status, priority, position, max_attempts, max_losses, backoff_base_ms,
  backoff_cap_ms, timeout_ms, delivery, idempotency_key, unique_key, unique_scope, scheduled_for, expires_at,
  created_at, queued_at, correlation_id, trace_id, source, source_ref, created_by, payload, meta
)
values (
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
  ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
  ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27
)
on conflict do nothing;

-- name: present
select id, tenant_id, status
from jobs
where id in (select value from json_each(?1));

-- name: by_idempotency_key
select id, status
from jobs
where tenant_id = ?1
  and kind = ?2
  and idempotency_key = ?3;

-- name: by_unique_key
select id, status
from jobs
where tenant_id = ?1
  and kind = ?2
  and unique_key = ?3
  and instr(unique_scope, '"' || status || '"') > 0;
