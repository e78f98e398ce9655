-- Differs because the neighbours are read under the write lock. A line is the held cars of a train, or the queued jobs of a
-- queue with the same priority, limited ones included.

-- name: job
select rowid, id, tenant_id, queue, train, status, priority, position
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- part: cars
jobs indexed by jobs_held
where tenant_id = ?1
  and train = ?2
  and status = 'held'
  and id <> ?3

-- part: claimable
jobs indexed by jobs_claim
where status = 'queued'
  and limited_by is null
  and queue = ?1
  and id <> ?3

-- part: limited
jobs indexed by jobs_aside
where limited_by is not null
  and queue = ?1
  and id <> ?3

-- name: first_car
select rowid, id, priority, position
from {cars}
order by position, id
limit 1;

-- name: last_car
select rowid, id, priority, position
from {cars}
order by position desc, id desc
limit 1;

-- name: cars_before
select rowid, position
from {cars}
  and (position, id) < (?4, ?5)
order by position desc, id desc
limit ?6;

-- name: cars_after
select rowid, position
from {cars}
  and (position, id) > (?4, ?5)
order by position, id
limit ?6;

-- name: first_queued
select rowid, id, priority, position
from (
  select *
  from (
    select rowid, id, priority, position
    from {claimable}
    order by priority, position, id
    limit 1
  )
  union all
  select rowid, id, priority, position
  from {limited}
)
order by priority, position, id
limit 1;

-- name: last_queued
select rowid, id, priority, position
from (
  select *
  from (
    select rowid, id, priority, position
    from {claimable}
    order by priority desc, position desc, id desc
    limit 1
  )
  union all
  select rowid, id, priority, position
  from {limited}
)
order by priority desc, position desc, id desc
limit 1;

-- name: queued_before
select rowid, position
from (
  select *
  from (
    select rowid, id, position
    from {claimable}
      and priority = ?2
      and (position, id) < (?4, ?5)
    order by position desc, id desc
    limit ?6
  )
  union all
  select rowid, id, position
  from {limited}
    and priority = ?2
    and (position, id) < (?4, ?5)
)
order by position desc, id desc
limit ?6;

-- name: queued_after
select rowid, position
from (
  select *
  from (
    select rowid, id, position
    from {claimable}
      and priority = ?2
      and (position, id) > (?4, ?5)
    order by position, id
    limit ?6
  )
  union all
  select rowid, id, position
  from {limited}
    and priority = ?2
    and (position, id) > (?4, ?5)
)
order by position, id
limit ?6;

-- name: put
update jobs
set priority = ?2,
  position = ?3
where rowid = ?1;

-- name: shift
update jobs
set position = ?2
where rowid = ?1;
