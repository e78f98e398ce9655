-- name: leaving
-- what others wait for of these jobs, which are about to leave their status or queue
select
  id, tenant_id, kind, queue, status, train, on_canceled = 'hold', on_dead = 'hold', partition, concurrency,
  concurrency_key, rate_count, rate_key, limited, limited_by, group_id,
  exists (select 1 from edges where parent_id = jobs.id),
  step is '$flow' and exists (select 1 from edges where child_id = jobs.id and fence = -1 and state = 'pending'),
  case
    when step is '$flow' and fence > 0 and status in ('queued', 'scheduled', 'waiting', 'running')
    then 1 + exists (select 1 from signals where signals.job_id = jobs.id and signals.dedup_key = '$cancel')
    else 0
  end,
  rowid
from jobs
where rowid in (select value from json_each(?1));
