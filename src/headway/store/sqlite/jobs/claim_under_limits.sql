-- name: candidates
select {order/capacity.candidate}, {order/capacity.bytes}
from jobs
where status = 'queued'
  and limited_by is null
  and queue = ?1
  and (expires_at is null or expires_at > ?2)
  and (?4 or step is not '$flow')
order by priority, position, id
limit ?3;

-- name: candidates_of_tenant
-- among the queue's first jobs
select {order/capacity.candidate}, {order/capacity.bytes}
from jobs
where rowid in (
    select rowid
    from jobs
    where status = 'queued'
      and limited_by is null
      and queue = ?1
    order by priority, position, id
    limit ?5
  )
  and tenant_id = ?4
  and (expires_at is null or expires_at > ?2)
  and (?6 or step is not '$flow')
order by priority, position, id
limit ?3;

-- name: candidates_of_kinds
-- of one tenant or of all, among the queue's first jobs
select {order/capacity.candidate}, {order/capacity.bytes}
from jobs
where rowid in (
    select rowid
    from jobs
    where status = 'queued'
      and limited_by is null
      and queue = ?1
    order by priority, position, id
    limit 10000
  )
  and (?4 is null or tenant_id = ?4)
  and kind in (select value from json_each(?5))
  and (expires_at is null or expires_at > ?2)
  and (?6 or step is not '$flow')
order by priority, position, id
limit ?3;

-- name: candidate
select {order/capacity.candidate}, {order/capacity.bytes}
from jobs
where id = ?1
  and status = 'queued'
  and (expires_at is null or expires_at > ?2);
