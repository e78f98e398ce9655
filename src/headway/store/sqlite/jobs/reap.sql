-- Differs because lost executions are read first and ended by the statements of settle.

-- name: steady
select exists (
  select 1
  from workers
  where id = ?1
    and ?2 between heartbeat_at and heartbeat_at + late_ms * 1000
    and ?2 >= steady_since + lease_ms * 1000
);

-- name: probe
select
  exists (
    select 1
    from workers
    where lease_expires_at <= ?1
      or id in (select value from json_each(?2))
  ),
  exists (
    select 1
    from jobs indexed by jobs_running
    where status = 'running'
      and (worker_id is null or worker_id not in (select id from workers))
  );

-- part: lost
{jobs/ending.running},
kind, (select hostname || ':' || pid from workers where workers.id = jobs.worker_id),
(select stopping from workers where workers.id = jobs.worker_id),
delivery, tries, losses, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms,
-- a flow that recorded something
step is '$flow' and jobs.fence = max(
  coalesce((select f.fence from flow_journal as f where f.job_id = jobs.id order by f.seq desc limit 1), 0),
  coalesce((select max(f.fence) from flow_journal as f where f.job_id = jobs.id and f.seq < 0), 0)
),
committed is not null

-- name: pick_of_worker
select {lost}
from jobs indexed by jobs_running
where status = 'running'
  and worker_id = ?1
order by id;

-- name: name
select hostname || ':' || pid
from workers
where id = ?1;

-- name: pick
select {lost}
from jobs indexed by jobs_running
where status = 'running'
  and not exists (
    select 1
    from workers
    where workers.id = jobs.worker_id
      and workers.lease_expires_at > ?1
      and workers.id not in (select value from json_each(?2))
  )
-- in random order if some could not be ended: those must not fill the limit every time
order by case when ?4 then random() end, worker_id, id
limit ?3;

-- name: removable
select id
from workers
where (lease_expires_at <= ?1 or id in (select value from json_each(?2)))
  and not exists (
    select 1
    from jobs indexed by jobs_running
    where status = 'running'
      and jobs.worker_id = workers.id
  );
