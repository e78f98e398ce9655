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
-- the members and the callback that are not over
select id, status
from jobs indexed by jobs_group
where group_id = ?1
  and status in ('queued', 'scheduled', 'held', 'running', 'waiting')
  and (?2 is null or tenant_id = ?2)
union all
select jobs.id, jobs.status
from groups
join jobs
  on jobs.id = groups.callback_id
where groups.id = ?1
  and jobs.finished_at is null
  and (?2 is null or groups.tenant_id = ?2);

-- name: some_unfinished
select id
from jobs indexed by jobs_group
where group_id = ?1
  and status in ('queued', 'scheduled', 'held', 'running', 'waiting')
limit ?2;

-- name: ended
-- members that ended without success and were not retried by a new job
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

-- name: groups
select g.id, g.tenant_id, coalesce(t.slug, g.tenant_id), g.mode, g.on_failure, g.callback_id, g.created_at, g.stopped_at
from groups as g
left join tenants as t
  on t.id = g.tenant_id
where (?1 is null or g.tenant_id = ?1)
  and (?2 is null or g.id < ?2)
order by g.id desc
limit ?3;

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

-- name: open_callback
select id
from jobs
where id = ?1
  and finished_at is null;
