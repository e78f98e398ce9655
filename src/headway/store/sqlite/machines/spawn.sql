-- name: forget
-- a job that retries a machine inherited its edges, some with a fence that is now its own
delete from edges
where child_id = ?1
  and fence = ?2;
