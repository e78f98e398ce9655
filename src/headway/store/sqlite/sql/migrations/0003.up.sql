-- Machines: where each is, what it waits for, its signals, and the jobs that it spawned.
-- All of it is null for a plain job, and no index of it minds a status: neither a claim nor a settle of one pays for it.

alter table jobs add column version integer;

alter table jobs add column step text;

-- a JSON array of names
alter table jobs add column awaiting text;

-- null: one of them is enough
alter table jobs add column match_all integer;

-- of its await, while it waits
alter table jobs add column deadline_at integer;

-- the execution that spawned the jobs that it waits, or waited, for
alter table jobs add column joining integer;

alter table jobs add column woken text check (woken = 'signal' or woken = 'children' or woken = 'timeout');

alter table jobs add column home_queue text;

alter table jobs add column home_partition text;

alter table jobs add column forked_from text;

alter table jobs add column parent_id text;

-- it has had a signal although it has no step yet, so a claim has to look
alter table jobs add column signaled integer;

alter table jobs add column state text;

create index jobs_deadline
on jobs (deadline_at)
where deadline_at is not null
  and finished_at is null;

create index jobs_children
on jobs (parent_id, id)
where parent_id is not null;

alter table attempts add column version integer;

alter table attempts add column outcome text;

alter table attempts add column note text;

alter table attempts add column woken text;

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
  payload text not null
) strict;

-- by job: those that nobody consumed yet come first, in order of arrival
create index signals_job
on signals (job_id, fence);

create unique index signals_dedup
on signals (job_id, dedup_key)
where dedup_key is not null;

drop index edges_child;

alter table edges rename to edges_before;

-- fence: of the execution that spawned the parent for its machine; 0 where the child only comes after the parent
create table edges (
  parent_id text not null,
  child_id text not null,
  fence integer not null default 0,
  tenant_id text not null,
  on_failure text not null check (on_failure in ('stop', 'continue')),
  state text not null default 'pending' check (state in ('pending', 'done', 'failed')),
  place integer,
  primary key (parent_id, child_id, fence)
) strict, without rowid;

insert into edges (parent_id, child_id, tenant_id, on_failure, state)
select parent_id, child_id, tenant_id, on_failure, state
from edges_before;

drop table edges_before;

create index edges_child
on edges (child_id, fence, state);

drop trigger jobs_moves;

-- The moves of model/status.py; a test holds the two lists equal. The two that every job makes are spared the search.
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
