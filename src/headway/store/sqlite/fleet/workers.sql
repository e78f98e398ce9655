-- Differs because a worker's queues are JSON text, read by json_each.

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
  lease_expires_at = ?4 + lease_ms * 1000,
  queues = coalesce(?5, queues),
  concurrency = coalesce(?6, concurrency)
where id = ?1
returning queues, wanted;

-- name: wanted
select wanted
from workers
where id = ?1;

-- name: set_wanted
update workers
set wanted = ?2
where id = ?1;

-- name: queue_names
with recursive {fleet/queues.queued_names}
select name
from queued
where name is not null
union
select queue
from definitions
union
select name
from queues
union
select name
from limits
where scope = 'queue'
union
select served.key
from workers
join json_each(workers.queues) as served
where workers.lease_expires_at > ?1
order by 1;

-- name: free
select served.key, count(*)
from workers
join json_each(workers.queues) as served
where workers.lease_expires_at > ?1
  -- over HTTP: the server polls for it, and counts itself
  and json_extract(workers.metadata, '$.key') is null
  and not exists (
    select 1
    from json_each(workers.busy) as full
    where full.value = served.key
  )
group by served.key;

-- part: columns
id, hostname, pid, machine, process_started, version, queues, kinds, concurrency, running, started_at,
heartbeat_at, lease_expires_at, metadata, wanted

-- name: workers
select {columns}
from workers
order by started_at, id;

-- name: worker
select {columns}
from workers
where id = ?1;

-- name: retire
update workers
set stopping = 1
where id = ?1;

-- name: is_gone
-- whether the worker of this id has left, or was another's
select exists (
  select 1
  from gone_workers
  where id = ?1
    and (has_left or owner <> {owner_of_given})
);

-- part: owner_of_given
coalesce(json_extract(?2, '$.key'), '') || ' ' || coalesce(json_extract(?2, '$.tenant'), '')

-- name: remember
-- before it is removed; ?2: it signed off
insert into gone_workers (id, owner, has_left, gone_at)
select id, coalesce(json_extract(metadata, '$.key'), '') || ' ' || coalesce(json_extract(metadata, '$.tenant'), ''), ?2, ?3
from workers
where id = ?1
on conflict (id) do update
set has_left = excluded.has_left,
  gone_at = excluded.gone_at;

-- name: remove
delete from workers
where id = ?1;

-- name: forget_gone
delete from gone_workers
where id in (
  select id
  from gone_workers
  where gone_at < ?1
  order by gone_at
  limit 100
);
