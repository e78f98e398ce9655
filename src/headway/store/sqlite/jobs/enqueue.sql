-- Differs because a batch is inserted a few rows at a time.

-- name: positions
-- first, so that it takes the write lock; also says whether any quota, shared queue, inactive kind or kind of some tenants
-- has to be checked
update counters
set value = value + 1024 * ?1
where name = 'position'
returning
  value,
  exists (
    select 1
    from limits indexed by limits_quotas
    where coalesce(max_pending, max_bytes, max_group, max_fan_out) is not null
      or suspended = 1
  ),
  exists (select 1 from queues indexed by queues_fair where fair = 1),
  exists (select 1 from definitions indexed by definitions_guarded where active = 0 or tenants is not null);

-- name: guarded
select
  kind, active,
  (
    select json_group_array(tenants.id)
    from json_each(definitions.tenants) as named
    join tenants on tenants.id = named.value or tenants.slug = named.value
    where definitions.tenants is not null
  ),
  tenants is not null
from definitions indexed by definitions_guarded
where (active = 0 or tenants is not null)
  and kind in (select value from json_each(?1));

-- name: shared
select name
from queues indexed by queues_fair
where fair = 1;

-- name: count_new
-- counts the job that the statement before this one inserted; gives a row if it did
insert into stat_deltas (at, tenant_id, queue, kind, enqueued)
select ?1, ?2, ?3, ?4, 1
where changes() > 0
returning 1;

-- name: changes
select changes();

-- name: total_changes
select total_changes();

-- part: plain
id, tenant_id, kind, queue, status, priority, position, max_attempts, max_losses, backoff_base_ms,
backoff_cap_ms, timeout_ms, delivery, idempotency_key, unique_key, unique_scope, scheduled_for, expires_at,
created_at, queued_at, correlation_id, trace_id, source, source_ref, created_by, payload, meta,
template_id, template_revision, trigger_id, fair

-- part: plain_values
?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27,
?28, ?29, ?30, ?31

-- name: insert
insert into jobs ({plain})
values ({plain_values})
on conflict do nothing;

-- name: insert_extended
-- the same with the columns that a plain job leaves empty
insert into jobs (
  {plain},
  train, on_canceled, on_dead, partition, concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst,
  rate_key, group_id, pending, metered, unique_group,
  version, step, state, awaiting, match_all, joining, woken, home_queue, home_partition, forked_from, parent_id, tags
)
values (
  {plain_values},
  ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40,
  ?41, ?42, ?43, ?44, ?45,
  ?46, ?47, ?48, ?49, ?50, ?51, ?52, ?53, ?54, ?55, ?56, ?57
)
on conflict do nothing;

-- name: index_tags
insert into job_tags (tag, job_id, tenant_id)
select tags.value, jobs.id, jobs.tenant_id
from jobs
join json_each(jobs.tags) as tags
where jobs.id in (select value from json_each(?1))
on conflict do nothing;

-- name: present
select id, tenant_id, status
from jobs
where id in (select value from json_each(?1));
