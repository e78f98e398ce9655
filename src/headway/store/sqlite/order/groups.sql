-- Differs because a stop cancels the members in the transaction of the one that failed.

-- name: new
insert into groups (id, tenant_id, mode, on_failure, callback_id, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do nothing;

-- name: stop
update groups
set stopped_at = ?2
where id in (select value from json_each(?1))
  and on_failure = 'stop'
  and stopped_at is null
returning id;

-- name: halt
update groups
set stopped_at = coalesce(stopped_at, ?3),
  stop_reason = ?4
where id = ?1
  and (?2 is null or tenant_id = ?2)
returning tenant_id, callback_id;

-- name: restart
update groups
set stopped_at = null,
  stop_reason = null
where id = ?1
  and (?2 is null or tenant_id = ?2)
returning tenant_id, callback_id;

-- name: unfinished
select id
from jobs indexed by jobs_group
where group_id = ?1
  and status in ('queued', 'scheduled', 'held', 'running', 'waiting')
order by id;

-- name: to_stop
-- members that nobody has asked to stop yet
select rowid
from jobs indexed by jobs_group
where group_id = ?1
  and status in ('queued', 'scheduled', 'held', 'running', 'waiting')
  and cancel_requested_at is null
limit ?2;

-- name: stopping
select coalesce(stop_reason, 'canceled because its group stopped')
from groups
where id = ?1
  and stopped_at is not null;

-- name: joined
-- the groups that new members name, as they stand
select g.id, g.tenant_id, g.on_failure, g.stopped_at, g.callback_id, callback.status
from groups as g
left join jobs as callback
  on callback.id = g.callback_id
where g.id in (select value from json_each(?1));

-- name: call_back
update groups
set callback_id = ?2
where callback_id = ?1;

-- name: ended
-- members that ended without having succeeded; who was retried by a new job is not among them
select jobs.id
from jobs indexed by jobs_group
where group_id = ?1
  and status in ('failed', 'dead', 'canceled')
  and not exists (
    select 1
    from jobs as heir
    where heir.retry_of = jobs.id
  )
order by 1;

-- name: group
select g.id, g.tenant_id, coalesce(t.slug, g.tenant_id), g.mode, g.on_failure, g.callback_id, g.created_at, g.stopped_at
from groups as g
left join tenants as t
  on t.id = g.tenant_id
where g.id = ?1
  and (?2 is null or g.tenant_id = ?2);

-- name: counts
select status, count(*)
from jobs indexed by jobs_group
where group_id = ?1
  and (status not in ('failed', 'dead', 'canceled') or not exists (
    select 1
    from jobs as heir
    where heir.retry_of = jobs.id
  ))
group by status;

-- name: prune
-- a group without its members and its callback is nothing any more
delete from groups
where (id in (select value from json_each(?1)) or callback_id in (select value from json_each(?2)))
  and not exists (
    select 1
    from jobs indexed by jobs_group
    where group_id = groups.id
  )
  and not exists (
    select 1
    from jobs
    where jobs.id = groups.callback_id
  );

-- name: open_callback
select id
from jobs
where id = ?1
  and finished_at is null;

-- name: callback
select jobs.rowid
from groups
join jobs
  on jobs.id = groups.callback_id
  and jobs.tenant_id = groups.tenant_id
where groups.id = ?1
  and jobs.status = 'held';
