-- part: goes_to
-- where a held job goes that may go; a machine that was canceled while it waited, and then retried, waits again
case
  when head.woken is null and coalesce(head.awaiting, head.joining) is not null and head.step is not '$flow' then 'waiting'
  when head.scheduled_for > ?2 then 'scheduled'
  else 'queued'
end

-- name: release
update jobs
set status = ?2,
  pending = ?2 = 'waiting' and joining is not null,
  queued_at = coalesce(?3, queued_at)
where rowid in (select value from json_each(?1));

-- name: no_longer_pending
-- it waits only for its train now
update jobs
set pending = 0
where rowid = ?1;

-- name: has_run
-- whether a successor waits for this holder of its key. One that has yet to run does what the successor is for; nor does
-- it wait for a held job, which may be behind it in its train
select 1
from jobs
where id = ?1
  and finished_at is null
  and status <> 'held'
  and (fence > 0 or coalesce(retry_of, forked_from) is not null);

-- name: wait_again
update jobs
set pending = 1
where rowid = ?1;

-- name: wait_for
-- a successor waits for the end of the job that has its key
insert into edges (parent_id, child_id, tenant_id, on_failure)
select ?2, id, tenant_id, 'continue'
from jobs
where rowid = ?1
on conflict do update
set state = 'pending';
