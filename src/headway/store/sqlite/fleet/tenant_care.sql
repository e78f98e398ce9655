-- Differs because each table's rows are deleted by a statement of its own, under the write lock.

-- name: list
select id, slug, created_at, suspended_at, suspended_by, tz
from tenants
where (?1 is null or coalesce(slug, id) > ?1)
  and (?3 is null or id = ?3)
order by coalesce(slug, id)
limit ?2;

-- name: known
select coalesce(slug, id), suspended_at is not null
from tenants
where id = ?1;

-- name: names
select exists (
  select 1
  from tenants
  where id = ?1
    and slug = ?2
);

-- name: rename
update tenants
set slug = ?2
where id = ?1;

-- name: zone
select tz
from tenants
where id = ?1;

-- name: set_zone
update tenants
set tz = ?2
where id = ?1
  and tz is not ?2
returning id;

-- name: suspend
update tenants
set suspended_at = ?2,
  suspended_by = ?3,
  resumed_max_running = (
    select max_running
    from limits
    where scope = 'tenant'
      and name = ?1
  )
where id = ?1;

-- name: start_none
insert into limits (scope, name, max_running, suspended)
values ('tenant', ?1, 0, 1)
on conflict (scope, name) do update
set max_running = 0,
  suspended = 1;

-- name: allow
update limits
set max_running = (select resumed_max_running from tenants where id = ?1),
  suspended = 0
where scope = 'tenant'
  and name = ?1;

-- name: remove_empty
delete from limits
where scope = 'tenant'
  and name = ?1
  and coalesce(max_running, max_pending, max_bytes, max_events, max_schedules, max_group, max_fan_out) is null;

-- name: resume
update tenants
set suspended_at = null,
  suspended_by = null,
  resumed_max_running = null
where id = ?1;

-- name: rows
select 'jobs', count(*)
from jobs
where tenant_id = ?1
union all
select 'attempts', count(*)
from attempts
where job_id in (select id from jobs where tenant_id = ?1)
union all
select 'flow_journal', count(*)
from flow_journal
where job_id in (select id from jobs where tenant_id = ?1)
union all
select 'artifacts', count(*)
from artifacts
where tenant_id = ?1
union all
select 'events', count(*)
from events
where tenant_id = ?1
union all
select 'fires', count(*)
from fires
where tenant_id = ?1
union all
select 'triggers', count(*)
from triggers
where tenant_id = ?1
union all
select 'templates', count(*)
from templates
where tenant_id = ?1
union all
select 'connectors', count(*)
from connector_configs
where tenant_id = ?1
union all
select 'groups', count(*)
from groups
where tenant_id = ?1
union all
select 'signals', count(*)
from signals
where tenant_id = ?1
union all
select 'keys', count(*)
from api_keys
where tenant_id = ?1;

-- name: running
select count(*)
from jobs indexed by jobs_running
where status = 'running'
  and tenant_id = ?1;

-- name: delete_jobs
delete from jobs
where rowid in (select rowid from jobs where tenant_id = ?1 limit ?2)
returning id;

-- name: delete_attempts_of
delete from attempts
where job_id in (select value from json_each(?1));

-- name: delete_signals_of
delete from signals
where job_id in (select value from json_each(?1));

-- name: delete_flow_journal_of
delete from flow_journal
where job_id in (select value from json_each(?1));

-- name: delete_edges_of
delete from edges
where parent_id in (select value from json_each(?1))
  or child_id in (select value from json_each(?1));

-- name: delete_signals
delete from signals
where rowid in (select rowid from signals where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_edges
delete from edges
where (parent_id, child_id, fence) in (select parent_id, child_id, fence from edges where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_job_tags
delete from job_tags
where (tag, job_id) in (select tag, job_id from job_tags where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_fires
delete from fires
where id in (select id from fires where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_events
delete from events
where id in (select id from events where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_triggers
delete from triggers
where id in (select id from triggers where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_connector_configs
delete from connector_configs
where id in (select id from connector_configs where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_templates
delete from templates
where id in (select id from templates where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_groups
delete from groups
where id in (select id from groups where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_holds
delete from holds
where (tenant_id, train) in (select tenant_id, train from holds where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_arrivals
delete from arrivals
where rowid in (select rowid from arrivals where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_requests
delete from requests
where (tenant_id, key_id, route, key) in (
  select tenant_id, key_id, route, key
  from requests
  where tenant_id = ?1
  limit ?2
)
returning 1;

-- name: delete_unique_windows
delete from unique_windows
where (tenant_id, scope, key) in (select tenant_id, scope, key from unique_windows where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_stat_deltas
delete from stat_deltas
where rowid in (select rowid from stat_deltas where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_stats
delete from stats
where (tenant_id, span, at, queue, kind) in (
  select tenant_id, span, at, queue, kind
  from stats
  where tenant_id = ?1
  limit ?2
)
returning 1;

-- name: delete_error_deltas
delete from error_deltas
where seq in (select seq from error_deltas where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_errors
delete from errors
where rowid in (select rowid from errors where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_job_errors
delete from job_errors
where job_id in (select job_id from job_errors where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_job_lists
delete from job_lists
where token in (select token from job_lists where tenant_id = ?1 limit ?2)
returning 1;

-- name: delete_sessions
delete from sessions
where key_id in (select id from api_keys where tenant_id = ?1);

-- name: delete_keys
delete from api_keys
where tenant_id = ?1;

-- name: delete_limits
delete from limits
where scope = 'tenant'
  and name = ?1;

-- name: delete_tenant
delete from tenants
where id = ?1;

-- name: suspended
-- the name of a suspended tenant
select coalesce(slug, id)
from tenants indexed by tenants_suspended
where id = ?1
  and suspended_at is not null;
