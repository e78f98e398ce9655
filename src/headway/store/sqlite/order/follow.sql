-- What follows when jobs move. Differs because all of it is decided at once, under the write lock: nothing arrives late.

-- name: tied
-- what ties these jobs to others, before they move
select
  rowid, id, tenant_id, kind, queue, status, train, on_canceled = 'hold', on_dead = 'hold', partition, concurrency,
  concurrency_key, rate_count, rate_key, limited, limited_by, group_id,
  exists (select 1 from edges where parent_id = jobs.id)
from jobs
where rowid in (select value from json_each(?1));

-- name: let_go
update jobs
set status = ?2,
  pending = 0,
  queued_at = coalesce(?3, queued_at)
where rowid in (select value from json_each(?1));

-- name: settled_car
-- it waits for nobody but its train any more
update jobs
set pending = 0
where rowid = ?1;

-- name: over
select rowid
from jobs
where id = ?1
  and finished_at is not null;
