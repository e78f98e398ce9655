-- name: candidates
select {order/capacity.candidate}
from jobs
where status = 'queued'
  and limited_by is null
  and queue = ?1
  and (expires_at is null or expires_at > ?2)
order by priority, position, id
limit ?3;

-- name: candidate
select {order/capacity.candidate}
from jobs
where id = ?1
  and status = 'queued'
  and (expires_at is null or expires_at > ?2);
