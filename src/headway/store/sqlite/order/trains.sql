-- Differs because the trains of a tenant are found one by one, each by a probe into the indexes that hold its cars.

-- name: car
select rowid, tenant_id, train, status
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: held_cars
select id, position
from jobs indexed by jobs_held
where tenant_id = ?1
  and train = ?2
  and status = 'held'
order by position;

-- name: clear
-- up to the last car that is there now
insert into holds (tenant_id, train, since, reason, actor, clear_to)
values (?1, ?2, ?3, ?4, ?5, max(
  coalesce((
    select max(position)
    from jobs indexed by jobs_held
    where tenant_id = ?1
      and train = ?2
      and status = 'held'
  ), 0),
  coalesce((
    select position
    from jobs indexed by jobs_locomotive
    where tenant_id = ?1
      and train = ?2
      and {order/next_car.is_locomotive}
      and status <> 'running'
  ), 0)
))
on conflict (tenant_id, train) do update
set clear_to = excluded.clear_to,
  reason = excluded.reason,
  actor = excluded.actor,
  job_id = null;

-- name: clearing
select clear_to
from holds
where tenant_id = ?1
  and train = ?2
  and clear_to is not null;

-- name: to_clear
-- the next cars of a train that is being cleared
select rowid
from (
  select rowid
  from jobs indexed by jobs_locomotive
  where tenant_id = ?1
    and train = ?2
    and {order/next_car.is_locomotive}
    and status <> 'running'
    and position <= ?3
)
union all
select rowid
from (
  select rowid
  from jobs indexed by jobs_held
  where tenant_id = ?1
    and train = ?2
    and status = 'held'
    and position <= ?3
  order by position, id
  limit ?4
);

-- name: first_left
-- the position of the next car to be cleared
select position
from jobs indexed by jobs_held
where tenant_id = ?1
  and train = ?2
  and status = 'held'
  and position <= (select clear_to from holds where tenant_id = ?1 and train = ?2)
order by position
limit 1;

-- name: cleared
delete from holds
where tenant_id = ?1
  and train = ?2
  and clear_to is not null;

-- name: tenants
-- the tenants that have trains
with recursive found (tenant_id) as (
  select ''
  union all
  select nullif(min(
    coalesce((
      select tenant_id
      from jobs indexed by jobs_locomotive
      where train is not null
        and {order/next_car.is_locomotive}
        and tenant_id > found.tenant_id
      order by tenant_id
      limit 1
    ), x'ff'),
    coalesce((
      select tenant_id
      from jobs indexed by jobs_held
      where train is not null
        and status = 'held'
        and tenant_id > found.tenant_id
      order by tenant_id
      limit 1
    ), x'ff'),
    coalesce((
      select tenant_id
      from holds
      where tenant_id > found.tenant_id
      order by tenant_id
      limit 1
    ), x'ff')
  ), x'ff')
  from found
  where found.tenant_id is not null
)
select tenant_id
from found
where tenant_id <> '';

-- name: names
-- the next trains of a tenant; ?4 says which: on hold, not on hold, or (null) any
with recursive found (train) as (
  select ?2
  union all
  select nullif(min(
    coalesce((
      select train
      from jobs indexed by jobs_locomotive
      where tenant_id = ?1
        and train > found.train
        and {order/next_car.is_locomotive}
      order by train
      limit 1
    ), x'ff'),
    coalesce((
      select train
      from jobs indexed by jobs_held
      where tenant_id = ?1
        and train > found.train
        and status = 'held'
      order by train
      limit 1
    ), x'ff'),
    coalesce((
      select train
      from holds
      where tenant_id = ?1
        and train > found.train
      order by train
      limit 1
    ), x'ff')
  ), x'ff')
  from found
  where found.train is not null
)
select train
from found
where train > ?2
  and (?4 is null or ?4 = exists (
    select 1
    from holds
    where tenant_id = ?1
      and holds.train = found.train
  ))
limit ?3;

-- name: trains
select
  named.value ->> 1, named.value ->> 0, coalesce(tenants.slug, named.value ->> 0),
  (
    select count(*)
    from jobs indexed by jobs_held
    where tenant_id = named.value ->> 0
      and train = named.value ->> 1
      and status = 'held'
  ) + (locomotive.rowid is not null),
  head.id, head.kind, head.status, head.created_at, coalesce(head.pending, 0),
  holds.since, holds.job_id, holds.reason, holds.actor
from json_each(?1) as named
left join jobs as locomotive
  on locomotive.rowid = (
    select rowid
    from jobs indexed by jobs_locomotive
    where tenant_id = named.value ->> 0
      and train = named.value ->> 1
      and {order/next_car.is_locomotive}
  )
left join jobs as head
  on head.rowid = coalesce(locomotive.rowid, (
    select rowid
    from jobs indexed by jobs_held
    where tenant_id = named.value ->> 0
      and train = named.value ->> 1
      and status = 'held'
    order by position, id
    limit 1
  ))
left join holds
  on holds.tenant_id = named.value ->> 0
  and holds.train = named.value ->> 1
left join tenants
  on tenants.id = named.value ->> 0
where (head.rowid is not null or holds.train is not null)
  and (?2 is null or ?2 = (holds.train is not null));

-- name: cars
select id
from (
  select id, 0 as held, position
  from jobs indexed by jobs_locomotive
  where tenant_id = ?1
    and train = ?2
    and {order/next_car.is_locomotive}
  union all
  select *
  from (
    select id, 1, position
    from jobs indexed by jobs_held
    where tenant_id = ?1
      and train = ?2
      and status = 'held'
    order by position, id
    limit ?3
  )
)
order by held, position, id
limit ?3;

-- name: place
-- the held cars before this one (up to 10,000), and the locomotive
select
  (
    select count(*)
    from (
      select 1
      from jobs as other indexed by jobs_held
      where other.tenant_id = me.tenant_id
        and other.train = me.train
        and other.status = 'held'
        and (other.position, other.id) < (me.position, me.id)
      limit 10000
    )
  ),
  (
    select other.id
    from jobs as other indexed by jobs_locomotive
    where other.tenant_id = me.tenant_id
      and other.train = me.train
      and (other.status = 'queued' or other.status = 'running' or other.status = 'scheduled' or other.status = 'waiting')
  )
from jobs as me
where me.id = ?1
  and me.train is not null;
