-- Differs because writers take turns: nothing has to be locked. The rows travel as one JSON list.

-- name: running
-- of these jobs, those that this worker, or any, runs
select id, fence
from jobs
where id in (select value from json_each(?1))
  and status = 'running'
  and (?2 is null or worker_id = ?2);

-- name: there
-- the children of those of these rows that were recorded before
select f.job_id, f.seq, f.value ->> 'id'
from json_each(?1) as named
join flow_journal as f
  on f.job_id = named.value ->> 0
  and f.seq = named.value ->> 1;

-- name: record
insert into flow_journal (job_id, seq, fence, kind, place, value, error, print, took_ms, signal, at)
select
  value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
  value ->> 9, ?2
from json_each(?1)
where true
on conflict do nothing;

-- name: times
-- a row that was there has a time of its own
select f.job_id, f.at
from json_each(?1) as named
join flow_journal as f
  on f.job_id = named.value ->> 0
  and f.seq = named.value ->> 1;

-- name: begin_anew
delete from flow_journal
where job_id = ?1
  and seq < ?2;

-- name: consume
update signals
set fence = named.value ->> 2,
  consumed_at = ?2
from json_each(?1) as named
where signals.id = named.value ->> 0
  and signals.job_id = named.value ->> 1
  and signals.fence is null;

-- name: call
-- one that was left before is waited for again
insert into edges (parent_id, child_id, fence, tenant_id, on_failure, state)
select value ->> 0, value ->> 1, -1, value ->> 2, 'continue', value ->> 3
from json_each(?1)
where true
on conflict (parent_id, child_id, fence) do update
set state = excluded.state;

-- name: settle
-- unless the step is settled, and no retry from the start has taken that back
insert into flow_journal (job_id, seq, fence, kind, place, value, print, took_ms, at)
select
  id, min(0, coalesce((select min(seq) from flow_journal where job_id = ?1), 0)) - 1, ?2, 'settled', ?3, ?4, ?5, ?6, ?7
from jobs
where id = ?1
  and fence = ?2
  and status = 'running'
  and not exists (
    select 1
    from flow_journal as noted
    where noted.job_id = ?1
      and noted.seq < 0
      and noted.place = ?3
      and not exists (
        select 1
        from flow_journal as taken
        where taken.job_id = ?1
          and taken.kind = 'forgotten'
          and taken.fence >= noted.fence
          and taken.value ->> 'from' < 1
      )
  )
returning seq;

-- name: runs
select fence = ?2 and status = 'running'
from jobs
where id = ?1;

-- name: state
update jobs
set state = named.value ->> 2
from json_each(?2) as named
where jobs.id = named.value ->> 0
  and jobs.fence = named.value ->> 1
  and jobs.status = 'running'
  and jobs.worker_id = ?1;
