-- Back to version 2, which knows no machines: those that are not over are canceled, as they would begin anew at their
-- first step; their states and signals are gone. What waited for them is let go by the next sweep.

insert into attempts (job_id, fence, status, started_at, finished_at, worker_id, error, stdout_tail)
select
  id, fence, 'canceled', attempt_started_at, unixepoch() * 1000000, worker_id,
  'canceled because schema version 2 knows no machines', log_tail
from jobs
where status = 'running'
  and step is not null;

-- or ignore: the next statement ends those whose unique key is taken
update or ignore jobs
set status = 'canceled',
  finished_at = unixepoch() * 1000000,
  error = 'canceled because schema version 2 knows no machines',
  limited_by = null,
  pending = 0,
  worker_id = null,
  attempt_started_at = null,
  cancel_requested_at = null,
  cancel_reason = null
where finished_at is null
  and (step is not null or status = 'waiting');

update jobs
set status = 'canceled',
  finished_at = unixepoch() * 1000000,
  error = 'canceled because schema version 2 knows no machines',
  limited_by = null,
  pending = 0,
  worker_id = null,
  attempt_started_at = null,
  cancel_requested_at = null,
  cancel_reason = null,
  unique_key = null
where finished_at is null
  and (step is not null or status = 'waiting');

drop table signals;

drop index edges_child;

alter table edges rename to edges_before;

create table edges (
  parent_id text not null,
  child_id text not null,
  tenant_id text not null,
  on_failure text not null check (on_failure in ('stop', 'continue')),
  state text not null default 'pending' check (state in ('pending', 'done', 'failed')),
  primary key (parent_id, child_id)
) strict, without rowid;

insert into edges (parent_id, child_id, tenant_id, on_failure, state)
select parent_id, child_id, tenant_id, on_failure, state
from edges_before
where fence = 0;

drop table edges_before;

create index edges_child
on edges (child_id, state);

alter table attempts drop column woken;

alter table attempts drop column note;

alter table attempts drop column outcome;

alter table attempts drop column version;

drop trigger jobs_moves;

drop index jobs_children;

drop index jobs_deadline;

alter table jobs drop column state;

alter table jobs drop column signaled;

alter table jobs drop column parent_id;

alter table jobs drop column forked_from;

alter table jobs drop column home_partition;

alter table jobs drop column home_queue;

alter table jobs drop column woken;

alter table jobs drop column joining;

alter table jobs drop column deadline_at;

alter table jobs drop column match_all;

alter table jobs drop column awaiting;

alter table jobs drop column step;

alter table jobs drop column version;

-- The moves of version 2. The two that every job makes are spared the search.
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
  ', ';' || old.status || '>' || new.status || ';') = 0
begin
  select raise(abort, 'a job cannot make this move: model/status.py lists the moves that exist');
end;
