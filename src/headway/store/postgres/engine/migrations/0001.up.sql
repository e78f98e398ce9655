-- Version 1: tenants with row-level security, jobs and attempts, order and exclusion, machines, the fleet, schedules
-- and events.

do $$
begin
  if to_regnamespace('headway') is null then
    create schema headway;
  end if;
exception
  -- another transaction has just made it: migrate then reads what that one installed
  when duplicate_schema or unique_violation then null;
end
$$;

-- one row: what identifies this installation
create table headway.install (
  only_one boolean primary key default true check (only_one),
  id uuid not null default gen_random_uuid(), -- identifies this database to the processes of a machine
  secret bigint not null, -- part of the key of every advisory lock
  has_roles boolean not null default false -- whether the roles were created: headway migrate --roles
);
insert into headway.install (secret)
select hashtextextended(gen_random_uuid()::text || gen_random_uuid()::text, 0);

-- positions are 1,024 apart, so that ten moves fit between two jobs before others have to be renumbered
create sequence headway.position
  increment by 1024
  start with 1024;

-- the owners of jobs. A name is found only here: except for the default tenant, ids are random, so no name leads to
-- another tenant's rows, and an old name leads nowhere. A tenant that was only ever named by its id has no slug.
create table headway.tenants (
  id uuid primary key,
  slug text collate "C" unique,
  created_at timestamptz not null,
  suspended_at timestamptz,
  suspended_by text,
  resumed_max_running integer, -- while it is suspended: the max_running that it gets back
  tz text, -- the zone of its new schedules that name none
  constraint tenants_slug check (
    slug ~ '^[a-z0-9][a-z0-9_.-]{0,62}$'
    and replace(slug, '-', '') !~ '^[0-9a-f]{32}$')
);

-- usually empty
create index tenants_suspended on headway.tenants (id) where suspended_at is not null;

-- names that tenants had, and the ids of deleted ones that had no name: they are never used again
create table headway.retired_slugs (
  slug text collate "C" primary key,
  tenant_id uuid not null,
  retired_at timestamptz not null
);

-- who may use the HTTP API
create table headway.api_keys (
  id text collate "C" primary key,
  secret_hash bytea not null check (length(secret_hash) = 32), -- SHA-256
  name text not null,
  role text not null check (role in ('viewer', 'producer', 'operator', 'admin', 'worker', 'superadmin')),
  mode text not null check (mode in ('live', 'test')),
  tenant_id uuid, -- null: every tenant's
  queues text[] not null default '{}', -- empty: every queue's
  kinds text[] not null default '{}',
  created_at timestamptz not null,
  created_by text,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  revoked_by text,
  -- a super admin's key that has a tenant would pass every check of role, with what all tenants share at stake
  check (case role when 'superadmin' then tenant_id is null when 'worker' then true else tenant_id is not null end)
);

-- requests that created something, by the key that their sender chose
create table headway.requests (
  tenant_id uuid not null,
  key_id text collate "C" not null, -- of the sender's API key
  route text collate "C" not null,
  key text collate "C" not null,
  body_hash bytea not null check (length(body_hash) = 32), -- SHA-256
  answer text, -- the ids of what it made or met
  created_at timestamptz not null,
  primary key (tenant_id, key_id, route, key)
);
create index requests_created on headway.requests (created_at);

-- sessions of browsers; each is as good as the key that it began with
create table headway.sessions (
  secret_hash bytea primary key check (length(secret_hash) = 32), -- SHA-256
  key_id text collate "C" not null,
  created_at timestamptz not null,
  expires_at timestamptz not null, -- however much it is used
  valid_until timestamptz not null -- later whenever it is used
);
create index sessions_over on headway.sessions (valid_until);

-- jobs that a dry run of a bulk action found, for the calls that act on them
create table headway.job_lists (
  token uuid primary key,
  tenant_id uuid, -- null: of every tenant
  key_id text collate "C" not null, -- of the API key that may act on them
  action json not null, -- what to do, and the filter
  ids uuid[] not null,
  position integer not null default 0, -- how many have been acted on
  created_at timestamptz not null
);

-- transfers of this database's work to or from another one (headway transfer)
create table headway.store_transfers (
  id uuid primary key,
  role text collate "C" not null check (role in ('source', 'target')),
  peer text not null, -- the other database, as shown to people
  phase text collate "C" not null check (phase in ('copying', 'sealed', 'done', 'aborted')),
  history boolean not null, -- whether finished work is moved, too
  started_at timestamptz not null,
  finished_at timestamptz
);

create function headway.keep_slugs() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if tg_op = 'DELETE' or tg_op = 'UPDATE' and new.slug is distinct from old.slug and old.slug is not null then
    if old.slug = 'default' then
      raise exception 'the default tenant keeps its name' using errcode = 'HW003';
    end if;
    insert into headway.retired_slugs (slug, tenant_id, retired_at)
    values (coalesce(old.slug, old.id::text), old.id, clock_timestamp());
  end if;
  -- who still remembers the id of a deleted tenant brings nothing of it back
  if tg_op = 'INSERT' and exists (select from headway.retired_slugs r where r.tenant_id = new.id) then
    raise exception 'tenant % was deleted: its id is never used again', new.id using errcode = 'HW004';
  end if;
  -- after the row went into the unique index: who renamed that tenant at the same moment has committed
  if tg_op <> 'DELETE' and exists (select from headway.retired_slugs r where r.slug = new.slug) then
    raise exception 'tenant name "%" belonged to a tenant that was renamed or deleted: names are never used again', new.slug
      using errcode = 'HW004';
  end if;
  return null;
end
$$;

create trigger tenants_slugs
after insert or delete or update of slug on headway.tenants
for each row execute function headway.keep_slugs();

-- logins that act for one tenant, whatever their session sets
create table headway.tenant_roles (
  role regrole primary key, -- by oid: a role created anew under the same name is another one
  tenant_id uuid not null references headway.tenants
);

create table headway.queues (
  name text collate "C" primary key,
  paused_at timestamptz,
  paused_by text,
  fair boolean not null default false,
  fair_since xid8, -- set until every transaction is over that may not know that the queue is fair
  turn uuid,
  retention jsonb -- milliseconds by status; null: the default
);

create table headway.jobs (
  id uuid primary key,
  tenant_id uuid not null,
  position bigint,
  created_at timestamptz not null,
  queued_at timestamptz,
  scheduled_for timestamptz,
  expires_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  attempt_started_at timestamptz,
  cancel_requested_at timestamptz,
  backoff_base_ms bigint not null default 1000,
  backoff_cap_ms bigint not null default 3600000,
  timeout_ms bigint,
  worker_id uuid,
  retry_of uuid,
  fence integer not null default 0,
  -- how many executions were before this step, or never started: fence - step_fence is the attempt of the step
  step_fence integer not null default 0,
  tries integer not null default 0,
  losses integer not null default 0,
  max_attempts integer not null default 5,
  max_losses integer not null default 5,
  priority smallint not null default 100,
  progress real,
  status text collate "C" not null,
  kind text collate "C" not null,
  queue text collate "C" not null default 'default',
  delivery text collate "C" not null default 'at_least_once',
  source text collate "C" not null default 'manual',
  idempotency_key text collate "C",
  unique_key text collate "C",
  unique_scope text[] collate "C", -- "+held": a successor, in line for the key; "-canceled": it ended without its key
  unique_group text collate "C", -- the kinds that share its key; null: its own kind alone
  correlation_id text,
  trace_id text,
  source_ref text,
  created_by text,
  cancel_reason text,
  progress_note text,
  log_tail text,
  error text,
  payload json not null default '{}',
  result json,
  meta json,
  -- order and exclusion
  train text collate "C",
  on_canceled text collate "C", -- null is advance: a null takes no space
  on_dead text collate "C",
  partition text collate "C",
  concurrency integer,
  concurrency_key text collate "C",
  rate_count integer,
  rate_period_ms bigint,
  rate_burst integer,
  rate_key text collate "C",
  limited_by text collate "C",
  group_id uuid,
  -- null instead of false: a null takes no space and no time
  limited boolean,
  metered boolean,
  fair boolean,
  pending boolean,
  -- machines; all null for a plain job
  version integer,
  step text,
  state json,
  awaiting text[],
  match_all boolean, -- null: any
  deadline_at timestamptz,
  joining integer, -- the fence of the execution whose children it waits, or waited, for
  woken text collate "C",
  home_queue text collate "C",
  home_partition text collate "C",
  forked_from uuid,
  began json, -- where a fork, or the retry of an at_most_once machine, began: Began in model/machine.py
  parent_id uuid,
  -- what it was made of; null for a job that was enqueued directly
  template_id uuid,
  template_revision integer,
  trigger_id uuid,
  log_end bigint,
  tags text[] collate "C", -- null: none
  -- while it runs: the outcome that its handler committed with its own rows, not applied yet (model/committed.py)
  committed json,
  replacement_id uuid, -- the id of the enqueue that replaced its values last: a repeat of that is recognised
  constraint jobs_aside check (limited_by is null or status = 'queued')
) with (
  fillfactor = 85,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);

-- each index is named after the scan that it serves
-- jobs set aside for a limit are not in it: a claim never walks over them
create index jobs_claim on headway.jobs (queue, priority, position, id) where status = 'queued' and limited_by is null;
create index jobs_due on headway.jobs (scheduled_for, id) where status = 'scheduled';
create index jobs_running on headway.jobs (worker_id) where status = 'running';
create index jobs_expiring on headway.jobs (expires_at)
  where expires_at is not null and status in ('queued', 'scheduled', 'held', 'running', 'waiting');
-- by kind and queue, for each may have a retention of its own: prune never walks over what is kept longer
create index jobs_prune on headway.jobs (status, kind, queue, finished_at) where finished_at is not null;
create index jobs_ended on headway.jobs (status, id) where finished_at is not null;
create index jobs_tenant on headway.jobs (tenant_id, status, id)
  where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc';
create unique index jobs_idempotency on headway.jobs (tenant_id, kind, idempotency_key)
  where idempotency_key is not null;
-- one holder per key, and one successor
create unique index jobs_unique
  on headway.jobs (tenant_id, coalesce(unique_group, kind), unique_key, ('+' || status = any (unique_scope)))
  where unique_key is not null and (status = any (unique_scope) or '+' || status = any (unique_scope));
create unique index jobs_retry_of on headway.jobs (retry_of) where retry_of is not null;
create index jobs_aside on headway.jobs (limited_by, queue, priority, position, id) where limited_by is not null;

create unique index jobs_locomotive on headway.jobs (tenant_id, train)
  where train is not null and status in ('queued', 'running', 'scheduled', 'waiting');
create index jobs_held on headway.jobs (tenant_id, train, position, id) where status = 'held';

-- for counting what runs under a limit; a job without limits is in none of these
create unique index jobs_partition on headway.jobs (tenant_id, partition)
  where partition is not null and status = 'running';
create index jobs_running_key on headway.jobs (tenant_id, kind, concurrency_key)
  where concurrency_key is not null and status = 'running';
create index jobs_running_kind on headway.jobs (kind) where limited and status = 'running';
create index jobs_running_tenant on headway.jobs (tenant_id) where limited and status = 'running';
create index jobs_running_queue on headway.jobs (queue) where limited and status = 'running';
create index jobs_metered on headway.jobs (tenant_id)
  where metered and status in ('queued', 'scheduled', 'held', 'waiting');

create index jobs_fair on headway.jobs (queue, tenant_id, priority, position, id)
  where fair and status = 'queued' and limited_by is null;
create index jobs_group on headway.jobs (group_id, status) where group_id is not null;
-- serves deadlines and all that wait: every further index is opened by every settle
create index jobs_waiting on headway.jobs (deadline_at, id) where status = 'waiting';

-- the tags of jobs that have some, for searching: a table of its own, so that no update of a job writes to an index of
-- its tags, and a job without tags pays nothing
create table headway.job_tags (
  tag text collate "C" not null,
  job_id uuid not null,
  tenant_id uuid not null,
  primary key (tag, job_id),
  constraint job_tags_tag check (tag ~ '^[A-Za-z0-9_][A-Za-z0-9._:/@=+-]{0,63}$')
);
create index job_tags_tenant on headway.job_tags (tenant_id, tag, job_id)
  where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc';

-- who has a unique key by time, for as long as unique_for said: no partial index of jobs can ask the time
create table headway.unique_windows (
  tenant_id uuid not null,
  scope text collate "C" not null, -- the unique group, or the kind
  key text collate "C" not null,
  job_id uuid not null,
  until timestamptz not null,
  primary key (tenant_id, scope, key)
);
create index unique_windows_until on headway.unique_windows (until);

create table headway.attempts (
  job_id uuid not null,
  tenant_id uuid not null,
  started_at timestamptz not null,
  finished_at timestamptz not null,
  worker_id uuid,
  fence integer not null,
  exit_code integer,
  pid integer,
  status text collate "C" not null,
  error text,
  step text,
  stdout_tail text,
  stderr_tail text,
  log_path text,
  state json,
  version integer,
  outcome text collate "C",
  note text,
  woken text collate "C",
  primary key (job_id, fence),
  constraint attempts_status check (
    status in ('succeeded', 'failed', 'timeout', 'canceled', 'lost', 'released', 'snoozed', 'skipped')
  )
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- an attempt is history: it is written once, and deleted with its job
create function headway.refuse_update() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception '% are never changed: what happened stays written as it is', tg_table_name using errcode = 'HW003';
end
$$;

create trigger attempts_fixed
  before update on headway.attempts
  for each statement
  execute function headway.refuse_update();

-- what attempts stored: the bytes are in a folder or an object store, and were whole before their row was written
create table headway.artifacts (
  id uuid primary key,
  tenant_id uuid not null,
  job_id uuid not null,
  created_at timestamptz not null,
  size bigint not null,
  fence integer not null,
  name text collate "C" not null,
  content_type text not null,
  sha256 text not null,
  store text collate "C" not null,
  path text not null
);
create unique index artifacts_job on headway.artifacts (job_id, fence, name);
create index artifacts_tenant on headway.artifacts (tenant_id, id);
create index artifacts_payload on headway.artifacts (path) where fence = 0;

-- bytes that no artifact has: of one that is being written, or of one that was deleted
create table headway.artifact_trash (
  id uuid primary key,
  job_id uuid, -- with its fence: the attempt, or with 0 the new job, that may still keep them; null: nobody
  since timestamptz not null,
  fence integer,
  store text collate "C" not null,
  path text not null
);
create index artifact_trash_store on headway.artifact_trash (store, id);

create table headway.workers (
  id uuid primary key,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  lease_expires_at timestamptz not null,
  steady_since timestamptz not null,
  lease_ms bigint not null,
  late_ms bigint not null,
  pid integer not null,
  concurrency integer not null,
  running integer not null default 0,
  stopping boolean not null default false,
  hostname text not null,
  machine text,
  process_started text,
  version text not null,
  queues jsonb not null,
  kinds text[] not null,
  busy text[] not null default '{}',
  metadata jsonb not null default '{}',
  wanted json -- what an operator set for it: json, for the order of its queues matters
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- what workers over HTTP have claimed lately: a repeated claim gives the same jobs
create table headway.worker_claims (
  worker_id uuid not null,
  claim_id text not null constraint worker_claims_id check (char_length(claim_id) between 1 and 255),
  claimed_at timestamptz not null,
  ids uuid[] not null,
  fences integer[] not null,
  primary key (worker_id, claim_id)
);
create index worker_claims_old on headway.worker_claims (claimed_at);

create table headway.audit (
  id bigint generated always as identity primary key,
  tenant_id uuid,
  job_id uuid,
  at timestamptz not null,
  actor text constraint audit_actor check (char_length(actor) between 1 and 255 and actor !~ '[\x01-\x1f\x7f-\x9f]'),
  action text not null,
  detail text,
  -- of a change over HTTP: the server sets these for its transaction
  request_id text default nullif(current_setting('headway.request_id', true), ''),
  address text default nullif(current_setting('headway.address', true), '')
);
create index audit_job on headway.audit (job_id, id);

-- what process_arrivals does once its transaction has committed: trains, jobs, keys of limits, groups to stop
create table headway.arrivals (
  id bigint generated always as identity,
  tenant_id uuid not null default 'ffffffff-ffff-ffff-ffff-ffffffffffff', -- the default: several tenants, who share a turn
  trains text[] collate "C",
  jobs uuid[], -- jobs that wait for others (`after`)
  ended uuid[], -- jobs that ended and that others may wait for
  keys text[] collate "C",
  groups uuid[], -- groups to stop, because a member did not succeed
  stopping uuid[], -- groups whose remaining members must be canceled
  signaled uuid[], -- jobs that got a signal
  revived uuid[], -- jobs that run again and whose end had canceled others
  orphaned uuid[], -- machines whose unfinished children must be canceled
  resumed uuid[], -- tenants whose jobs must be brought back
  primary key (tenant_id, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- rows to lock, in order of number: 0 for process_arrivals, 1 to 1024 for keys of limits, 1025 to 1088 for queues with
-- a limit
create table headway.gates (n smallint primary key);
insert into headway.gates (n) select generate_series(0, 1088);

-- where the next sweep starts
create table headway.sweeps (
  only_one boolean primary key default true check (only_one),
  tenant_id uuid not null default '00000000-0000-0000-0000-000000000000',
  train text collate "C" not null default '',
  key text collate "C" not null default '',
  deadline_at timestamptz not null default '-infinity',
  machine uuid not null default '00000000-0000-0000-0000-000000000000'
);
insert into headway.sweeps default values;

create table headway.holds (
  tenant_id uuid not null,
  train text collate "C" not null,
  since timestamptz not null,
  job_id uuid,
  reason text,
  actor text,
  clear_to bigint, -- the train is being cleared, up to the car at this position
  primary key (tenant_id, train)
);

-- child_id waits for parent_id: so a machine is the child of its edges, and the jobs that it spawned are the parents
create table headway.edges (
  parent_id uuid not null,
  child_id uuid not null,
  tenant_id uuid not null,
  on_failure text collate "C" not null default 'stop',
  state text collate "C" not null default 'pending',
  fence integer not null default 0, -- of the execution that spawned the parent; 0: `after`, or a group
  place integer, -- its number among those spawned with it
  needed integer, -- how many of those must succeed; the others are then left
  primary key (parent_id, child_id, fence),
  constraint edges_on_failure check (on_failure in ('stop', 'continue')),
  constraint edges_state check (state in ('pending', 'done', 'failed', 'left'))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index edges_child on headway.edges (child_id, state);
create index edges_pending on headway.edges (parent_id) where state = 'pending';

create table headway.groups (
  id uuid primary key,
  tenant_id uuid not null,
  created_at timestamptz not null,
  stopped_at timestamptz,
  stop_reason text, -- the members' error; null: a member did not succeed
  callback_id uuid,
  mode text collate "C" not null,
  on_failure text collate "C" not null,
  constraint groups_mode check (mode in ('parallel', 'sequential')),
  constraint groups_on_failure check (on_failure in ('stop', 'continue', 'skip'))
);

create index groups_callback on headway.groups (callback_id) where callback_id is not null;

create table headway.limits (
  scope text collate "C" not null,
  name text collate "C" not null,
  max_running integer,
  rate_count integer,
  rate_period_ms bigint,
  rate_burst integer,
  max_pending integer,
  max_bytes bigint,
  max_events integer,
  max_schedules integer,
  max_group integer,
  max_fan_out integer,
  suspended boolean not null default false, -- the tenant is, and max_running is 0
  -- whether an enqueue has to check quotas
  has_quotas boolean not null generated always as (
    suspended or num_nonnulls(max_pending, max_bytes, max_group, max_fan_out) > 0) stored,
  primary key (scope, name),
  constraint limits_scope check (scope in ('queue', 'kind', 'tenant')),
  constraint limits_numbers check (
    max_running >= 0 and max_pending >= 0 and max_bytes >= 0 and max_events >= 0 and max_schedules >= 0
    and max_group >= 0 and max_fan_out >= 0 and rate_count > 0 and rate_period_ms > 0 and rate_burst > 0
  )
);

-- what rates remember of their starts; a missing bucket is a full one
create table headway.buckets (
  key text collate "C" primary key,
  at timestamptz not null,
  full_at timestamptz not null,
  wake_at timestamptz,
  tokens double precision not null, -- with a burst: how many there were at `at`
  starts bigint[], -- without: the last start of each slot, in microseconds …
  counts integer[] -- … and how many there were
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
create index buckets_wake on headway.buckets (wake_at) where wake_at is not null;
create index buckets_full on headway.buckets (full_at);

create table headway.reservations (
  queue text collate "C" primary key,
  id uuid not null,
  since timestamptz not null,
  expires_at timestamptz not null,
  holder text not null
);

create table headway.signals (
  id uuid primary key,
  seq bigint generated by default as identity, -- the order of arrival
  job_id uuid not null,
  tenant_id uuid not null,
  sent_at timestamptz not null,
  consumed_at timestamptz,
  fence integer, -- the execution that consumed it
  name text not null,
  dedup_key text collate "C",
  trace_id text, -- of what sent it
  created_by text, -- who sent it, where that is known: key:ID
  payload json not null default 'null'
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
create index signals_inbox on headway.signals (job_id, seq) where fence is null;
create index signals_job on headway.signals (job_id, seq) where fence is not null;
create unique index signals_dedup on headway.signals (job_id, dedup_key) where dedup_key is not null;

-- what is stored of a kind, for callers that do not have its code; shared by all tenants
create table headway.definitions (
  kind text collate "C" primary key,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  timeout_ms bigint,
  max_attempts integer not null default 5,
  revision integer not null default 1, -- goes up with every change
  computed boolean not null default false,
  active boolean not null default true,
  queue text collate "C" not null default 'default',
  origin text collate "C" not null default 'stored',
  description text not null default '',
  changed text[] collate "C" not null default '{}', -- the fields that an operator set, in the order of model/definition.py
  schema json,
  policy json not null default '{}',
  enqueuer_may json not null default '{}', -- the options that untrusted callers may set, with their bounds
  code json, -- what the code said last of the fields that an operator can change; null: nothing
  constraint definitions_origin check (origin in ('code', 'stored')),
  constraint definitions_numbers check (max_attempts > 0 and timeout_ms > 0),
  constraint definitions_names check (
    kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$' and queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
  ),
  constraint definitions_json check (json_typeof(policy) = 'object' and json_typeof(enqueuer_may) = 'object')
);
-- usually empty: every enqueue probes it
create index definitions_inactive on headway.definitions (kind) where not active;

create table headway.templates (
  id uuid primary key,
  tenant_id uuid not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  revision integer not null default 1,
  name text collate "C" not null,
  kind text collate "C" not null,
  description text not null default '',
  created_by text,
  payload json not null default '{}',
  options json not null default '{}',
  constraint templates_names check (
    name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$' and kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
  ),
  constraint templates_json check (json_typeof(payload) = 'object' and json_typeof(options) = 'object')
);
create unique index templates_name on headway.templates (tenant_id, name);

-- where connectors send requests; a secret is only named here. old_secret_ends_at: until then the secret before signs, too
create table headway.connector_configs (
  id uuid primary key,
  tenant_id uuid not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  old_secret_ends_at timestamptz,
  revision integer not null default 1,
  secret_version integer not null default 1,
  enabled boolean not null default true,
  name text collate "C" not null,
  kind text collate "C" not null,
  url text not null,
  description text not null default '',
  disabled_reason text,
  created_by text,
  headers json not null default '{}',
  options json not null default '{}',
  events json not null default '[]',
  constraint connectors_names check (
    name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$' and kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
  ),
  constraint connectors_json check (
    json_typeof(headers) = 'object' and json_typeof(options) = 'object' and json_typeof(events) = 'array'
  ),
  constraint connectors_numbers check (secret_version >= 1),
  constraint connectors_times check (old_secret_ends_at between '1970-01-01Z' and '9000-01-01Z')
);
create unique index connector_configs_name on headway.connector_configs (tenant_id, name);

create table headway.triggers (
  id uuid primary key,
  tenant_id uuid not null,
  template_id uuid,
  last_job_id uuid,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  declared_at timestamptz,
  start_at timestamptz,
  end_at timestamptz,
  next_fire_at timestamptz,
  last_fired_at timestamptz,
  every_ms bigint,
  catch_up_window_ms bigint not null default 86400000,
  jitter_ms bigint not null default 0,
  dedupe_window_ms bigint not null default 300000,
  revision integer not null default 1,
  enabled boolean not null default true,
  type text collate "C" not null,
  name text collate "C" not null,
  kind text collate "C",
  origin text collate "C" not null default 'stored',
  cron text,
  tz text not null default 'UTC',
  catch_up text collate "C" not null default 'latest',
  overlap text collate "C" not null default 'allow',
  event text collate "C",
  dedupe_key text,
  signal text collate "C",
  signal_to text,
  description text not null default '',
  label text, -- for people
  created_by text,
  error text,
  payload json not null default '{}',
  options json not null default '{}',
  "when" json not null default '{}',
  constraint triggers_type check (type in ('schedule', 'event')),
  constraint triggers_origin check (origin in ('code', 'stored')),
  constraint triggers_catch_up check (catch_up in ('none', 'latest', 'all')),
  constraint triggers_overlap check (overlap in ('allow', 'skip')),
  constraint triggers_makes check (
    num_nonnulls(kind, template_id, signal) = 1
    and (signal is null) = (signal_to is null)
    and (signal is null or type = 'event')
  ),
  constraint triggers_fires check (
    case type when 'schedule' then num_nonnulls(cron, every_ms) = 1 else event is not null end
  ),
  -- a value that the firing worker cannot read or calculate with would stop it for everybody
  constraint triggers_names check (
    name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
    and kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
    and event ~ '^([A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}|([A-Za-z0-9_][A-Za-z0-9_.:/-]{0,124}\.)?\*)$'
    and signal ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
  ),
  constraint triggers_json check (
    json_typeof(payload) = 'object' and json_typeof(options) = 'object' and json_typeof("when") = 'object'
  ),
  constraint triggers_numbers check (
    every_ms between 1000 and 3162240000000
    and catch_up_window_ms between 0 and 3162240000000
    and jitter_ms between 0 and 3162240000000
    and dedupe_window_ms between 0 and 3162240000000
  ),
  constraint triggers_times check (
    start_at between '1970-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'
    and end_at between '1970-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'
    and next_fire_at between '1970-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'
    and last_fired_at between '1970-01-01 00:00:00+00' and '9000-01-01 00:00:00+00'
  )
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
create unique index triggers_name on headway.triggers (tenant_id, type, name);
create index triggers_due on headway.triggers (next_fire_at)
  where enabled and type = 'schedule' and next_fire_at is not null;
-- for tenants_in_turn, where more is due than one call gives
create index triggers_turn on headway.triggers (tenant_id, next_fire_at)
  where enabled and type = 'schedule' and next_fire_at is not null;
create index triggers_event on headway.triggers (tenant_id, event) where enabled and type = 'event';
-- triggers on the ends of jobs; usually empty: every end of a job probes it
create index triggers_engine on headway.triggers (tenant_id, event)
  where enabled and type = 'event' and event like 'headway.job.%';
create index triggers_template on headway.triggers (template_id) where template_id is not null;

create table headway.fires (
  id uuid primary key,
  trigger_id uuid not null,
  tenant_id uuid not null,
  event_id uuid,
  job_id uuid,
  nominal_at timestamptz,
  fired_at timestamptz not null,
  status text collate "C" not null,
  dedupe_key text collate "C",
  error text,
  constraint fires_status check (status in ('enqueued', 'signaled', 'undelivered', 'skipped', 'deduped', 'failed')),
  constraint fires_times check (nominal_at between '1970-01-01 00:00:00+00' and '9000-01-01 00:00:00+00')
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
-- once for each time, and once for each event
create unique index fires_nominal on headway.fires (trigger_id, nominal_at) where nominal_at is not null;
create unique index fires_event on headway.fires (event_id, trigger_id) where event_id is not null;
create index fires_dedupe on headway.fires (trigger_id, dedupe_key, fired_at)
  where status = 'enqueued' and dedupe_key is not null;
create index fires_trigger on headway.fires (trigger_id, id);
-- fires that made a job, of which any number of others may follow
create index fires_made on headway.fires (trigger_id, id) where status = 'enqueued';
create index fires_prune on headway.fires (fired_at) where event_id is null;

create table headway.events (
  id uuid primary key,
  tenant_id uuid not null,
  job_id uuid,
  emitted_at timestamptz not null,
  handled_at timestamptz,
  status text collate "C" not null default 'pending',
  name text collate "C" not null,
  correlation_id text,
  trace_id text,
  created_by text,
  error text,
  payload json not null default 'null',
  constraint events_status check (status in ('pending', 'handled', 'failed')),
  constraint events_names check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$')
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
create index events_pending on headway.events (id) where status = 'pending';
create index events_turn on headway.events (tenant_id, id) where status = 'pending';
create index events_prune on headway.events (status, handled_at) where handled_at is not null;

-- what transactions did to the jobs of a tenant, queue and kind, not added to stats yet: only ever inserted, so that no
-- settle waits for another one. A null is a zero.
create table headway.stat_deltas (
  at timestamptz not null,
  tenant_id uuid not null,
  enqueued integer,
  succeeded integer,
  failed integer,
  retried integer,
  dead integer,
  canceled integer,
  lost integer,
  ended integer, -- executions
  queue text collate "C" not null,
  kind text collate "C" not null,
  waits integer[], -- of some of them: milliseconds from queued to started
  runs integer[] -- and from started to ended
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_vacuum_cost_delay = 0
);

-- what happened, by minute, hour and day: model/stats.py
create table headway.stats (
  at timestamptz not null,
  tenant_id uuid not null,
  enqueued bigint not null default 0,
  started bigint not null default 0,
  succeeded bigint not null default 0,
  failed bigint not null default 0,
  retried bigint not null default 0,
  dead bigint not null default 0,
  canceled bigint not null default 0,
  lost bigint not null default 0,
  depth integer, -- the most that any sample found queued
  oldest_ms bigint,
  span text collate "C" not null,
  queue text collate "C" not null,
  kind text collate "C" not null,
  waits jsonb not null default '{}', -- how many times by the number of their bucket
  runs jsonb not null default '{}',
  primary key (tenant_id, span, at, queue, kind),
  constraint stats_span check (span in ('minute', 'hour', 'day'))
) with (
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02
);
create index stats_at on headway.stats (span, at);
-- the sums of tenants, side by side
create index stats_tenants on headway.stats (span, at)
  where queue = '' and tenant_id <> '00000000-0000-0000-0000-000000000000';

-- one row: when the depths of queues were sampled last
create table headway.stat_samples (
  only_one boolean primary key default true check (only_one),
  at timestamptz not null
);

-- executions that ended badly, not added to errors yet: only ever inserted, so that no settle waits for another one
create table headway.error_deltas (
  seq bigint generated always as identity primary key,
  at timestamptz not null,
  tenant_id uuid not null,
  job_id uuid not null,
  fence integer not null,
  dead boolean not null,
  status text collate "C" not null,
  queue text collate "C" not null,
  kind text collate "C" not null,
  error text,
  constraint error_deltas_status check (status in ('failed', 'timeout', 'lost'))
) with (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_vacuum_cost_delay = 0
);

-- executions that ended badly in the same way: model/error_groups.py
create table headway.errors (
  tenant_id uuid not null,
  fingerprint text collate "C" not null,
  queue text collate "C" not null,
  kind text collate "C" not null,
  status text collate "C" not null,
  type text,
  place text,
  count bigint not null,
  dead bigint not null, -- of how many the job died
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  job_id uuid not null, -- of the last one, as message and sample
  fence integer not null,
  message text not null,
  sample text not null,
  primary key (tenant_id, fingerprint, queue),
  constraint errors_status check (status in ('failed', 'timeout', 'lost'))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
create index errors_fingerprint on headway.errors (fingerprint);
create index errors_seen on headway.errors (last_seen_at);
create index errors_tenant on headway.errors (tenant_id, last_seen_at);

-- the last bad end of each job that had one, for searching: a table of its own, so that no other job pays for it
create table headway.job_errors (
  job_id uuid primary key,
  tenant_id uuid not null,
  fence integer not null,
  fingerprint text collate "C" not null
);
create index job_errors_fingerprint on headway.job_errors (fingerprint, job_id);
create index job_errors_tenant on headway.job_errors (tenant_id);

-- Row-level security fails closed: without a tenant there are no rows. It does not apply to the owner, and so not to
-- security definer functions, which filter by themselves.
create function headway.tenant() returns uuid
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    -- the login first: a session can set its role, but not who it is
    (select m.tenant_id from headway.tenant_roles m where m.role = to_regrole(quote_ident(session_user))),
    (select m.tenant_id from headway.tenant_roles m where m.role = to_regrole(quote_ident(nullif(current_setting('role'), 'none')))),
    nullif(current_setting('headway.tenant_id', true), '')::uuid)
$$;

alter table headway.tenants enable row level security;
-- no policy: only the owner's functions read keys
alter table headway.api_keys enable row level security;
alter table headway.requests enable row level security;
alter table headway.sessions enable row level security;
alter table headway.job_lists enable row level security;
alter table headway.limits enable row level security;
alter table headway.jobs enable row level security;
alter table headway.attempts enable row level security;
alter table headway.job_tags enable row level security;
alter table headway.artifacts enable row level security;
-- no policy: nobody's
alter table headway.artifact_trash enable row level security;
alter table headway.unique_windows enable row level security;
alter table headway.audit enable row level security;
alter table headway.holds enable row level security;
alter table headway.edges enable row level security;
alter table headway.groups enable row level security;
alter table headway.signals enable row level security;
alter table headway.templates enable row level security;
alter table headway.connector_configs enable row level security;
alter table headway.triggers enable row level security;
alter table headway.fires enable row level security;
alter table headway.events enable row level security;
alter table headway.stat_deltas enable row level security;
alter table headway.stats enable row level security;
alter table headway.error_deltas enable row level security;
alter table headway.errors enable row level security;
alter table headway.job_errors enable row level security;
create policy tenant_isolation on headway.limits
  using (scope <> 'tenant' or name in ('*', (select headway.tenant())::text));
create policy tenant_isolation on headway.tenants using (id = (select headway.tenant()));
create policy tenant_isolation on headway.jobs using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.attempts using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.artifacts using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.job_tags using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.unique_windows using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.audit using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.holds using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.edges using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.groups using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.signals using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.templates using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.connector_configs using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.triggers using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.fires using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.events using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.stat_deltas using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.stats using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.error_deltas using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.errors using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.job_errors using (tenant_id = (select headway.tenant()));

-- Values that a job cannot have are refused by triggers, not by checks: the server parses the text of every check anew
-- for every statement that updates the table, but that of a trigger only if one of its columns is updated. Checks would
-- cost a quarter of a claim. The conditions are short for the same reason: an array of constants is parsed as one
-- constant. The functions that enqueue check what they insert and say so (headway.checked, around their insert); other
-- inserts are checked by jobs_new.

-- raises the error of a check
create function headway.refuse_value() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'job % violates check "%"', new.id, tg_name
    using errcode = 'check_violation', schema = tg_table_schema, table = tg_table_name, constraint = tg_name;
end
$$;

-- raises the error of a check
create function headway.check_new() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flaw text := case when new.status <> all ('{queued,scheduled,held,running,waiting,succeeded,failed,dead,canceled}'::text[])
                      then 'jobs_status'
                      when new.status = 'running' and (new.worker_id is null or new.attempt_started_at is null)
                      then 'jobs_running'
                      else headway.flaw(
                        new.delivery, new.source, new.max_attempts, new.max_losses, new.backoff_base_ms,
                        new.backoff_cap_ms, new.timeout_ms, new.scheduled_for, new.expires_at, new.train, new.partition,
                        new.on_canceled, new.on_dead, new.concurrency, new.concurrency_key, new.rate_count,
                        new.rate_period_ms, new.rate_burst, new.rate_key)
                 end;
begin
  if v_flaw is not null then
    perform headway.refuse_job(new.id, v_flaw);
  end if;
  return new;
end
$$;

create trigger jobs_new
  before insert on headway.jobs
  for each row
  when (pg_catalog.current_setting('headway.checked', true) is distinct from 'on')
  execute function headway.check_new();

-- runs only if one of these columns is updated
create trigger jobs_values
  before update of
    delivery, source, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms
  on headway.jobs
  for each row
  when (
    new.delivery <> all ('{at_least_once,at_most_once}'::text[])
    or new.source <> all ('{manual,event,schedule,system}'::text[])
    or least(new.max_attempts, new.max_losses) < 1
    or least(new.backoff_base_ms, new.backoff_cap_ms) < 0
    or new.timeout_ms < 1
    or greatest(new.backoff_base_ms, new.backoff_cap_ms, new.timeout_ms) > 3162240000000
  )
  execute function headway.refuse_value();

-- values that promote and reap cannot calculate with must not get in: one row would stop them for everybody
create trigger jobs_times
  before update of scheduled_for, expires_at, deadline_at on headway.jobs
  for each row
  when (
    greatest(new.scheduled_for, new.expires_at, new.deadline_at) > timestamptz '9000-01-01 00:00:00+00'
    or least(new.scheduled_for, new.expires_at, new.deadline_at) < timestamptz '1970-01-01 00:00:00+00'
  )
  execute function headway.refuse_value();

create trigger jobs_order
  before update of
    train, partition, on_canceled, on_dead, concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst, rate_key
  on headway.jobs
  for each row
  when (
    least(new.train, new.partition, new.concurrency_key, new.rate_key) = ''
    or greatest(length(new.train), length(new.partition), length(new.concurrency_key), length(new.rate_key)) > 255
    or new.on_canceled <> 'hold'
    or new.on_dead <> 'hold'
    or least(new.concurrency, new.rate_count, new.rate_burst, new.rate_period_ms) < 1
    or new.concurrency is null and new.concurrency_key is not null
    or new.rate_count is null and coalesce(new.rate_period_ms, new.rate_burst, length(new.rate_key)) is not null
    or new.rate_count is not null and new.rate_period_ms is null
  )
  execute function headway.refuse_value();

-- the same list of moves as model/status.py
create function headway.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if new.status = 'running' and (new.worker_id is null or new.attempt_started_at is null) then
    raise exception 'job % violates check "jobs_running": what is running has a worker and a start', new.id
      using errcode = 'check_violation', schema = tg_table_schema, table = tg_table_name, constraint = 'jobs_running';
  end if;
  if old.status = new.status
     or (old.status || '>' || new.status) = any (array[
       'scheduled>queued', 'queued>scheduled', 'held>queued', 'held>scheduled', 'queued>running',
       'running>succeeded', 'running>scheduled', 'running>queued', 'running>waiting', 'waiting>queued',
       'running>dead', 'running>failed', 'queued>canceled', 'scheduled>canceled', 'held>canceled',
       'waiting>canceled', 'running>canceled', 'dead>queued', 'failed>queued', 'canceled>queued',
       'succeeded>queued', 'dead>held', 'failed>held', 'canceled>held', 'succeeded>held', 'canceled>waiting'
     ])
  then
    return new;
  end if;
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;

-- the usual moves are checked inline, without a function call; few of them, as one constant, for it is parsed like a
-- check
create trigger jobs_moves
  before update of status, worker_id, attempt_started_at on headway.jobs
  for each row
  when (
    (old.status || '>' || new.status) <> all (
      '{queued>running,running>succeeded,held>queued,scheduled>queued,running>running,running>waiting,waiting>queued}'::text[])
    -- a running job has a worker and a start, or nobody would ever end it
    or new.status = 'running' and (new.worker_id is null or new.attempt_started_at is null)
  )
  execute function headway.refuse_move();

insert into headway.tenants (id, slug, created_at)
values ('cbc7797a-7d82-5166-9044-8e0ae3cba0bc', 'default', clock_timestamp());
