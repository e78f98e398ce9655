-- Differs because the due and the expired are picked by reads under the write lock and written row by row.

-- name: probe
select
  exists (
    select 1
    from jobs indexed by jobs_due
    where status = 'scheduled'
      and scheduled_for <= ?1
  ),
  exists (
    select 1
    from jobs indexed by jobs_expiring
    where expires_at <= ?1
      and finished_at is null
      and cancel_requested_at is null
  ),
  exists (
    select 1
    from jobs indexed by jobs_deadline
    where deadline_at is not null
      and finished_at is null
      and deadline_at <= ?1
      and status = 'waiting'
  ),
  (
    select min(scheduled_for)
    from jobs indexed by jobs_due
    where status = 'scheduled'
  ),
  (
    select deadline_at
    from jobs indexed by jobs_deadline
    where deadline_at is not null
      and finished_at is null
      and status = 'waiting'
    order by deadline_at
    limit 1
  );

-- name: next_due
select
  (
    select min(scheduled_for)
    from jobs indexed by jobs_due
    where status = 'scheduled'
  ),
  (
    select deadline_at
    from jobs indexed by jobs_deadline
    where deadline_at is not null
      and finished_at is null
      and status = 'waiting'
    order by deadline_at
    limit 1
  );

-- name: expired
select rowid
from jobs indexed by jobs_expiring
where expires_at <= ?1
  and finished_at is null
  and cancel_requested_at is null
order by expires_at
limit ?2;

-- name: due
select
  rowid, position is null, unique_key,
  unique_key is not null
    and instr(unique_scope, '"queued"') > 0
    and instr(unique_scope, '"scheduled"') = 0
from jobs indexed by jobs_due
where status = 'scheduled'
  and scheduled_for <= ?1
  and (expires_at is null or expires_at > ?1)
order by scheduled_for, id
limit ?2;

-- name: queue
update jobs
set status = 'queued',
  queued_at = ?2,
  position = coalesce(position, ?3)
where rowid = ?1;

-- name: prune
-- a child is kept until the machine that waits for it has gone on
delete from jobs
where rowid in (
  select rowid
  from jobs indexed by jobs_prune
  where status = ?1
    and finished_at < ?2
    and not exists (
      select 1
      from edges
      join jobs as machine
        on machine.id = edges.child_id
        and machine.joining = edges.fence
        and machine.finished_at is null
      where edges.parent_id = jobs.id
        and edges.fence > 0
    )
  order by finished_at
  limit ?3
)
returning id, group_id;

-- name: prune_probe
select exists (
  select 1
  from jobs indexed by jobs_prune
  where status = ?1
    and finished_at < ?2
    and not exists (
      select 1
      from edges
      join jobs as machine
        on machine.id = edges.child_id
        and machine.joining = edges.fence
        and machine.finished_at is null
      where edges.parent_id = jobs.id
        and edges.fence > 0
    )
);

-- name: prune_attempts
delete from attempts
where job_id = ?1;

-- name: prune_audit
-- entries come in order of time: none but the first need a look
delete from audit
where id in (
    select id
    from audit
    order by id
    limit ?2
  )
  and at < ?1
returning id;

-- name: audit_probe
select exists (
  select 1
  from (
    select at
    from audit
    order by id
    limit 1
  )
  where at < ?1
);
