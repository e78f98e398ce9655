-- Work that starts itself: definitions, templates, triggers with their fires, and events.
-- What jobs have of it is null for a plain one, and no index of theirs minds it.

alter table jobs add column template_id text;

alter table jobs add column template_revision integer;

alter table jobs add column trigger_id text;

-- how many characters were logged in all: log_tail are the last of them
alter table jobs add column log_end integer;

-- changed: a JSON array of the fields that no longer follow the code; code: what that said last of such fields
create table definitions (
  kind text not null primary key,
  description text not null,
  schema text,
  timeout_ms integer,
  max_attempts integer not null,
  queue text not null,
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

-- every enqueue looks whether there is any
create index definitions_inactive
on definitions (kind)
where active = 0;

-- every look at what is due asks whether one was written
create index definitions_revision
on definitions (revision);

-- one row that cannot be read would be in the way of all others: the checks keep out what SQL might bring
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
  check (created_at between 0 and 253370764800000000),
  check (updated_at between 0 and 253370764800000000)
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
  last_fired_at integer,
  last_job_id text,
  error text,
  unique (tenant_id, type, name),
  check ((kind is null) <> (template_id is null)),
  check (type <> 'schedule' or (cron is null) <> (every_ms is null)),
  check (type <> 'event' or event is not null),
  check (json_valid(payload) and json_type(payload) = 'object'),
  check (json_valid(options) and json_type(options) = 'object'),
  check (json_valid("when") and json_type("when") = 'object'),
  check (every_ms between 1000 and 3162240000000),
  check (catch_up_window_ms between 0 and 3162240000000),
  check (jitter_ms between 0 and 3162240000000),
  check (dedupe_window_ms between 0 and 3162240000000),
  check (start_at between 0 and 253370764800000000),
  check (end_at between 0 and 253370764800000000),
  check (next_fire_at between 0 and 253370764800000000),
  check (created_at between 0 and 253370764800000000),
  check (updated_at between 0 and 253370764800000000),
  check (declared_at between 0 and 253370764800000000),
  check (last_fired_at between 0 and 253370764800000000)
) strict, without rowid;

create index triggers_due
on triggers (next_fire_at)
where enabled = 1
  and type = 'schedule'
  and next_fire_at is not null;

create index triggers_event
on triggers (tenant_id, event)
where enabled = 1
  and type = 'event';

-- whoever ends jobs looks whether anybody listens to that
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
  status text not null check (status in ('enqueued', 'skipped', 'deduped', 'failed')),
  job_id text,
  error text,
  dedupe_key text,
  check (nominal_at between 0 and 253370764800000000),
  check (fired_at between 0 and 253370764800000000)
) strict, without rowid;

create unique index fires_nominal
on fires (trigger_id, nominal_at)
where nominal_at is not null;

-- by event first: what is left of an event is found by it, too
create unique index fires_event
on fires (event_id, trigger_id)
where event_id is not null;

create index fires_dedupe
on fires (trigger_id, dedupe_key, fired_at)
where status = 'enqueued'
  and dedupe_key is not null;

create index fires_trigger
on fires (trigger_id, id);

-- the jobs that a schedule made last, however often it was skipped since
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
  created_by text,
  job_id text,
  error text,
  payload text not null,
  check (emitted_at between 0 and 253370764800000000),
  check (handled_at between 0 and 253370764800000000)
) strict, without rowid;

create index events_pending
on events (id)
where status = 'pending';

create index events_prune
on events (status, handled_at)
where handled_at is not null;
