-- part: running
-- started_at may be null if SQL wrote the row with checks off; the last column is evaluated once for all rows
rowid, id, fence, worker_id, coalesce(attempt_started_at, started_at, created_at), log_tail,
cancel_requested_at is not null, cancel_reason,
unique_key, unique_scope,
case
  when partition is not null or concurrency_key is not null or limited = 1 or group_id is not null
    or exists (
      select 1
      from edges
      where parent_id = jobs.id
    )
  then 1
  when train is not null then 2
  else 0
end,
coalesce(step, signaled) is not null,
exists (
  select 1
  from triggers indexed by triggers_engine
  where enabled = 1
    and type = 'event'
    and event >= 'headway.job.'
    and event < 'headway.job/'
)

-- name: running
select {running}
from jobs
where id in (select value from json_each(?1))
  and status = 'running';
