-- Version 1: tenants, queues, jobs and attempts, workers, trains, joins and limits, machines, schedules and events.
-- Ids are canonical UUID text, times are microseconds since 1970 (UTC), JSON is text.
-- SQLite builds the list of an `in` again for every row that is written, so triggers and checks use instr instead.

create table tenants (
  id text not null primary key,
  slug text unique,
  created_at integer not null,
  suspended_at integer,
  suspended_by text,
  -- while it is suspended: the max_running that it gets back
  resumed_max_running integer,
  -- the zone of its new schedules that name none
  tz text,
  constraint tenants_slug check (
    slug glob '[a-z0-9]*'
    and slug not glob '*[^a-z0-9_.-]*'
    and length(slug) <= 63
    and (length(replace(slug, '-', '')) <> 32 or replace(slug, '-', '') glob '*[^0-9a-f]*')
  )
) strict, without rowid;

-- usually empty
create index tenants_suspended
on tenants (id)
where suspended_at is not null;

-- former names of tenants, and the ids of deleted ones that had no name: never used again
create table retired_slugs (
  slug text not null primary key,
  tenant_id text not null,
  retired_at integer not null
) strict, without rowid;

create trigger tenants_default
before update of slug on tenants
when old.slug = 'default'
begin
  select raise(abort, 'the default tenant keeps its name');
end;

create trigger tenants_renamed
after update of slug on tenants
when old.slug is not null and new.slug is not old.slug
begin
  insert into retired_slugs (slug, tenant_id, retired_at)
  values (old.slug, old.id, unixepoch() * 1000000);
  select raise(abort, 'names of tenants are never used again')
  where exists (select 1 from retired_slugs where slug = new.slug);
end;

create trigger tenants_deleted
after delete on tenants
begin
  insert into retired_slugs (slug, tenant_id, retired_at)
  values (coalesce(old.slug, old.id), old.id, unixepoch() * 1000000);
end;

create trigger tenants_added
before insert on tenants
begin
  select raise(abort, 'names and ids of tenants are never used again')
  where exists (select 1 from retired_slugs where slug = new.slug or tenant_id = new.id);
end;

-- an enqueue relies on this row and does not look for it
insert into tenants (id, slug, created_at)
values ('cbc7797a-7d82-5166-9044-8e0ae3cba0bc', 'default', unixepoch() * 1000000);

create table queues (
  name text not null primary key,
  paused_at integer,
  paused_by text,
  fair integer not null default 0,
  -- the tenant that was served last
  turn text,
  -- it has had jobs with a partition or limits, so claims have to check them
  guarded integer not null default 0,
  -- JSON: milliseconds by status; null: the default
  retention text
) strict, without rowid;

create index queues_fair
on queues (name)
where fair = 1;

create table counters (
  name text not null primary key,
  value integer not null
) strict, without rowid;

insert into counters (name, value) values ('position', 0);

-- Long columns come last: reading the others does not walk their overflow pages.
create table jobs (
  id text not null primary key,
  tenant_id text not null,
  kind text not null,
  queue text not null,
  status text not null check (instr(
    ';queued;scheduled;held;running;waiting;succeeded;failed;dead;canceled;', ';' || status || ';'
  ) > 0),
  priority integer not null,
  position integer,
  fence integer not null default 0,
  -- fence - step_fence is the number of the step's current execution
  step_fence integer not null default 0,
  tries integer not null default 0,
  losses integer not null default 0,
  max_attempts integer not null,
  max_losses integer not null,
  backoff_base_ms integer not null,
  backoff_cap_ms integer not null,
  timeout_ms integer,
  delivery text not null check (delivery in ('at_least_once', 'at_most_once')),
  idempotency_key text,
  unique_key text,
  -- a JSON array. "+held": a successor, in line for the key; "-canceled": it ended without its key
  unique_scope text not null,
  -- the kinds that share its key; null: its own kind alone
  unique_group text,
  scheduled_for integer,
  expires_at integer,
  created_at integer not null,
  queued_at integer,
  started_at integer,
  finished_at integer,
  worker_id text,
  attempt_started_at integer,
  cancel_requested_at integer,
  cancel_reason text,
  progress real,
  progress_note text,
  correlation_id text,
  trace_id text,
  source text not null,
  source_ref text,
  created_by text,
  retry_of text,
  train text,
  on_canceled text check (on_canceled = 'advance' or on_canceled = 'hold'),
  on_dead text check (on_dead = 'advance' or on_dead = 'hold'),
  partition text,
  concurrency integer,
  concurrency_key text,
  rate_count integer,
  rate_period_ms integer,
  rate_burst integer,
  rate_key text,
  -- while queued: the full limit that it waits for, out of the claim's sight
  limited_by text,
  -- while running: it counts under a limit of its queue, kind or tenant (1), or only under its concurrency key (2)
  limited integer not null default 0,
  -- it counts towards its tenant's max_pending
  metered integer not null default 0,
  -- it is in a fair queue
  fair integer not null default 0,
  group_id text,
  -- while held: it waits for other jobs
  pending integer not null default 0,
  version integer,
  step text,
  -- a JSON array of names
  awaiting text,
  -- null: one of them is enough
  match_all integer,
  -- when its await times out
  deadline_at integer,
  -- the fence of the Spawn whose children it waits, or waited, for
  joining integer,
  woken text check (woken = 'signal' or woken = 'children' or woken = 'timeout'),
  home_queue text,
  home_partition text,
  forked_from text,
  began text, -- where a fork, or the retry of an at_most_once machine, began: model/machine.py's Began
  parent_id text,
  -- it got a signal before its first step, so a claim has to read its inbox
  signaled integer,
  template_id text,
  template_revision integer,
  trigger_id text,
  -- a JSON array; null: none
  tags text,
  -- how many characters were logged in all; log_tail has the last of them
  log_end integer,
  -- the id of the enqueue that replaced its values last: a repeat of that is recognised
  replacement_id text,
  payload text not null,
  meta text,
  result text,
  error text,
  log_tail text,
  state text,
  -- while it runs: the outcome that its handler committed with its own rows, not applied yet (model/committed.py)
  committed text,
  -- a running job has a worker and a start: otherwise it would never be reaped
  check (status <> 'running' or (worker_id is not null and attempt_started_at is not null)),
  check (scheduled_for between 0 and 221845392000000000),
  check (expires_at between 0 and 221845392000000000),
  check (deadline_at between 0 and 221845392000000000)
) strict;

create index jobs_claim
on jobs (queue, priority, position, id)
where status = 'queued'
  and limited_by is null;

create index jobs_due
on jobs (scheduled_for, id)
where status = 'scheduled';

create index jobs_running
on jobs (worker_id)
where status = 'running';

create index jobs_expiring
on jobs (expires_at)
where expires_at is not null
  and finished_at is null;

-- one holder per key, and one successor
create unique index jobs_unique
on jobs (
  tenant_id, coalesce(unique_group, kind), unique_key, instr(unique_scope, '"+' || status || '"') > 0
)
where unique_key is not null
  and (instr(unique_scope, '"' || status || '"') > 0 or instr(unique_scope, '"+' || status || '"') > 0);

create unique index jobs_idempotency
on jobs (tenant_id, kind, idempotency_key)
where idempotency_key is not null;

create unique index jobs_retry_of
on jobs (retry_of)
where retry_of is not null;

-- by kind and queue, for each may have a retention of its own: prune never walks over what is kept longer
create index jobs_prune
on jobs (status, kind, queue, finished_at)
where finished_at is not null;

create index jobs_listed
on jobs (status, id)
where status <> 'queued'
  and status <> 'running';

create index jobs_tenant
on jobs (tenant_id, status, id)
where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc';

-- Each of these indexes is partial, and a plain job fails its first condition: cheap for plain jobs, though not free.

create index jobs_aside
on jobs (limited_by, queue, priority, position, id)
where limited_by is not null;

create index jobs_fair
on jobs (queue, tenant_id, priority, position, id)
where fair = 1
  and status = 'queued'
  and limited_by is null;

-- at most one locomotive
create unique index jobs_locomotive
on jobs (tenant_id, train)
where train is not null
  and (status = 'queued' or status = 'running' or status = 'scheduled' or status = 'waiting');

create index jobs_held
on jobs (tenant_id, train, position, id)
where train is not null
  and status = 'held';

create index jobs_pending
on jobs (id)
where pending = 1;

create unique index jobs_partition
on jobs (tenant_id, partition)
where partition is not null
  and status = 'running';

-- what counts under a limit, by kind, tenant and key; for a limit of a tenant or queue all of it is read
create index jobs_limited
on jobs (kind, tenant_id, concurrency_key, queue, limited)
where limited > 0
  and status = 'running';

create index jobs_metered
on jobs (tenant_id)
where metered = 1
  and finished_at is null
  and status <> 'running';

create index jobs_group
on jobs (group_id, status)
where group_id is not null;

create index jobs_deadline
on jobs (deadline_at)
where deadline_at is not null
  and finished_at is null;

create index jobs_children
on jobs (parent_id, id)
where parent_id is not null;

-- The moves of model/status.py; a test compares the two lists. The two moves that every job makes are checked first.
create trigger jobs_moves
after update of status on jobs
when old.status <> new.status
  and (old.status <> 'queued' or new.status <> 'running')
  and (old.status <> 'running' or new.status <> 'succeeded')
  and instr('
    ;scheduled>queued;
    ;queued>scheduled;
    ;held>queued;
    ;held>scheduled;
    ;queued>running;
    ;running>succeeded;
    ;running>scheduled;
    ;running>queued;
    ;running>waiting;
    ;waiting>queued;
    ;running>dead;
    ;running>failed;
    ;queued>canceled;
    ;scheduled>canceled;
    ;held>canceled;
    ;waiting>canceled;
    ;running>canceled;
    ;dead>queued;
    ;failed>queued;
    ;canceled>queued;
    ;succeeded>queued;
    ;dead>held;
    ;failed>held;
    ;canceled>held;
    ;succeeded>held;
    ;canceled>waiting;
  ', ';' || old.status || '>' || new.status || ';') = 0
begin
  select raise(abort, 'a job cannot make this move: model/status.py lists the moves that exist');
end;

-- the tags of jobs that have some, for searching: a table of its own, so that no other job pays for an index of them
create table job_tags (
  tag text not null,
  job_id text not null,
  tenant_id text not null,
  primary key (tag, job_id)
) strict, without rowid;

create index job_tags_tenant
on job_tags (tenant_id, tag, job_id)
where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc';

-- who has a unique key by time, for as long as unique_for said: no partial index of jobs can ask the time
create table unique_windows (
  tenant_id text not null,
  scope text not null, -- the unique group, or the kind
  key text not null,
  job_id text not null,
  until integer not null,
  primary key (tenant_id, scope, key)
) strict, without rowid;

create index unique_windows_until
on unique_windows (until);

create table attempts (
  job_id text not null,
  fence integer not null,
  status text not null check (instr(
    ';succeeded;failed;timeout;canceled;lost;released;snoozed;skipped;', ';' || status || ';'
  ) > 0),
  started_at integer not null,
  finished_at integer not null,
  worker_id text,
  step text,
  exit_code integer,
  pid integer,
  log_path text,
  state text,
  error text,
  stdout_tail text,
  stderr_tail text,
  version integer,
  outcome text,
  note text,
  woken text,
  primary key (job_id, fence)
) strict, without rowid;

-- an attempt is immutable; it is deleted with its job
create trigger attempts_fixed
before update on attempts
begin
  select raise(abort, 'attempts are never changed: what happened stays written as it is');
end;

-- what attempts stored: the bytes are in a folder or an object store, and were whole before their row was written
create table artifacts (
  id text not null primary key,
  tenant_id text not null,
  job_id text not null,
  fence integer not null,
  name text not null,
  content_type text not null,
  size integer not null,
  sha256 text not null,
  store text not null,
  path text not null,
  created_at integer not null
) strict, without rowid;

create unique index artifacts_job on artifacts (job_id, fence, name);

create index artifacts_tenant on artifacts (tenant_id, id);

create index artifacts_payload on artifacts (path) where fence = 0;

-- bytes that no artifact has: of one that is being written, or of one that was deleted
create table artifact_trash (
  id text not null primary key,
  job_id text, -- with its fence: the attempt, or with 0 the new job, that may still keep them; null: nobody
  fence integer,
  store text not null,
  path text not null,
  since integer not null
) strict, without rowid;

create index artifact_trash_store on artifact_trash (store, id);

create table workers (
  id text not null primary key,
  hostname text not null,
  pid integer not null,
  machine text,
  process_started text,
  version text not null,
  queues text not null,
  kinds text not null,
  concurrency integer not null,
  running integer not null default 0,
  stopping integer not null default 0,
  busy text not null default '[]',
  lease_ms integer not null,
  late_ms integer not null,
  started_at integer not null,
  heartbeat_at integer not null,
  lease_expires_at integer not null,
  steady_since integer not null,
  metadata text not null,
  -- JSON: what an operator set for it
  wanted text
) strict, without rowid;

-- what workers over HTTP have claimed lately: a repeated claim gives the same jobs
create table worker_claims (
  worker_id text not null,
  claim_id text not null check (length(claim_id) between 1 and 255),
  claimed_at integer not null,
  claims text not null, -- JSON: [[id, fence], …]
  primary key (worker_id, claim_id)
) strict, without rowid;

create index worker_claims_old on worker_claims (claimed_at);

create table audit (
  id integer primary key,
  at integer not null,
  tenant_id text,
  job_id text,
  actor text constraint audit_actor check (
    length(actor) between 1 and 255
    and actor not glob '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
  ),
  action text not null,
  detail text,
  -- of a change over HTTP
  request_id text,
  address text
) strict;

create index audit_job
on audit (job_id, id)
where job_id is not null;

-- what was too much for one transaction
create table arrivals (
  seq integer primary key,
  what text not null check (what in ('ended', 'stopping', 'orphaned', 'revived', 'clearing', 'resumed')),
  id text not null, -- of a job, a group, a tenant, or tenant and train as JSON
  tenant_id text not null,
  unique (what, id)
) strict;

create index arrivals_turn
on arrivals (tenant_id, seq);

create table holds (
  tenant_id text not null,
  train text not null,
  since integer not null,
  job_id text,
  reason text,
  actor text,
  clear_to integer, -- it is being cleared, up to the car at this position
  primary key (tenant_id, train)
) strict, without rowid;

-- fence: of the execution that spawned the parent, whose machine is the child; 0: the child has `after`
create table edges (
  parent_id text not null,
  child_id text not null,
  fence integer not null default 0,
  tenant_id text not null,
  on_failure text not null check (on_failure in ('stop', 'continue')),
  state text not null default 'pending' check (state in ('pending', 'done', 'failed', 'left')),
  place integer,
  needed integer, -- of a machine's children: how many must succeed; the others are then left
  primary key (parent_id, child_id, fence)
) strict, without rowid;

create index edges_pending
on edges (parent_id)
where state = 'pending';

create index edges_child
on edges (child_id, fence, state);

create table groups (
  id text not null primary key,
  tenant_id text not null,
  mode text not null check (mode in ('parallel', 'sequential')),
  on_failure text not null check (on_failure in ('stop', 'continue', 'skip')),
  callback_id text,
  created_at integer not null,
  stopped_at integer,
  stop_reason text -- for its members; null: a member did not succeed
) strict, without rowid;

create index groups_callback
on groups (callback_id)
where callback_id is not null;

create table limits (
  scope text not null check (scope in ('queue', 'kind', 'tenant')),
  name text not null,
  max_running integer,
  rate_count integer,
  rate_period_ms integer,
  rate_burst integer,
  max_pending integer,
  max_bytes integer,
  max_events integer,
  max_schedules integer,
  max_group integer,
  max_fan_out integer,
  -- the tenant is, and max_running is 0
  suspended integer not null default 0,
  primary key (scope, name)
) strict, without rowid;

-- every enqueue asks whether there are any
create index limits_quotas
on limits (name)
where coalesce(max_pending, max_bytes, max_group, max_fan_out) is not null
  or suspended = 1;

-- the token buckets of rates; one without a row is full
create table buckets (
  key text not null primary key,
  tokens real not null, -- of a rate with a burst, at `at`
  at integer not null,
  full_at integer not null,
  wake_at integer,
  starts text -- of a rate without: [[last start of a slot, how many], …]
) strict, without rowid;

create index buckets_wake
on buckets (wake_at)
where wake_at is not null;

create index buckets_full
on buckets (full_at);

create table reservations (
  queue text not null primary key,
  id text not null,
  holder text not null,
  since integer not null,
  expires_at integer not null
) strict, without rowid;

create table signals (
  seq integer primary key,
  id text not null unique,
  job_id text not null,
  tenant_id text not null,
  name text not null,
  dedup_key text,
  sent_at integer not null,
  consumed_at integer,
  fence integer,
  trace_id text,
  created_by text,
  payload text not null
) strict;

-- by job: unconsumed signals first, in order of arrival
create index signals_job
on signals (job_id, fence);

create unique index signals_dedup
on signals (job_id, dedup_key)
where dedup_key is not null;

-- changed: a JSON array of the fields that an operator changed; code: the declared values of such fields
create table definitions (
  kind text not null primary key,
  description text not null,
  schema text,
  timeout_ms integer,
  max_attempts integer not null,
  queue text not null,
  enqueuer_may text not null,
  policy text not null,
  computed integer not null,
  active integer not null,
  changed text not null,
  origin text not null check (origin in ('code', 'stored')),
  revision integer not null default 1,
  code text,
  created_at integer not null,
  updated_at integer not null
) strict, without rowid;

-- every enqueue asks whether there are any
create index definitions_inactive
on definitions (kind)
where active = 0;

-- every `due` asks whether one was written
create index definitions_revision
on definitions (revision);

-- one unreadable row would block all others: the checks keep out what SQL from outside might write
create table templates (
  id text not null primary key,
  tenant_id text not null,
  name text not null,
  kind text not null,
  payload text not null,
  options text not null,
  description text not null,
  revision integer not null,
  created_by text,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name),
  check (json_valid(payload) and json_type(payload) = 'object'),
  check (json_valid(options) and json_type(options) = 'object'),
  check (created_at between 0 and 221845392000000000),
  check (updated_at between 0 and 221845392000000000)
) strict, without rowid;

-- where connectors send requests; a secret is only named here. old_secret_ends_at: until then the secret before signs, too
create table connector_configs (
  id text not null primary key,
  tenant_id text not null,
  name text not null,
  kind text not null,
  url text not null,
  headers text not null,
  options text not null,
  events text not null,
  description text not null,
  enabled integer not null check (enabled in (0, 1)),
  disabled_reason text,
  secret_version integer not null check (secret_version >= 1),
  old_secret_ends_at integer,
  revision integer not null,
  created_by text,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name),
  check (json_valid(headers) and json_type(headers) = 'object'),
  check (json_valid(options) and json_type(options) = 'object'),
  check (json_valid(events) and json_type(events) = 'array'),
  check (old_secret_ends_at between 0 and 221845392000000000),
  check (created_at between 0 and 221845392000000000),
  check (updated_at between 0 and 221845392000000000)
) strict, without rowid;

create table triggers (
  id text not null primary key,
  tenant_id text not null,
  type text not null check (type in ('schedule', 'event')),
  name text not null,
  kind text,
  template_id text,
  payload text not null,
  options text not null,
  description text not null,
  enabled integer not null,
  origin text not null check (origin in ('code', 'stored')),
  created_by text,
  created_at integer not null,
  updated_at integer not null,
  declared_at integer,
  revision integer not null,
  cron text,
  every_ms integer,
  tz text not null,
  catch_up text not null check (catch_up in ('none', 'latest', 'all')),
  catch_up_window_ms integer not null,
  overlap text not null check (overlap in ('allow', 'skip')),
  jitter_ms integer not null,
  start_at integer,
  end_at integer,
  next_fire_at integer,
  event text,
  "when" text not null,
  dedupe_window_ms integer not null,
  dedupe_key text,
  signal text,
  signal_to text,
  last_fired_at integer,
  last_job_id text,
  error text,
  -- for people
  label text,
  unique (tenant_id, type, name),
  check ((kind is not null) + (template_id is not null) + (signal is not null) = 1),
  check ((signal is null) = (signal_to is null) and (signal is null or type = 'event')),
  check (type <> 'schedule' or (cron is null) <> (every_ms is null)),
  check (type <> 'event' or event is not null),
  check (json_valid(payload) and json_type(payload) = 'object'),
  check (json_valid(options) and json_type(options) = 'object'),
  check (json_valid("when") and json_type("when") = 'object'),
  check (every_ms between 1000 and 3162240000000),
  check (catch_up_window_ms between 0 and 3162240000000),
  check (jitter_ms between 0 and 3162240000000),
  check (dedupe_window_ms between 0 and 3162240000000),
  check (start_at between 0 and 221845392000000000),
  check (end_at between 0 and 221845392000000000),
  check (next_fire_at between 0 and 221845392000000000),
  check (created_at between 0 and 221845392000000000),
  check (updated_at between 0 and 221845392000000000),
  check (declared_at between 0 and 221845392000000000),
  check (last_fired_at between 0 and 221845392000000000)
) strict, without rowid;

create index triggers_turn
on triggers (tenant_id, next_fire_at)
where enabled = 1
  and type = 'schedule'
  and next_fire_at is not null;

create index triggers_due
on triggers (next_fire_at)
where enabled = 1
  and type = 'schedule'
  and next_fire_at is not null;

create index triggers_event
on triggers (tenant_id, event)
where enabled = 1
  and type = 'event';

-- usually empty: the patterns of names, such as order.*, that an event may fit
create index triggers_patterns
on triggers (tenant_id, event)
where enabled = 1
  and type = 'event'
  and event like '%*';

-- the end of a job asks whether a trigger listens to it
create index triggers_engine
on triggers (tenant_id, event)
where enabled = 1
  and type = 'event'
  and event >= 'headway.job.'
  and event < 'headway.job/';

create index triggers_template
on triggers (template_id)
where template_id is not null;

create table fires (
  id text not null primary key,
  trigger_id text not null,
  tenant_id text not null,
  nominal_at integer,
  event_id text,
  fired_at integer not null,
  status text not null check (status in ('enqueued', 'signaled', 'undelivered', 'skipped', 'deduped', 'failed')),
  job_id text,
  error text,
  dedupe_key text,
  check (nominal_at between 0 and 221845392000000000),
  check (fired_at between 0 and 221845392000000000)
) strict, without rowid;

create unique index fires_nominal
on fires (trigger_id, nominal_at)
where nominal_at is not null;

-- by event first: it also serves the lookup of an event's fires
create unique index fires_event
on fires (event_id, trigger_id)
where event_id is not null;

create index fires_dedupe
on fires (trigger_id, dedupe_key, fired_at)
where status = 'enqueued'
  and dedupe_key is not null;

create index fires_trigger
on fires (trigger_id, id);

-- the last jobs of a schedule, however often it was skipped since
create index fires_made
on fires (trigger_id, id)
where status = 'enqueued'
  and event_id is null;

create index fires_prune
on fires (fired_at)
where event_id is null;

create table events (
  id text not null primary key,
  tenant_id text not null,
  name text not null,
  status text not null check (status in ('pending', 'handled', 'failed')),
  emitted_at integer not null,
  handled_at integer,
  correlation_id text,
  trace_id text,
  created_by text,
  job_id text,
  error text,
  payload text not null,
  check (emitted_at between 0 and 221845392000000000),
  check (handled_at between 0 and 221845392000000000)
) strict, without rowid;

create index events_turn
on events (tenant_id, id)
where status = 'pending';

create index events_pending
on events (id)
where status = 'pending';

create index events_prune
on events (status, handled_at)
where handled_at is not null;

-- who may use the HTTP API
create table api_keys (
  id text not null primary key,
  secret_hash blob not null check (length(secret_hash) = 32), -- SHA-256
  name text not null,
  role text not null check (role in ('viewer', 'producer', 'operator', 'admin', 'worker', 'superadmin')),
  mode text not null check (mode in ('live', 'test')),
  tenant_id text, -- null: every tenant's
  queues text not null default '[]', -- empty: every queue's
  kinds text not null default '[]',
  created_at integer not null,
  created_by text,
  expires_at integer,
  last_used_at integer,
  revoked_at integer,
  revoked_by text,
  -- a super admin's key that has a tenant would pass every check of role, with what all tenants share at stake
  check (case role when 'superadmin' then tenant_id is null when 'worker' then true else tenant_id is not null end)
) strict, without rowid;

-- requests that created something, by the key that their sender chose
create table requests (
  tenant_id text not null,
  key_id text not null, -- of the sender's API key
  route text not null,
  key text not null,
  body_hash blob not null check (length(body_hash) = 32), -- SHA-256
  answer text, -- the ids of what it made or met
  created_at integer not null,
  primary key (tenant_id, key_id, route, key)
) strict, without rowid;

create index requests_created on requests (created_at);

create table sessions (
  secret_hash blob not null primary key check (length(secret_hash) = 32),
  key_id text not null,
  created_at integer not null,
  expires_at integer not null,
  valid_until integer not null
) strict, without rowid;
create index sessions_over on sessions (valid_until);

-- jobs that a dry run of a bulk action found, for the calls that act on them
create table job_lists (
  token text not null primary key,
  tenant_id text, -- null: of every tenant
  key_id text not null, -- of the API key that may act on them
  action text not null, -- JSON: what to do, and the filter
  ids text not null,
  position integer not null default 0, -- how many have been acted on
  created_at integer not null
) strict, without rowid;

-- what transactions did to the jobs of a tenant, queue and kind, not added to stats yet
create table stat_deltas (
  at integer not null,
  tenant_id text not null,
  queue text not null,
  kind text not null,
  enqueued integer not null default 0,
  succeeded integer not null default 0,
  failed integer not null default 0,
  retried integer not null default 0,
  dead integer not null default 0,
  canceled integer not null default 0,
  lost integer not null default 0,
  ended integer not null default 0, -- executions
  waits text not null default '[]', -- of some of them: milliseconds from queued to started
  runs text not null default '[]' -- and from started to ended
) strict;

-- what happened, by minute, hour and day: model/stats.py
create table stats (
  tenant_id text not null,
  span text not null check (span in ('minute', 'hour', 'day')),
  at integer not null,
  queue text not null,
  kind text not null,
  enqueued integer not null,
  started integer not null,
  succeeded integer not null,
  failed integer not null,
  retried integer not null,
  dead integer not null,
  canceled integer not null,
  lost integer not null,
  waits text not null, -- how many times by the number of their bucket
  runs text not null,
  depth integer, -- the most that any sample found queued
  oldest_ms integer,
  primary key (tenant_id, span, at, queue, kind)
) strict, without rowid;

create index stats_at on stats (span, at);

-- executions that ended badly, not added to errors yet
create table error_deltas (
  seq integer primary key,
  at integer not null,
  tenant_id text not null,
  queue text not null,
  kind text not null,
  job_id text not null,
  fence integer not null,
  status text not null check (status in ('failed', 'timeout', 'lost')),
  dead integer not null,
  error text
) strict;

-- executions that ended badly in the same way: model/error_groups.py
create table errors (
  tenant_id text not null,
  fingerprint text not null,
  queue text not null,
  kind text not null,
  status text not null check (status in ('failed', 'timeout', 'lost')),
  type text,
  place text,
  count integer not null,
  dead integer not null, -- of how many the job died
  first_seen_at integer not null,
  last_seen_at integer not null,
  job_id text not null, -- of the last one, as message and sample
  fence integer not null,
  message text not null,
  sample text not null,
  primary key (tenant_id, fingerprint, queue)
) strict;

create index errors_fingerprint on errors (fingerprint);

create index errors_seen on errors (last_seen_at);

create index errors_tenant on errors (tenant_id, last_seen_at);

-- the last bad end of each job that had one, for searching: a table of its own, so that no other job pays for it
create table job_errors (
  job_id text not null primary key,
  tenant_id text not null,
  fingerprint text not null,
  fence integer not null
) strict, without rowid;

create index job_errors_fingerprint on job_errors (fingerprint, job_id);

create index job_errors_tenant on job_errors (tenant_id);
-- the sums of tenants, side by side
create index stats_tenants on stats (span, at)
where queue = ''
  and tenant_id <> '00000000-0000-0000-0000-000000000000';

-- transfers of this file's work to or from another database (headway transfer)
create table store_transfers (
  id text not null primary key,
  role text not null check (role in ('source', 'target')),
  peer text not null, -- the other database, as shown to people
  phase text not null check (phase in ('copying', 'sealed', 'done', 'aborted')),
  history integer not null, -- whether finished work is moved, too
  started_at integer not null,
  finished_at integer,
  writing integer -- 1 inside the transfer's own transactions, which its triggers let pass; never committed
) strict, without rowid;
