-- The version of the schema: one row for each migration that was applied.

-- part: tables
'schema_version', 'tenants', 'retired_slugs', 'queues', 'counters', 'jobs', 'job_tags', 'unique_windows', 'attempts',
'artifacts', 'artifact_trash', 'connector_configs',
'workers', 'worker_claims', 'arrivals', 'audit', 'holds', 'edges', 'groups', 'limits', 'buckets', 'reservations',
'signals', 'definitions', 'templates', 'triggers', 'fires', 'events', 'api_keys', 'requests', 'sessions', 'job_lists', 'store_transfers',
'stat_deltas', 'stats', 'error_deltas', 'errors', 'job_errors', 'schema_steps', 'gone_workers', 'audit_seals', 'flow_journal'

-- name: table
create table if not exists schema_version (
  version integer primary key,
  applied_at integer not null default (unixepoch() * 1000000)
) strict;

-- name: record
insert or ignore into schema_version (version) values (?1);

-- name: forget
delete from schema_version
where version = ?1;

-- name: has_steps
select exists (
  select 1
  from pragma_table_info('schema_steps')
  where name = 'done_at'
);

-- name: steps
select version, name
from schema_steps;

-- name: needs
select max(needs)
from schema_steps
having max(version) = ?1;

-- name: done
insert into schema_steps (version, name, needs) values (?1, ?2, ?3);

-- name: undone
delete from schema_steps
where version = ?1
  and name = ?2;

-- name: adopt
-- unreleased versions: the first release counts from 1 again
delete from schema_version
where version > ?1;

-- name: catalogue
-- our tables with their indexes and triggers; automatic indexes have no sql
select name, sql
from sqlite_master
where sql is not null
  and tbl_name in ({tables});

-- name: drop
drop table schema_version;

-- name: strangers
select name
from sqlite_master
where type in ('table', 'view')
  and name in ({tables});

-- name: schema_tables
-- an application may have a table of that name: ours has a table of jobs with fences beside it
select exists (
  select 1
  from pragma_table_info('schema_version')
  where name = 'applied_at'
) and exists (
  select 1
  from pragma_table_info('jobs')
  where name = 'fence'
);

-- name: version
select coalesce(max(version), 0)
from schema_version;
