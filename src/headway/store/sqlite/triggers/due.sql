-- Differs because it is three reads: whether anything is due, which ids, and only then the rows.

-- part: kind_of_trigger
left join templates as m
  on m.id = g.template_id
left join definitions as d
  on d.kind = coalesce(g.kind, m.kind)

-- part: suspended
(select id from tenants indexed by tenants_suspended where suspended_at is not null)

-- part: fired_here
-- a schedule whose next time the caller may fire: not another worker's code, and no kind whose keys only code can make
g.enabled = 1
and g.type = 'schedule'
and g.next_fire_at is not null
and g.tenant_id not in {suspended}
and (g.origin <> 'code' or g.id in (select value from json_each(?2)))
and (d.kind is null or d.computed = 0 or d.kind in (select value from json_each(?1)))

-- part: listens
-- an enabled trigger on the event that has no fire for it
g.tenant_id = e.tenant_id
and g.event in (
  select e.name
  union all
  select p.event
  from triggers as p indexed by triggers_patterns
  where p.tenant_id = e.tenant_id
    and p.enabled = 1
    and p.type = 'event'
    and p.event like '%*'
    and substr(e.name, 1, length(p.event) - 1) = substr(p.event, 1, length(p.event) - 1)
    and (p.event <> '*' or e.name not like 'headway.%')
)
and g.enabled = 1
and g.type = 'event'
and g.created_at <= e.emitted_at
and not exists (
  select 1
  from fires indexed by fires_event
  where event_id = e.id
    and trigger_id = g.id
)

-- part: handled_here
-- not an event that only other workers can handle: those are left to them for a while
e.tenant_id not in {suspended}
and (
  e.emitted_at <= ?3
  or coalesce(
    (
      select min(coalesce(d.computed, 0) = 1 and d.kind not in (select value from json_each(?1)))
      from triggers as g indexed by triggers_event
      {kind_of_trigger}
      where {listens}
    ),
    0
  ) = 0
)

-- name: probe
-- when the caller's first schedule is due; whether an event is pending; the state of the definitions
select
  (
    select g.next_fire_at
    from triggers as g indexed by triggers_due
    {kind_of_trigger}
    where {fired_here}
    order by g.next_fire_at
    limit 1
  ),
  exists (
    select 1
    from events indexed by events_pending
    where status = 'pending'
  ),
  (
    select count(*) || '/' || coalesce(sum(revision), 0)
    from definitions indexed by definitions_revision
  );

-- name: schedules
select g.id
from triggers as g indexed by triggers_due
{kind_of_trigger}
where {fired_here}
  and g.next_fire_at <= ?3
order by g.next_fire_at, g.id
limit ?4;

-- name: events
-- the oldest ones
select e.id
from events as e indexed by events_pending
where e.status = 'pending'
  and {handled_here}
order by e.id
limit ?2;

-- name: events_of
-- one tenant's events
select e.id
from events as e indexed by events_turn
where e.status = 'pending'
  and e.tenant_id = ?4
  and {handled_here}
order by e.id
limit ?2;

-- name: fitting
-- those of these events whose payloads are given together: every tenant's first before any's second
select id
from (
  select id, sum(size) over (order by before, id) - size as before
  from (
    select id, size, sum(size) over (partition by tenant_id order by id) - size as before
    from (
      select id, tenant_id, length(cast(payload as blob)) as size
      from events
      where id in (select value from json_each(?1))
    )
  )
)
where before < ?2
order by id;

-- name: due_owner
-- the next tenant that has a schedule, and when its first one is due
select tenant_id, next_fire_at
from triggers indexed by triggers_turn
where enabled = 1
  and type = 'schedule'
  and next_fire_at is not null
  and tenant_id > ?1
order by tenant_id, next_fire_at
limit 1;

-- name: schedules_of
-- one tenant's due schedules
select g.id, g.next_fire_at
from triggers as g indexed by triggers_turn
{kind_of_trigger}
where {fired_here}
  and g.tenant_id = ?5
  and g.next_fire_at <= ?3
order by g.next_fire_at
limit ?4;

-- name: event_owner
-- the next tenant that has a pending event
select tenant_id, 0
from events indexed by events_turn
where status = 'pending'
  and tenant_id > ?1
order by tenant_id
limit 1;

-- name: met
-- the triggers on these events without a fire for them, and whether the caller cannot fire them
select e.id, g.id, coalesce(d.computed, 0) = 1 and d.kind not in (select value from json_each(?2))
from events as e
join triggers as g indexed by triggers_event
  on {listens}
{kind_of_trigger}
where e.id in (select value from json_each(?1))
order by e.id, g.id;
