-- Order and exclusion: trains, partitions, limits, fair queues, joins, groups and reservations.
-- Each index of jobs is partial, and its first condition is one that a plain job fails: that is cheap, but not free.

-- an enqueue spares itself the look at this tenant
insert into tenants (id, slug, created_at)
values ('cbc7797a-7d82-5166-9044-8e0ae3cba0bc', 'default', unixepoch() * 1000000)
on conflict (id) do nothing;

alter table queues add column fair integer not null default 0;

-- the tenant that was served last
alter table queues add column turn text;

-- it had jobs with a partition or limits of their own, so its claims have to look at them
alter table queues add column guarded integer not null default 0;

create index queues_fair
on queues (name)
where fair = 1;

alter table jobs add column train text;

alter table jobs add column on_canceled text check (on_canceled = 'advance' or on_canceled = 'hold');

alter table jobs add column on_dead text check (on_dead = 'advance' or on_dead = 'hold');

alter table jobs add column partition text;

alter table jobs add column concurrency integer;

alter table jobs add column concurrency_key text;

alter table jobs add column rate_count integer;

alter table jobs add column rate_period_ms integer;

alter table jobs add column rate_burst integer;

alter table jobs add column rate_key text;

-- while it is queued: the full limit that it waits for, out of the claim's way
alter table jobs add column limited_by text;

-- while it is running: it counts under the limit of its queue, kind or tenant (1), or only under that of its key (2)
alter table jobs add column limited integer not null default 0;

-- it counts for its tenant's max_pending
alter table jobs add column metered integer not null default 0;

-- it is in a fair queue
alter table jobs add column fair integer not null default 0;

alter table jobs add column group_id text;

-- while it is held: it waits for other jobs
alter table jobs add column pending integer not null default 0;

-- cars enter and leave it, and jobs_listed has what is held or waits as well
drop index jobs_parked;

drop index jobs_claim;

create index jobs_claim
on jobs (queue, priority, position, id)
where status = 'queued'
  and limited_by is null;

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

-- what counts under a limit: by kind, tenant and key; by tenant or queue alone it is read as a whole
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

drop trigger jobs_moves;

-- The moves of model/status.py; a test holds the two lists equal. Those that every job and car makes are spared the search.
create trigger jobs_moves
after update of status on jobs
when old.status <> new.status
  and (old.status <> 'queued' or new.status <> 'running')
  and (old.status <> 'running' or new.status <> 'succeeded')
  and (old.status <> 'held' or new.status <> 'queued')
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
  ', ';' || old.status || '>' || new.status || ';') = 0
begin
  select raise(abort, 'a job cannot make this move: model/status.py lists the moves that exist');
end;

-- only trains that stand still have a row
create table holds (
  tenant_id text not null,
  train text not null,
  since integer not null,
  job_id text,
  reason text,
  actor text,
  primary key (tenant_id, train)
) strict, without rowid;

create table edges (
  parent_id text not null,
  child_id text not null,
  tenant_id text not null,
  on_failure text not null check (on_failure in ('stop', 'continue')),
  state text not null default 'pending' check (state in ('pending', 'done', 'failed')),
  primary key (parent_id, child_id)
) strict, without rowid;

create index edges_child
on edges (child_id, state);

create table groups (
  id text not null primary key,
  tenant_id text not null,
  mode text not null check (mode in ('parallel', 'sequential')),
  on_failure text not null check (on_failure in ('stop', 'continue', 'skip')),
  callback_id text,
  created_at integer not null,
  stopped_at integer
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
  primary key (scope, name)
) strict, without rowid;

create index limits_pending
on limits (name)
where max_pending is not null;

-- rates: a bucket that is not here is full
create table buckets (
  key text not null primary key,
  tokens real not null,
  at integer not null,
  full_at integer not null,
  wake_at integer
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
