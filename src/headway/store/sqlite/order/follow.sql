-- name: over
select rowid
from jobs
where id = ?1
  and finished_at is not null;
