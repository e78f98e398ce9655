-- Differs because what a worker serves is JSON text, opened by json_each.

-- name: register
insert into workers (
  id, hostname, pid, machine, process_started, version, queues, kinds, concurrency, lease_ms, started_at,
  heartbeat_at, lease_expires_at, metadata, late_ms, steady_since
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11 + ?10 * 1000, ?12, coalesce(?13, ?10 / 2), ?11)
on conflict (id) do update
set heartbeat_at = excluded.heartbeat_at,
  lease_expires_at = excluded.lease_expires_at
returning queues;

-- name: heartbeat
update workers
set running = ?2,
  busy = ?3,
  steady_since = iif(?4 between heartbeat_at and heartbeat_at + late_ms * 1000, steady_since, ?4),
  heartbeat_at = ?4,
  lease_expires_at = ?4 + lease_ms * 1000
where id = ?1
returning queues;

-- name: free
select served.key, count(*)
from workers
join json_each(workers.queues) as served
where workers.lease_expires_at > ?1
  and not exists (
    select 1
    from json_each(workers.busy) as full
    where full.value = served.key
  )
group by served.key;

-- name: pause
insert into queues (name, paused_at, paused_by)
values (?1, ?2, ?3)
on conflict (name) do update
set paused_at = excluded.paused_at,
  paused_by = excluded.paused_by
where paused_at is null;

-- name: resume
update queues
set paused_at = null,
  paused_by = null
where name = ?1
  and paused_at is not null;

-- name: audit
-- only what changed something is worth a line
insert into audit (at, detail, actor, action)
select ?1, ?2, ?3, ?4
where changes() > 0;

-- name: audit_always
insert into audit (at, detail, actor, action)
values (?1, ?2, ?3, ?4);
