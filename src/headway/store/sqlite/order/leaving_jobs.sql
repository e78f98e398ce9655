-- name: leaving
-- what others wait for of these jobs, which are about to leave their status or queue
select
  id, tenant_id, kind, queue, status, train, on_canceled = 'hold', on_dead = 'hold', partition, concurrency,
  concurrency_key, rate_count, rate_key, limited, limited_by, group_id,
  exists (select 1 from edges where parent_id = jobs.id), rowid
from jobs
where rowid in (select value from json_each(?1));
