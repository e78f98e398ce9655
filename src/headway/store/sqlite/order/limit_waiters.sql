-- Differs because writers are serial: nothing has to be locked.

-- name: first
-- for each of these keys the first job that it limits, its queue, and the last queue that has some
select
  named.key, named.value, job.rowid, job.queue,
  (
    select queue
    from jobs indexed by jobs_aside
    where limited_by = named.key
    order by queue desc
    limit 1
  )
from json_each(?1) as named
join jobs as job
  on job.rowid = (
    select rowid
    from jobs indexed by jobs_aside
    where limited_by = named.key
    order by queue, priority, position, id
    limit 1
  );

-- name: next_queue
select queue
from jobs indexed by jobs_aside
where limited_by = ?1
  and queue > ?2
order by queue
limit 1;

-- name: of_queue
select rowid
from jobs indexed by jobs_aside
where limited_by = ?1
  and queue = ?2
order by priority, position, id
limit ?3;

-- name: some_of_key
select rowid
from jobs indexed by jobs_aside
where limited_by = ?1
order by queue, priority, position, id
limit ?2;

-- name: most_of_tenant
-- how many jobs of a tenant may run at once: its own limit, or the one of every tenant
select max_running
from limits
where scope = 'tenant'
  and name in ('*', ?1)
order by name = '*'
limit 1;

-- name: admit
-- by rowid: an update that finds its rows itself takes twice the time
update jobs
set limited_by = null
where rowid = ?1;

-- name: mark
update jobs
set limited_by = ?2
where rowid = ?1;

-- name: keys
-- the next keys that limit queued jobs
with recursive named (key, n) as (
  select (
    select limited_by
    from jobs indexed by jobs_aside
    where limited_by > ?1
    order by limited_by
    limit 1
  ), 1
  union all
  select (
    select limited_by
    from jobs indexed by jobs_aside
    where limited_by > named.key
    order by limited_by
    limit 1
  ), named.n + 1
  from named
  where named.key is not null
    and named.n < ?2
)
select key
from named
where key is not null;

-- name: first_of_key
-- the first job that each of these keys limits
select
  limited_by, queue, {order/capacity.candidate}
from json_each(?1) as named
join jobs
  on jobs.rowid = (
    select rowid
    from jobs indexed by jobs_aside
    where limited_by = named.value
    order by queue, priority, position, id
    limit 1
  );

-- name: guard
-- claims of the queue have to check partitions and limits from now on
insert into queues (name, guarded)
values (?1, 1)
on conflict (name) do update
set guarded = 1
where guarded = 0;

-- name: guard_of_job
-- claims of its new queue have to check partitions and limits from now on
insert into queues (name, guarded)
select queue, 1
from jobs
where rowid = ?1
  and (partition is not null or concurrency is not null or rate_count is not null)
on conflict (name) do update
set guarded = 1
where guarded = 0;
