-- What is to be fired now. Differs because it is three looks on a read connection: whether there is anything, which,
-- and only then the rows.

-- name: probe
-- when the first schedule is due that the caller may fire; is there a pending event; how definitions are
select
  (
    select g.next_fire_at
    from triggers as g indexed by triggers_due
    left join templates as m
      on m.id = g.template_id
    left join definitions as d
      on d.kind = coalesce(g.kind, m.kind)
    where g.enabled = 1
      and g.type = 'schedule'
      and g.next_fire_at is not null
      and (g.origin <> 'code' or g.id in (select value from json_each(?2)))
      and (d.kind is null or d.computed = 0 or d.kind in (select value from json_each(?1)))
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
left join templates as m
  on m.id = g.template_id
left join definitions as d
  on d.kind = coalesce(g.kind, m.kind)
where g.enabled = 1
  and g.type = 'schedule'
  and g.next_fire_at is not null
  and g.next_fire_at <= ?3
  and (g.origin <> 'code' or g.id in (select value from json_each(?2)))
  and (d.kind is null or d.computed = 0 or d.kind in (select value from json_each(?1)))
order by g.next_fire_at, g.id
limit ?4;

-- name: events
-- the oldest; but those of which all triggers are for others to fire, for a while
select e.id
from events as e indexed by events_pending
where e.status = 'pending'
  and (
    e.emitted_at <= ?3
    or coalesce(
      (
        select min(coalesce(d.computed, 0) = 1 and d.kind not in (select value from json_each(?1)))
        from triggers as g indexed by triggers_event
        left join templates as m
          on m.id = g.template_id
        left join definitions as d
          on d.kind = coalesce(g.kind, m.kind)
        where g.tenant_id = e.tenant_id
          and g.event = e.name
          and g.enabled = 1
          and g.type = 'event'
          and g.created_at <= e.emitted_at
          and not exists (
            select 1
            from fires indexed by fires_event
            where event_id = e.id
              and trigger_id = g.id
          )
      ),
      0
    ) = 0
  )
order by e.id
limit ?2;

-- name: events_of
-- one tenant's part of them
select e.id
from events as e indexed by events_turn
where e.status = 'pending'
  and e.tenant_id = ?4
  and (
    e.emitted_at <= ?3
    or coalesce(
      (
        select min(coalesce(d.computed, 0) = 1 and d.kind not in (select value from json_each(?1)))
        from triggers as g indexed by triggers_event
        left join templates as m
          on m.id = g.template_id
        left join definitions as d
          on d.kind = coalesce(g.kind, m.kind)
        where g.tenant_id = e.tenant_id
          and g.event = e.name
          and g.enabled = 1
          and g.type = 'event'
          and g.created_at <= e.emitted_at
          and not exists (
            select 1
            from fires indexed by fires_event
            where event_id = e.id
              and trigger_id = g.id
          )
      ),
      0
    ) = 0
  )
order by e.id
limit ?2;

-- name: due_owner
-- the first tenant after this one that has a schedule, and when its first is due
select tenant_id, next_fire_at
from triggers indexed by triggers_turn
where enabled = 1
  and type = 'schedule'
  and next_fire_at is not null
  and tenant_id > ?1
order by tenant_id, next_fire_at
limit 1;

-- name: schedules_of
-- one tenant's part of what is due
select g.id, g.next_fire_at
from triggers as g indexed by triggers_turn
left join templates as m
  on m.id = g.template_id
left join definitions as d
  on d.kind = coalesce(g.kind, m.kind)
where g.enabled = 1
  and g.type = 'schedule'
  and g.next_fire_at is not null
  and g.tenant_id = ?5
  and g.next_fire_at <= ?3
  and (g.origin <> 'code' or g.id in (select value from json_each(?2)))
  and (d.kind is null or d.computed = 0 or d.kind in (select value from json_each(?1)))
order by g.next_fire_at
limit ?4;

-- name: event_owner
-- the first tenant after this one that has an event waiting
select tenant_id, 0
from events indexed by events_turn
where status = 'pending'
  and tenant_id > ?1
order by tenant_id
limit 1;

-- name: met
-- the triggers on these events that have no fire for them, and which of them the caller cannot fire
select e.id, g.id, coalesce(d.computed, 0) = 1 and d.kind not in (select value from json_each(?2))
from events as e
join triggers as g indexed by triggers_event
  on g.tenant_id = e.tenant_id
  and g.event = e.name
  and g.enabled = 1
  and g.type = 'event'
  and g.created_at <= e.emitted_at
left join templates as m
  on m.id = g.template_id
left join definitions as d
  on d.kind = coalesce(g.kind, m.kind)
where e.id in (select value from json_each(?1))
  and not exists (
    select 1
    from fires indexed by fires_event
    where event_id = e.id
      and trigger_id = g.id
  )
order by e.id, g.id;
