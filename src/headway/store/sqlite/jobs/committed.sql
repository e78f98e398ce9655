-- name: commit
update jobs
set committed = ?3
where id = ?1
  and fence = ?2
  and status = 'running'
  and committed is null
returning id;

-- name: given
select fence = ?2 and status = 'running' and committed is not null
from jobs
where id = ?1;

-- name: committed
select id, fence, worker_id, committed
from jobs
where id in (select value from json_each(?1))
  and status = 'running'
  and committed is not null;

-- name: take
update jobs
set committed = null
where id in (select value from json_each(?1));
