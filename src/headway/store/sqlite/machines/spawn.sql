-- name: forget
-- a job that retries a machine inherited its edges, some with a fence that is now its own
delete from edges
where child_id = ?1
  and fence = ?2;

-- name: over
select id
from jobs
where id in (select value from json_each(?1))
  and finished_at is not null;
