-- The first schema: tenants, queues, jobs, attempts, workers, audit and the position counter.
-- Ids are canonical UUID text, times whole microseconds since 1970 (UTC), JSON is text.
-- A list under `in` is built anew for every row that a batch writes, so what writes look at is searched by instr.

create table tenants (
  id text not null primary key,
  slug text not null,
  created_at integer not null
) strict, without rowid;

create table queues (
  name text not null primary key,
  paused_at integer,
  paused_by text
) strict, without rowid;

create table counters (
  name text not null primary key,
  value integer not null
) strict, without rowid;

insert into counters (name, value) values ('position', 0);

-- What may be long stands last: reading the columns before it does not walk its overflow pages.
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
  unique_scope text not null,
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
  payload text not null,
  meta text,
  result text,
  error text,
  log_tail text
) strict;

create index jobs_claim
on jobs (queue, priority, position, id)
where status = 'queued';

create index jobs_due
on jobs (scheduled_for, id)
where status = 'scheduled';

create index jobs_running
on jobs (worker_id)
where status = 'running';

create index jobs_parked
on jobs (queue, status)
where status = 'held'
  or status = 'waiting';

create index jobs_expiring
on jobs (expires_at)
where expires_at is not null
  and finished_at is null;

create unique index jobs_unique
on jobs (tenant_id, kind, unique_key)
where unique_key is not null
  and instr(unique_scope, '"' || status || '"') > 0;

create unique index jobs_idempotency
on jobs (tenant_id, kind, idempotency_key)
where idempotency_key is not null;

create unique index jobs_retry_of
on jobs (retry_of)
where retry_of is not null;

create index jobs_prune
on jobs (status, finished_at)
where finished_at is not null;

create index jobs_listed
on jobs (status, id)
where status <> 'queued'
  and status <> 'running';

create index jobs_tenant
on jobs (tenant_id, id)
where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc';

-- The moves of model/status.py; a test holds the two lists equal.
create trigger jobs_moves
after update of status on jobs
when old.status <> new.status
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
  ', ';' || old.status || '>' || new.status || ';') = 0
begin
  select raise(abort, 'a job cannot make this move: model/status.py lists the moves that exist');
end;

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
  artifacts text,
  state text,
  error text,
  stdout_tail text,
  stderr_tail text,
  primary key (job_id, fence)
) strict, without rowid;

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
  busy text not null default '[]',
  lease_ms integer not null,
  started_at integer not null,
  heartbeat_at integer not null,
  lease_expires_at integer not null,
  metadata text not null
) strict, without rowid;

create table audit (
  id integer primary key,
  at integer not null,
  tenant_id text,
  job_id text,
  actor text,
  action text not null,
  detail text
) strict;

create index audit_job
on audit (job_id, id)
where job_id is not null;
