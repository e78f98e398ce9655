-- Differs because deltas are added up in Python, under the write lock, by the rules of model/stats.py.

-- name: deltas
select
  rowid, at, tenant_id, queue, kind, enqueued, succeeded, failed, retried, dead, canceled, lost, ended, waits, runs
from stat_deltas
order by rowid
limit ?1;

-- name: delete
delete from stat_deltas
where rowid <= ?1;

-- name: any
select exists (select 1 from stat_deltas);

-- name: known
-- the queues and kinds that have numbers on these days
select stats.tenant_id, stats.at, stats.queue, stats.kind
from json_each(?1) as wanted
cross join stats
  on stats.tenant_id = json_extract(wanted.value, '$[0]')
  and stats.span = 'day'
  and stats.at = json_extract(wanted.value, '$[1]')
  and stats.queue <> '';

-- name: stored
select
  stats.tenant_id, stats.span, stats.at, stats.queue, stats.kind, stats.enqueued, stats.started, stats.succeeded,
  stats.failed, stats.retried, stats.dead, stats.canceled, stats.lost, stats.waits, stats.runs, stats.depth,
  stats.oldest_ms
from json_each(?1) as wanted
cross join stats
  on stats.tenant_id = json_extract(wanted.value, '$[0]')
  and stats.span = json_extract(wanted.value, '$[1]')
  and stats.at = json_extract(wanted.value, '$[2]')
  and stats.queue = json_extract(wanted.value, '$[3]')
  and stats.kind = json_extract(wanted.value, '$[4]');

-- name: store
insert or replace into stats (
  tenant_id, span, at, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs,
  depth, oldest_ms
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17);

-- name: sampled
-- when the depths of queues were sampled last
select value
from counters
where name = 'stat_sample';

-- name: sample
insert into counters (name, value)
values ('stat_sample', ?1)
on conflict (name) do update
set value = excluded.value;

-- name: depths
-- of each queue the first 100,000 in the order of claims, and as many that limits have set aside
with recursive {fleet/queues.queued_names}
select tenant_id, queue, kind, count(*), max(0, (?1 - min(queued_at)) / 1000)
from (
  select waiting.tenant_id, waiting.queue, waiting.kind, waiting.queued_at
  from queued
  join jobs as waiting
    on waiting.rowid in (
      select rowid
      from jobs indexed by jobs_claim
      where status = 'queued'
        and limited_by is null
        and queue = queued.name
      order by priority, position, id
      limit 100000
    )
  union all
  select tenant_id, queue, kind, queued_at
  from (
    select tenant_id, queue, kind, queued_at
    from jobs indexed by jobs_aside
    where limited_by is not null
    limit 100000
  )
)
group by tenant_id, queue, kind;

-- name: prune
delete from stats
where (tenant_id, span, at, queue, kind) in (
  select tenant_id, span, at, queue, kind
  from stats indexed by stats_at
  where span = ?1
    and at < ?2
  order by at
  limit ?3
)
returning 1;
