-- Differs because the members are canceled in the transaction in which one failed.

-- name: new
insert into groups (id, tenant_id, mode, on_failure, callback_id, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do nothing;

-- name: joined
-- the existing groups that new members name
select g.id, g.tenant_id, g.on_failure, g.stopped_at, g.callback_id, callback.status
from groups as g
left join jobs as callback
  on callback.id = g.callback_id
where g.id in (select value from json_each(?1));

-- name: stop
update groups
set stopped_at = ?2
where id in (select value from json_each(?1))
  and on_failure = 'stop'
  and stopped_at is null
returning id;

-- name: stopping
select coalesce(stop_reason, 'canceled because its group stopped')
from groups
where id = ?1
  and stopped_at is not null;

-- name: to_stop
-- members that were not asked to stop yet
select rowid
from jobs indexed by jobs_group
where group_id = ?1
  and status in ('queued', 'scheduled', 'held', 'running', 'waiting')
  and {jobs/early_end.unasked}
limit ?2;

-- name: callback
select jobs.rowid
from groups
join jobs
  on jobs.id = groups.callback_id
  and jobs.tenant_id = groups.tenant_id
where groups.id = ?1
  and jobs.status = 'held';

-- name: call_back
update groups
set callback_id = ?2
where callback_id = ?1;
