-- Version 1: plain jobs, their attempts, the fleet, tenants with row-level security, and the audit trail.

create schema headway;

create sequence headway.position
  increment by 1024
  start with 1024;

-- a tenant's name; the id is made from the name by the client, so a missing row loses nothing but the name
create table headway.tenants (
  id uuid primary key,
  slug text not null,
  created_at timestamptz not null
);

-- logins that are one tenant, whatever their session says
create table headway.tenant_roles (
  role name primary key,
  tenant_id uuid not null
);

create table headway.queues (
  name text collate "C" primary key,
  paused_at timestamptz,
  paused_by text
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
  unique_scope text[] collate "C",
  correlation_id text,
  trace_id text,
  source_ref text,
  created_by text,
  cancel_reason text,
  progress_note text,
  log_tail text,
  error text,
  artifact_ref text,
  payload json not null default '{}',
  result json,
  meta json,
  constraint jobs_status check (
    status in ('queued', 'scheduled', 'held', 'running', 'waiting', 'succeeded', 'failed', 'dead', 'canceled')
  ),
  constraint jobs_delivery check (delivery in ('at_least_once', 'at_most_once')),
  constraint jobs_source check (source in ('manual', 'event', 'schedule', 'system')),
  constraint jobs_budget check (max_attempts > 0 and max_losses > 0),
  -- what arithmetic in a tick cannot take must not come in: one row would stop it for everybody
  constraint jobs_times check (
    scheduled_for < timestamptz '10000-01-01 00:00:00+00' and expires_at < timestamptz '10000-01-01 00:00:00+00'
  ),
  constraint jobs_durations check (
    backoff_base_ms between 0 and 3162240000000
    and backoff_cap_ms between 0 and 3162240000000
    and timeout_ms between 1 and 3162240000000
  )
) with (
  fillfactor = 85,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);

-- each index is named after the scan that it serves
create index jobs_claim on headway.jobs (queue, priority, position, id) where status = 'queued';
create index jobs_due on headway.jobs (scheduled_for, id) where status = 'scheduled';
create index jobs_running on headway.jobs (worker_id) where status = 'running';
create index jobs_expiring on headway.jobs (expires_at)
  where expires_at is not null and status in ('queued', 'scheduled', 'held', 'running', 'waiting');
create index jobs_prune on headway.jobs (status, finished_at) where finished_at is not null;
create index jobs_ended on headway.jobs (status, id) where finished_at is not null;
create index jobs_tenant on headway.jobs (tenant_id, id) where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc';
create unique index jobs_idempotency on headway.jobs (tenant_id, kind, idempotency_key)
  where idempotency_key is not null;
create unique index jobs_unique on headway.jobs (tenant_id, kind, unique_key)
  where unique_key is not null and status = any (unique_scope);
create unique index jobs_retry_of on headway.jobs (retry_of) where retry_of is not null;

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
  artifacts json,
  primary key (job_id, fence),
  constraint attempts_status check (
    status in ('succeeded', 'failed', 'timeout', 'canceled', 'lost', 'released', 'snoozed', 'skipped')
  )
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

create table headway.workers (
  id uuid primary key,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  lease_expires_at timestamptz not null,
  lease_ms bigint not null,
  pid integer not null,
  concurrency integer not null,
  running integer not null default 0,
  hostname text not null,
  machine text,
  process_started text,
  version text not null,
  queues jsonb not null,
  kinds text[] not null,
  busy text[] not null default '{}',
  metadata jsonb not null default '{}'
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

create table headway.audit (
  id bigint generated always as identity primary key,
  tenant_id uuid,
  job_id uuid,
  at timestamptz not null,
  actor text,
  action text not null,
  detail text
);
create index audit_job on headway.audit (job_id, id);

-- row-level security fails closed: no tenant, no rows. The owner is above it; definer functions filter themselves.
create function headway.tenant() returns uuid
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    -- the login first: a session can set its role, but not who it is
    (select m.tenant_id from headway.tenant_roles m where m.role = session_user),
    (select m.tenant_id from headway.tenant_roles m where m.role = nullif(current_setting('role'), 'none')::name),
    nullif(current_setting('headway.tenant_id', true), '')::uuid)
$$;

alter table headway.tenants enable row level security;
alter table headway.jobs enable row level security;
alter table headway.attempts enable row level security;
alter table headway.audit enable row level security;
create policy tenant_isolation on headway.tenants using (id = (select headway.tenant()));
create policy tenant_isolation on headway.jobs using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.attempts using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.audit using (tenant_id = (select headway.tenant()));

create function headway.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;

-- the same list as model/status.py; the condition is inline, so a legal move costs no function call
create trigger jobs_moves
  before update of status on headway.jobs
  for each row
  when (
    old.status <> new.status
    and (old.status || '>' || new.status) <> all (array[
      'scheduled>queued', 'queued>scheduled', 'held>queued', 'held>scheduled', 'queued>running',
      'running>succeeded', 'running>scheduled', 'running>queued', 'running>waiting', 'waiting>queued',
      'running>dead', 'running>failed', 'queued>canceled', 'scheduled>canceled', 'held>canceled',
      'waiting>canceled', 'running>canceled', 'dead>queued', 'failed>queued', 'canceled>queued',
      'succeeded>queued'
    ])
  )
  execute function headway.refuse_move();

insert into headway.tenants (id, slug, created_at)
values ('cbc7797a-7d82-5166-9044-8e0ae3cba0bc', 'default', clock_timestamp());
