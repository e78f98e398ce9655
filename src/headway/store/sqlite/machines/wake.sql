-- name: wake
update jobs
set status = 'queued',
  woken = ?2,
  queued_at = ?3,
  deadline_at = null,
  pending = 0
where rowid = ?1;

-- name: awaiting
-- of these machines, those that await signals
select rowid, id, unique_key, unique_scope, awaiting, match_all
from jobs
where id in (select value from json_each(?1))
  and status = 'waiting'
  and awaiting is not null;

-- name: timed_out
select rowid, id, unique_key, unique_scope
from jobs indexed by jobs_deadline
where deadline_at is not null
  and finished_at is null
  and deadline_at <= ?1
  and status = 'waiting'
order by deadline_at
limit ?2;
