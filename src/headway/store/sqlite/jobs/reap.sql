-- Differs because the lost executions are picked by a read and ended by the statements of settle.

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

-- name: pick
select
  -- where checks were off, a row may be running without a start
  rowid, id, fence, worker_id, coalesce(attempt_started_at, started_at, created_at), log_tail, cancel_requested_at is not null, cancel_reason,
  unique_key, unique_scope,
  train is not null or partition is not null or concurrency_key is not null or limited = 1 or group_id is not null
    or exists (
      select 1
      from edges
      where parent_id = jobs.id
    ),
  coalesce(step, signaled) is not null,
  exists (
    select 1
    from triggers indexed by triggers_engine
    where enabled = 1
      and type = 'event'
      and event >= 'headway.job.'
      and event < 'headway.job/'
  ),
  kind, (select hostname || ':' || pid from workers where workers.id = jobs.worker_id),
  (select stopping from workers where workers.id = jobs.worker_id),
  delivery, tries, losses, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms
from jobs indexed by jobs_running
where status = 'running'
  and not exists (
    select 1
    from workers
    where workers.id = jobs.worker_id
      and workers.lease_expires_at > ?1
      and workers.id not in (select value from json_each(?2))
  )
-- at random where some cannot be ended: they do not keep the others out of the limit for ever
order by case when ?4 then random() end, worker_id, id
limit ?3;

-- name: remove
delete from workers
where (lease_expires_at <= ?1 or id in (select value from json_each(?2)))
  and not exists (
    select 1
    from jobs indexed by jobs_running
    where status = 'running'
      and jobs.worker_id = workers.id
  );
