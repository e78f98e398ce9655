-- name: forget
-- a job that retries a machine has that one's edges, of fences that may be its own now
delete from edges
where child_id = ?1
  and fence = ?2;
