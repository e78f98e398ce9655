-- Back to version 1, which knows no order and exclusion: what is held is queued, or scheduled if its time is to come.

update counters
set value = value + 1024 * (
  select count(*)
  from jobs
  where status = 'held'
    and position is null
)
where name = 'position';

update jobs
set position = counters.value - 1024 * last.back
from counters, (
  select rowid as job, row_number() over (order by id desc) - 1 as back
  from jobs
  where status = 'held'
    and position is null
) as last
where counters.name = 'position'
  and jobs.rowid = last.job;

drop index jobs_locomotive;

-- or ignore: the next statement ends those whose unique key is taken
update or ignore jobs
set status = case when scheduled_for > unixepoch() * 1000000 then 'scheduled' else 'queued' end,
  queued_at = case when scheduled_for > unixepoch() * 1000000 then null else unixepoch() * 1000000 end
where status = 'held';

update jobs
set status = 'canceled',
  finished_at = unixepoch() * 1000000,
  error = 'superseded: its unique key is taken',
  unique_key = null
where status = 'held';

drop table reservations;

drop table buckets;

drop table limits;

drop table groups;

drop table edges;

drop table holds;

drop trigger jobs_moves;

drop index jobs_group;

drop index jobs_metered;

drop index jobs_limited;

drop index jobs_partition;

drop index jobs_pending;

drop index jobs_held;

drop index jobs_fair;

drop index jobs_aside;

drop index jobs_claim;

alter table jobs drop column pending;

alter table jobs drop column group_id;

alter table jobs drop column fair;

alter table jobs drop column metered;

alter table jobs drop column limited;

alter table jobs drop column limited_by;

alter table jobs drop column rate_key;

alter table jobs drop column rate_burst;

alter table jobs drop column rate_period_ms;

alter table jobs drop column rate_count;

alter table jobs drop column concurrency_key;

alter table jobs drop column concurrency;

alter table jobs drop column partition;

alter table jobs drop column on_dead;

alter table jobs drop column on_canceled;

alter table jobs drop column train;

create index jobs_claim
on jobs (queue, priority, position, id)
where status = 'queued';

create index jobs_parked
on jobs (queue, status)
where status = 'held'
  or status = 'waiting';

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

drop index queues_fair;

alter table queues drop column guarded;

alter table queues drop column turn;

alter table queues drop column fair;
