-- Differs because the rows are read first, under the write lock.

-- name: known
select rowid, id, status, tenant_id
from jobs
where id in (select value from json_each(?1))
  and (?2 is null or tenant_id = ?2);
