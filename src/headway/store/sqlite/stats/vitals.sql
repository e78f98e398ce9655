-- Differs because SQLite's planner is told which index has these jobs, and a file has no sessions to look at.

-- name: depths
-- each status by an index that has only such jobs, and no further than ?1; dead ones are those that wait for an operator.
-- the two `<>` are the condition of jobs_listed, which SQLite must find word for word
select tenant_id, queue, status, count(*), min(queued_at)
from (
  select tenant_id, queue, status, queued_at
  from (
    select tenant_id, queue, status, queued_at
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
    limit ?1
  )
  union all
  select tenant_id, queue, status, queued_at
  from (
    select tenant_id, queue, status, queued_at
    from jobs indexed by jobs_aside
    where limited_by is not null
    limit ?1
  )
  union all
  select tenant_id, queue, status, null
  from jobs indexed by jobs_running
  where status = 'running'
  union all
  select tenant_id, queue, status, null
  from (
    select tenant_id, queue, status
    from jobs indexed by jobs_listed
    where status = 'scheduled'
      and status <> 'queued'
      and status <> 'running'
    limit ?1
  )
  union all
  select tenant_id, queue, status, null
  from (
    select tenant_id, queue, status
    from jobs indexed by jobs_listed
    where status = 'held'
      and status <> 'queued'
      and status <> 'running'
    limit ?1
  )
  union all
  select tenant_id, queue, status, null
  from (
    select tenant_id, queue, status
    from jobs indexed by jobs_listed
    where status = 'waiting'
      and status <> 'queued'
      and status <> 'running'
    limit ?1
  )
  union all
  select tenant_id, queue, status, null
  from (
    select tenant_id, queue, status
    from jobs indexed by jobs_listed
    where status = 'dead'
      and status <> 'queued'
      and status <> 'running'
    limit ?1
  )
)
group by tenant_id, queue, status;

-- name: rest
select
  (
    select count(*)
    from workers
    where lease_expires_at > ?1
  ),
  (
    select min(heartbeat_at)
    from workers
    where lease_expires_at > ?1
  ),
  (
    select min(next_fire_at)
    from triggers indexed by triggers_due
    where enabled = 1
      and type = 'schedule'
      and next_fire_at is not null
  ),
  (
    select emitted_at
    from events indexed by events_pending
    where status = 'pending'
    order by id
    limit 1
  );

-- name: answer
select count(*)
from schema_version;
