-- name: written
select job_id, fence
from attempts
where job_id in (select value from json_each(?1))
  and worker_id = ?2
  and status <> 'lost';
