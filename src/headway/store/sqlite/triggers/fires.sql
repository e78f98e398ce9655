-- Differs because triggers, overlaps and dedupe keys are checked one by one, under the write lock.

-- name: triggers
select id, tenant_id, name, enabled, revision, next_fire_at, overlap, dedupe_window_ms, type
from triggers
where id in (select value from json_each(?1));

-- name: taken
-- those of these nominal times that the trigger has fired for
select nominal_at
from fires indexed by fires_nominal
where trigger_id = ?1
  and nominal_at is not null
  and nominal_at in (select value from json_each(?2));

-- name: unfinished
-- an unfinished job of the trigger's last fires, or one that retries such a job
with recursive made (id) as (
  select job_id
  from (
    select job_id
    from fires indexed by fires_made
    where trigger_id = ?1
      and status = 'enqueued'
      and event_id is null
    order by id desc
    limit 20
  )
  union
  select jobs.id
  from made
  join jobs
    on jobs.retry_of = made.id
)
select jobs.id
from made
join jobs
  on jobs.id = made.id
where jobs.finished_at is null
order by jobs.id desc
limit 1;

-- name: deduped
select job_id
from fires indexed by fires_dedupe
where trigger_id = ?1
  and dedupe_key = ?2
  and dedupe_key is not null
  and status = 'enqueued'
  and fired_at > ?3
order by fired_at desc
limit 1;

-- name: put
insert into fires (id, trigger_id, tenant_id, nominal_at, event_id, fired_at, status, job_id, error, dedupe_key)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: note_made
-- a fire that made a job is recorded on its trigger
update triggers
set last_fired_at = ?2,
  last_job_id = ?3,
  error = null
where id = ?1;

-- name: note_failed
update triggers
set error = ?2
where id = ?1;

-- name: set_due
update triggers
set next_fire_at = ?2
where id = ?1;

-- name: pending
select id, tenant_id
from events
where id in (select value from json_each(?1))
  and status = 'pending';

-- name: of_events
select event_id, trigger_id
from fires indexed by fires_event
where event_id in (select value from json_each(?1));

-- name: errors
-- of all fires of the event, earlier ones included
select coalesce(triggers.name, fires.trigger_id), fires.error
from fires indexed by fires_event
left join triggers
  on triggers.id = fires.trigger_id
where fires.event_id = ?1
  and fires.status = 'failed'
order by fires.id;

-- name: handled
update events
set status = ?2,
  handled_at = ?3,
  error = ?4
where id = ?1;

-- name: read
select id, trigger_id, tenant_id, nominal_at, event_id, fired_at, status, job_id, error
from fires
where id = ?1;

-- name: page
select id, trigger_id, tenant_id, nominal_at, event_id, fired_at, status, job_id, error
from fires
where id < ?1
  and (?2 is null or tenant_id = ?2)
order by id desc
limit ?3;

-- name: page_of_trigger
select id, trigger_id, tenant_id, nominal_at, event_id, fired_at, status, job_id, error
from fires indexed by fires_trigger
where trigger_id = ?4
  and id < ?1
  and (?2 is null or tenant_id = ?2)
  and (?5 is null or event_id = ?5)
order by id desc
limit ?3;

-- name: page_of_event
select id, trigger_id, tenant_id, nominal_at, event_id, fired_at, status, job_id, error
from fires indexed by fires_event
where event_id = ?4
  and id < ?1
  and (?2 is null or tenant_id = ?2)
order by id desc
limit ?3;

-- name: prune_probe
select
  exists (
    select 1
    from events indexed by events_prune
    where status = 'handled'
      and handled_at is not null
      and handled_at < ?1
  )
  or exists (
    select 1
    from events indexed by events_prune
    where status = 'failed'
      and handled_at is not null
      and handled_at < ?2
  )
  or exists (
    select 1
    from fires indexed by fires_prune
    where event_id is null
      and fired_at < ?3
  );

-- name: prune_events
delete from events
where id in (
  select id
  from events indexed by events_prune
  where status = ?1
    and handled_at is not null
    and handled_at < ?2
  order by handled_at
  limit ?3
)
returning id;

-- name: prune_of_events
delete from fires
where event_id = ?1;

-- name: prune
delete from fires
where id in (
  select id
  from fires indexed by fires_prune
  where event_id is null
    and fired_at < ?1
  order by fired_at
  limit ?2
)
returning id;
