-- Differs because due and expired jobs are read under the write lock and written row by row.

-- part: next_due
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
)

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
      and {jobs/early_end.unasked}
  ),
  exists (
    select 1
    from jobs indexed by jobs_deadline
    where deadline_at is not null
      and finished_at is null
      and deadline_at <= ?1
      and status = 'waiting'
  ),
  {next_due};

-- name: next_due
select {next_due};

-- name: expired
select rowid
from jobs indexed by jobs_expiring
where expires_at <= ?1
  and finished_at is null
  and {jobs/early_end.unasked}
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
