-- Version 4: work that starts itself. Definitions, templates, schedules and event triggers, their fires, and events.

alter table headway.jobs
  -- all null for a job that somebody enqueued by hand, and so free of charge
  add column template_id uuid,
  add column template_revision integer,
  add column trigger_id uuid,
  add column log_end bigint;

-- what is stored of a kind, for those who have no code of it; every tenant's
create table headway.definitions (
  kind text collate "C" primary key,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  timeout_ms bigint,
  max_attempts integer not null default 5,
  revision integer not null default 1, -- counts what was written of it
  computed boolean not null default false,
  active boolean not null default true,
  queue text collate "C" not null default 'default',
  origin text collate "C" not null default 'stored',
  description text not null default '',
  changed text[] collate "C" not null default '{}', -- the fields that an operator set, in the order of model/definition.py
  schema json,
  policy json not null default '{}',
  code json, -- what the code said last of the fields that can be changed; null: nothing
  constraint definitions_origin check (origin in ('code', 'stored')),
  constraint definitions_numbers check (max_attempts > 0 and timeout_ms > 0),
  constraint definitions_names check (
    kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$' and queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
  ),
  constraint definitions_json check (json_typeof(policy) = 'object')
);
-- empty as a rule: every enqueue looks here
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
  description text not null default '',
  created_by text,
  error text,
  payload json not null default '{}',
  options json not null default '{}',
  "when" json not null default '{}',
  constraint triggers_type check (type in ('schedule', 'event')),
  constraint triggers_origin check (origin in ('code', 'stored')),
  constraint triggers_catch_up check (catch_up in ('none', 'latest', 'all')),
  constraint triggers_overlap check (overlap in ('allow', 'skip')),
  constraint triggers_makes check (num_nonnulls(kind, template_id) = 1),
  constraint triggers_fires check (
    case type when 'schedule' then num_nonnulls(cron, every_ms) = 1 else event is not null end
  ),
  -- what whoever fires cannot read or count with would stop it for everybody
  constraint triggers_names check (
    name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
    and kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
    and event ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
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
    start_at between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00'
    and end_at between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00'
    and next_fire_at between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00'
    and last_fired_at between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00'
  )
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
create unique index triggers_name on headway.triggers (tenant_id, type, name);
create index triggers_due on headway.triggers (next_fire_at)
  where enabled and type = 'schedule' and next_fire_at is not null;
create index triggers_event on headway.triggers (tenant_id, event) where enabled and type = 'event';
-- who listens to the ends of jobs; empty as a rule: whoever ends jobs looks here
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
  constraint fires_status check (status in ('enqueued', 'skipped', 'deduped', 'failed')),
  constraint fires_times check (nominal_at between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00')
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
-- those that made a job: there may be any number of others after them
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
create index events_prune on headway.events (status, handled_at) where handled_at is not null;

alter table headway.templates enable row level security;
alter table headway.triggers enable row level security;
alter table headway.fires enable row level security;
alter table headway.events enable row level security;
create policy tenant_isolation on headway.templates using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.triggers using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.fires using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.events using (tenant_id = (select headway.tenant()));
