-- Differs because it reads first, and takes the write lock only to repair.

-- name: trains
-- the next trains that have held cars, each found by a probe
with recursive seen (job, n) as (
  select (
    select rowid
    from jobs indexed by jobs_held
    where train is not null
      and status = 'held'
      and (tenant_id, train) > (?1, ?2)
    order by tenant_id, train
    limit 1
  ), 1
  union all
  -- the tenant's next, else the next tenant's first: a row-value comparison would walk over all cars before
  select coalesce(
    (
      select next.rowid
      from jobs as next indexed by jobs_held
      where next.status = 'held'
        and next.tenant_id = at.tenant_id
        and next.train > at.train
      order by next.train
      limit 1
    ),
    (
      select next.rowid
      from jobs as next indexed by jobs_held
      where next.train is not null
        and next.status = 'held'
        and next.tenant_id > at.tenant_id
      order by next.tenant_id, next.train
      limit 1
    )
  ), seen.n + 1
  from seen
  join jobs as at
    on at.rowid = seen.job
  where seen.n < ?3
)
select jobs.tenant_id, jobs.train
from seen
join jobs
  on jobs.rowid = seen.job;

-- name: pending
-- the next jobs that wait for others, and whether one of those is unfinished
select id, exists (
  select 1
  from edges
  join jobs as parent
    on parent.id = edges.parent_id
  where edges.child_id = jobs.id
    and edges.fence = case when jobs.status = 'waiting' then jobs.joining else 0 end
    and edges.state = 'pending'
    and parent.finished_at is null
)
from jobs indexed by jobs_pending
where pending = 1
  and id > ?1
order by id
limit ?2;

-- name: awaiting
-- the next machines that await signals, and whether they have any
select id, exists (
  select 1
  from signals
  where job_id = jobs.id
    and fence is null
), awaiting, match_all,
-- a flow that waits for a child that is over or gone
step is '$flow' and exists (
  select 1
  from edges
  left join jobs as child
    on child.id = edges.parent_id
  where edges.child_id = jobs.id
    and edges.fence = -1
    and edges.state = 'pending'
    and (child.id is null or child.finished_at is not null)
)
from jobs indexed by jobs_listed
where status = 'waiting'
  and status <> 'queued'
  and status <> 'running'
  and id > ?1
order by id
limit ?2;

-- name: standing_for
-- the first jobs of a queue: one of them may hold the free slot of a key
select {order/capacity.candidate}
from jobs
where status = 'queued'
  and limited_by is null
  and queue = ?1
order by priority, position, id
limit ?2;

-- name: waker
select exists (
  select 1
  from buckets
  where key = ?1
    and wake_at is not null
);

-- name: holding
-- of these trains, those whose first car holds its train if it fails
select key.value ->> 0, key.value ->> 1
from json_each(?1) as key
join jobs as head
  on head.rowid = (
    select rowid
    from jobs indexed by jobs_held
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
      and status = 'held'
    order by position, id
    limit 1
  )
where head.on_canceled = 'hold'
  or head.on_dead = 'hold';
