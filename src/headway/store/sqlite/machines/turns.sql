-- Differs because a turn that awaits signals checks the inbox before it is written, under the write lock.

-- name: checkpoints
select
  id, version, step, state, awaiting, match_all, joining, woken, partition, home_queue, home_partition, forked_from,
  parent_id
from jobs
where id in (select value from json_each(?1));

-- name: attempt
-- the step and version that a turn does not name are the job's
insert into attempts (
  job_id, fence, status, started_at, finished_at, worker_id, error, exit_code, stdout_tail, stderr_tail, pid,
  step, version, outcome, note, state, woken
)
select
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
  coalesce(?12, step), coalesce(?13, version), ?14, ?15, ?16, woken
from jobs
where rowid = ?17;

-- part: checkpoint
-- ?2: the machine took the step; else it stays where it was, with another state at most
step = ?3,
version = ?4,
state = coalesce(?5, state),
awaiting = case when ?2 then ?6 else awaiting end,
match_all = case when ?2 then ?7 else match_all end,
deadline_at = case when ?2 then ?8 else deadline_at end,
joining = case when ?2 then ?9 else joining end,
woken = case when ?2 then ?10 else woken end

-- name: again
update jobs
set status = ?11,
  scheduled_for = coalesce(?12, scheduled_for),
  queued_at = coalesce(?13, queued_at),
  position = coalesce(?14, position),
  tries = case when ?2 then 0 else tries + ?15 end,
  losses = case when ?2 then 0 else losses + ?16 end,
  step_fence = case when ?2 then fence else step_fence end,
  error = ?17,
  pending = ?18,
  worker_id = null,
  attempt_started_at = null,
  {checkpoint}
where rowid = ?1;

-- name: go_on
-- the next step runs at once, in the same slot
update jobs
set fence = fence + 1,
  -- its next execution did not wait
  queued_at = ?11,
  attempt_started_at = ?11,
  tries = case when ?2 then 0 else tries + ?12 end,
  losses = case when ?2 then 0 else losses + ?13 end,
  step_fence = case when ?2 then fence else step_fence end,
  error = ?14,
  progress = null,
  progress_note = null,
  log_tail = null,
  log_end = null,
  {checkpoint}
where rowid = ?1;

-- name: finish
update jobs
set status = ?11,
  finished_at = ?12,
  tries = case when ?2 then 0 else tries + ?13 end,
  losses = case when ?2 then 0 else losses + ?14 end,
  step_fence = case when ?2 then fence else step_fence end,
  result = ?15,
  error = ?16,
  -- of a Sleep that ends canceled: a retry sleeps until then
  scheduled_for = coalesce(?18, scheduled_for),
  unique_scope = case when ?17 then replace(unique_scope, '"' || ?11 || '"', '"-' || ?11 || '"') else unique_scope end,
  worker_id = null,
  attempt_started_at = null,
  cancel_requested_at = null,
  cancel_reason = null,
  {checkpoint}
where rowid = ?1;

-- name: queues
-- the queue and partition that these run in
select rowid, queue, partition
from jobs
where rowid in (select value from json_each(?1));

-- name: go_to
-- the next step's queue and partition; a running machine keeps those that it runs in
update jobs
set queue = ?2,
  partition = ?3,
  home_queue = ?4,
  home_partition = ?5,
  fair = tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' or exists (select 1 from queues where name = ?2 and fair = 1)
where rowid = ?1;
