-- Version 2: order and exclusion. Trains, partitions, limits, fair queues, joins, groups and reservations.

alter table headway.jobs
  add column train text collate "C",
  add column on_canceled text collate "C",
  add column on_dead text collate "C",
  add column partition text collate "C",
  add column concurrency integer,
  add column concurrency_key text collate "C",
  add column rate_count integer,
  add column rate_period_ms bigint,
  add column rate_burst integer,
  add column rate_key text collate "C",
  add column limited_by text collate "C",
  add column group_id uuid,
  -- null, not false: a null in a row costs an update nothing
  add column limited boolean,
  add column metered boolean,
  add column fair boolean,
  add column pending boolean,
  add constraint jobs_aside check (limited_by is null or status = 'queued');

-- what is limited out waits beside the queue: a claim never walks over it
drop index headway.jobs_claim;
create index jobs_claim on headway.jobs (queue, priority, position, id) where status = 'queued' and limited_by is null;
create index jobs_aside on headway.jobs (limited_by, queue, priority, position, id) where limited_by is not null;

create unique index jobs_locomotive on headway.jobs (tenant_id, train)
  where train is not null and status in ('queued', 'running', 'scheduled', 'waiting');
create index jobs_held on headway.jobs (tenant_id, train, position, id) where status = 'held';

-- what counts against a limit; a job without limits is in none of these
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

alter table headway.queues
  add column fair boolean not null default false,
  add column fair_since xid8, -- until every transaction is over that may not know that the queue is fair
  add column turn uuid;

-- what is to be looked at once its transaction has committed: trains, jobs, keys of limits, groups to stop
create table headway.arrivals (
  id bigint generated always as identity primary key,
  tenant_id uuid,
  trains text[] collate "C",
  jobs uuid[], -- new ones with `after`
  ended uuid[], -- that others may wait for
  keys text[] collate "C",
  groups uuid[]
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- rows to lock, in order of number: 0 for who couples, 1 to 1024 for keys of limits, and above for queues with a limit
create table headway.gates (n smallint primary key);
insert into headway.gates (n) select generate_series(0, 1088);

-- where the next sweep goes on
create table headway.sweeps (
  only_one boolean primary key default true check (only_one),
  tenant_id uuid not null default '00000000-0000-0000-0000-000000000000',
  train text collate "C" not null default '',
  key text collate "C" not null default ''
);
insert into headway.sweeps default values;

create table headway.holds (
  tenant_id uuid not null,
  train text collate "C" not null,
  since timestamptz not null,
  job_id uuid,
  reason text,
  actor text,
  primary key (tenant_id, train)
);

create table headway.edges (
  parent_id uuid not null,
  child_id uuid not null,
  tenant_id uuid not null,
  on_failure text collate "C" not null default 'stop',
  state text collate "C" not null default 'pending',
  primary key (parent_id, child_id),
  constraint edges_on_failure check (on_failure in ('stop', 'continue')),
  constraint edges_state check (state in ('pending', 'done', 'failed'))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index edges_child on headway.edges (child_id, state);

create table headway.groups (
  id uuid primary key,
  tenant_id uuid not null,
  created_at timestamptz not null,
  stopped_at timestamptz,
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
  primary key (scope, name),
  constraint limits_scope check (scope in ('queue', 'kind', 'tenant')),
  constraint limits_numbers check (
    max_running >= 0 and max_pending >= 0 and rate_count > 0 and rate_period_ms > 0 and rate_burst > 0
  )
);

create table headway.buckets (
  key text collate "C" primary key,
  at timestamptz not null,
  wake_at timestamptz,
  tokens double precision not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
create index buckets_wake on headway.buckets (wake_at) where wake_at is not null;

create table headway.reservations (
  queue text collate "C" primary key,
  id uuid not null,
  since timestamptz not null,
  expires_at timestamptz not null,
  holder text not null
);

alter table headway.holds enable row level security;
alter table headway.edges enable row level security;
alter table headway.groups enable row level security;
create policy tenant_isolation on headway.holds using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.edges using (tenant_id = (select headway.tenant()));
create policy tenant_isolation on headway.groups using (tenant_id = (select headway.tenant()));

-- What a job cannot be, as triggers and not as checks: the server reads the text of every check anew for every statement
-- that updates the table, of a trigger only where one of its columns is updated. That is a quarter of a claim. Short, for
-- the same reason: an array of constants is one constant.
alter table headway.jobs
  drop constraint jobs_status,
  drop constraint jobs_delivery,
  drop constraint jobs_source,
  drop constraint jobs_budget,
  drop constraint jobs_times,
  drop constraint jobs_durations;

-- the same error as a check's
create function headway.refuse_value() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'job % violates check "%"', new.id, tg_name
    using errcode = 'check_violation', schema = tg_table_schema, table = tg_table_name, constraint = tg_name;
end
$$;

-- only where one comes in: jobs_moves knows where it can go
create trigger jobs_status
  before insert on headway.jobs
  for each row
  when (new.status <> all ('{queued,scheduled,held,running,waiting,succeeded,failed,dead,canceled}'::text[]))
  execute function headway.refuse_value();

create trigger jobs_values
  before insert or update of
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

-- what arithmetic in a tick cannot take must not come in: one row would stop it for everybody
create trigger jobs_times
  before insert or update of scheduled_for, expires_at on headway.jobs
  for each row
  when (greatest(new.scheduled_for, new.expires_at) >= timestamptz '10000-01-01 00:00:00+00')
  execute function headway.refuse_value();

-- null is advance, which so costs a row nothing
create trigger jobs_order
  before insert or update of
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

-- the same list as model/status.py
create or replace function headway.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if old.status = new.status
     or (old.status || '>' || new.status) = any (array[
       'scheduled>queued', 'queued>scheduled', 'held>queued', 'held>scheduled', 'queued>running',
       'running>succeeded', 'running>scheduled', 'running>queued', 'running>waiting', 'waiting>queued',
       'running>dead', 'running>failed', 'queued>canceled', 'scheduled>canceled', 'held>canceled',
       'waiting>canceled', 'running>canceled', 'dead>queued', 'failed>queued', 'canceled>queued',
       'succeeded>queued', 'dead>held', 'failed>held', 'canceled>held', 'succeeded>held'
     ])
  then
    return new;
  end if;
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;

drop trigger jobs_moves on headway.jobs;
-- the moves of every day are inline and cost no function call; few, and as one constant: it is read like a check's
create trigger jobs_moves
  before update of status on headway.jobs
  for each row
  when (
    (old.status || '>' || new.status)
      <> all ('{queued>running,running>succeeded,held>queued,scheduled>queued}'::text[])
  )
  execute function headway.refuse_move();
