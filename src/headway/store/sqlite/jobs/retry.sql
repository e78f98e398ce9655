-- Differs because rows are read, decided on in Python and written one by one, under the write lock.

-- part: columns
rowid, id, tenant_id, kind, delivery, fence, position, unique_key,
replace(replace(unique_scope, '"-', '"'), '"+', '"'), status,
status = 'canceled' and woken is null and coalesce(awaiting, joining) is not null and step is not '$flow',
joining is not null,
-- of a machine that was canceled while it slept; the job that retries an at_most_once one has no executions at first
case
  when status = 'canceled' and step is not null and scheduled_for is not null and exists (
    select 1
    from jobs as slept
    join attempts
      on attempts.job_id = slept.id
      and attempts.fence = slept.fence
    where slept.id = case jobs.fence when 0 then jobs.retry_of else jobs.id end
      and attempts.outcome = 'sleep'
  )
  then scheduled_for
end,
coalesce(step, signaled) is not null, train, step is '$flow'

-- name: finished
select {columns}
from jobs
where id in (select value from json_each(?1))
  and (?2 is null or tenant_id = ?2)
  and finished_at is not null
order by position, id;

-- name: canceled_by
-- the jobs that the end of these parents had canceled, unless another failed parent still stops them
select {columns}
from jobs
where id in (
    select child_id
    from json_each(?1) as parent
    join edges
      on edges.parent_id = parent.value
    where edges.fence = 0
      and edges.state = 'failed'
      and edges.on_failure = 'stop'
  )
  and status = 'canceled'
  and error like 'canceled because job %'
  and not exists (
    select 1
    from edges
    left join jobs as parent
      on parent.id = edges.parent_id
    where edges.child_id = jobs.id
      and edges.fence = 0
      and edges.state = 'failed'
      and edges.on_failure = 'stop'
      and (parent.id is null or parent.finished_at is not null)
  )
order by position, id
limit ?2;

-- name: retried_by
select id
from jobs
where retry_of = ?1;

-- name: retry
update jobs
set status = ?4,
  queued_at = case ?4 when 'queued' then ?2 when 'waiting' then queued_at end,
  position = ?3,
  pending = ?5,
  fair = tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' or exists (select 1 from queues where name = jobs.queue and fair = 1),
  tries = 0,
  losses = 0,
  step_fence = fence,
  scheduled_for = ?6,
  expires_at = null,
  finished_at = null,
  cancel_requested_at = null,
  cancel_reason = null,
  error = case when ?4 = 'waiting' then null else error end,
  unique_scope = replace(replace(unique_scope, '"-', '"'), '"+', '"'),
  result = null
where rowid = ?1;

-- name: drop_key
update jobs
set unique_scope = replace(unique_scope, '"' || status || '"', '"-' || status || '"')
where rowid = ?1;
