-- name: release
update jobs
set status = ?2,
  pending = 0,
  queued_at = coalesce(?3, queued_at)
where rowid in (select value from json_each(?1));

-- name: no_longer_pending
-- it waits only for its train now
update jobs
set pending = 0
where rowid = ?1;
