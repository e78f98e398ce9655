-- Differs because the engine's own events are built in Python, for jobs that the transaction ended.

-- name: put
insert into events (id, tenant_id, name, payload, correlation_id, trace_id, created_by, emitted_at, status)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending')
on conflict do nothing
returning tenant_id;

-- name: taken
-- the first of these (id, tenant) whose event belongs to another tenant
select e.id
from json_each(?1) as new
join events as e
  on e.id = new.value ->> 0
where e.tenant_id <> new.value ->> 1
order by e.id
limit 1;

-- name: failed
select id, tenant_id, name
from events
where id in (select value from json_each(?1))
  and (?2 is null or tenant_id = ?2)
  and status = 'failed';

-- name: forget
delete from fires
where event_id = ?1
  and status = 'failed';

-- name: retry
update events
set status = 'pending',
  handled_at = null,
  error = null
where id = ?1;

-- name: page
select id
from events
where id < ?1
  and (?2 is null or tenant_id = ?2)
  and (?3 is null or name in (select value from json_each(?3)))
  and (?4 is null or status in (select value from json_each(?4)))
order by id desc
limit ?5;

-- name: page_of_ids
select id
from events
where id in (select value from json_each(?6))
  and id < ?1
  and (?2 is null or tenant_id = ?2)
  and (?3 is null or name in (select value from json_each(?3)))
  and (?4 is null or status in (select value from json_each(?4)))
order by id desc
limit ?5;

-- name: page_of_pending
select id
from events indexed by events_pending
where status = 'pending'
  and ?4 is not null
  and id < ?1
  and (?2 is null or tenant_id = ?2)
  and (?3 is null or name in (select value from json_each(?3)))
order by id desc
limit ?5;

-- name: read
-- as a blob: a text that is not UTF-8 would fail the whole read
select
  e.id, e.tenant_id, coalesce(t.slug, e.tenant_id), e.name, cast(e.payload as blob), e.status, e.emitted_at, e.handled_at,
  e.correlation_id, e.trace_id, e.created_by, e.job_id, e.error
from events as e
left join tenants as t
  on t.id = e.tenant_id
where e.id in (select value from json_each(?1))
order by e.id desc;

-- name: listeners
-- which tenants listen to which of the engine's own events; normally none
select distinct tenant_id, event
from triggers indexed by triggers_engine
where enabled = 1
  and type = 'event'
  and event >= 'headway.job.'
  and event < 'headway.job/';

-- name: ended
-- of these jobs, those that are over and were not started by such an event: a failing reaction would go on forever
select
  id, tenant_id, kind, queue, status, error, tries, losses, correlation_id, trace_id, source, trigger_id
from jobs
where id in (select value from json_each(?1))
  and finished_at is not null
  and not exists (
    select 1
    from triggers
    where triggers.id = jobs.trigger_id
      and triggers.type = 'event'
      and triggers.event >= 'headway.job.'
      and triggers.event < 'headway.job/'
  );

-- name: announce
insert into events (id, tenant_id, name, payload, correlation_id, trace_id, job_id, emitted_at, status)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending');
