-- Differs because nothing is locked row by row, and a read without the write lock finds an empty queue.

-- name: probe
-- the columns of `_QueueState`
select
  exists (
    select 1
    from workers
    where id = ?1
  ),
  exists (
    select 1
    from queues
    where name = ?2
      and paused_at is not null
  )
  or exists (
    select 1
    from reservations
    where queue = ?2
      and expires_at > ?3
  ),
  exists (
    select 1
    from jobs
    where status = 'queued'
      and limited_by is null
      and queue = ?2
      and (expires_at is null or expires_at > ?3)
  ),
  exists (
    select 1
    from buckets indexed by buckets_wake
    where wake_at <= ?3
  ),
  exists (select 1 from arrivals),
  coalesce((select fair from queues where name = ?2), 0),
  coalesce((select unfair from queues where name = ?2), 0),
  exists (
    select 1
    from jobs indexed by jobs_fair
    where {order/fair.indexed}
  ),
  exists (
    select 1
    from jobs indexed by jobs_fair
    where {order/fair.indexed}
      and tenant_id > (
        select tenant_id
        from jobs indexed by jobs_fair
        where {order/fair.indexed}
        order by tenant_id
        limit 1
      )
  ),
  coalesce((select guarded from queues where name = ?2), 0),
  exists (
    select 1
    from limits
    where (scope = 'kind' or scope = 'tenant')
      and (max_running is not null or rate_count is not null)
  ),
  (
    select max_running
    from limits
    where scope = 'queue'
      and name = ?2
  );

-- name: claimable
select asked.value
from json_each(?1) as asked
where exists (
    select 1
    from jobs
    where status = 'queued'
      and limited_by is null
      and queue = asked.value
      and (expires_at is null or expires_at > ?2)
  )
  and not exists (
    select 1
    from queues
    where name = asked.value
      and paused_at is not null
  );

-- part: may_start
jobs.status = 'queued'
and jobs.limited_by is null
and (jobs.expires_at is null or jobs.expires_at > ?3)

-- name: first_in_line
select queue, tenant_id, kind
from (
  select first.queue, first.tenant_id, first.kind
  from json_each(?1) as asked
  join jobs as first on first.rowid in (
    select jobs.rowid
    from jobs indexed by jobs_claim
    where jobs.queue = asked.value
      and {may_start}
    order by jobs.priority, jobs.position, jobs.id
    limit 10
  )
  union
  select first.queue, first.tenant_id, first.kind
  from json_each(?2) as asked
  join jobs as first on first.rowid in (
    select jobs.rowid
    from jobs indexed by jobs_fair
    where jobs.queue = json_extract(asked.value, '$[0]')
      and jobs.tenant_id = json_extract(asked.value, '$[1]')
      and jobs.fair = 1
      and {may_start}
    order by jobs.priority, jobs.position, jobs.id
    limit 10
  )
)
where queue not in (select name from queues where paused_at is not null);

-- part: first
-- the first ?3 jobs of the queue ?1 that may start at ?2
status = 'queued'
and limited_by is null
and queue = ?1
and (expires_at is null or expires_at > ?2)
order by priority, position, id
limit ?3

-- name: any_limited
-- whether one of the first jobs is of a kind or tenant that has a limit
select exists (
  select 1
  from (
    select kind, tenant_id
    from jobs
    where {first}
  )
  where kind in (
      select name
      from limits
      where scope = 'kind'
        and (max_running is not null or rate_count is not null)
    )
    or tenant_id in (
      select name
      from limits
      where scope = 'tenant'
        and max_running is not null
    )
    or exists (
      select 1
      from limits
      where scope = 'tenant'
        and name = '*'
        and max_running is not null
    )
);

-- name: any_flow
-- whether one of the first jobs is a flow
select exists (
  select 1
  from (
    select step
    from jobs
    where {first}
  )
  where step = '$flow'
);

-- name: running_limited
select count(*)
from jobs indexed by jobs_limited
where limited > 0
  and limited = 1
  and status = 'running'
  and queue = ?1;

-- name: left
-- of the first that are still queued, those that would enter their unique scope by starting
select rowid
from (
  select rowid, unique_key, unique_scope
  from jobs
  where {first}
)
where unique_key is not null
  and instr(unique_scope, '"running"') > 0
  and instr(unique_scope, '"queued"') = 0;

-- name: reserved
select exists (
  select 1
  from reservations
  where queue = ?1
    and id is not ?2
    and expires_at > ?3
);

-- name: most
select max_running
from limits
where scope = 'queue'
  and name = ?1;

-- name: registered
select exists (
  select 1
  from workers
  where id = ?1
);

-- name: queue_of
select queue
from jobs
where id = ?1
  and status = 'queued';

-- name: running
select id, fence
from jobs
where status = 'running'
  and worker_id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: report
update jobs
set progress = coalesce(?3, progress),
  progress_note = coalesce(?4, progress_note),
  log_tail = case when {late} then log_tail else ?5 end,
  log_end = case when {late} then log_end else ?6 end,
  log_said = case when {late} then log_said else ?7 end
where id = ?1
  and fence = ?2
  and status = 'running';

-- part: late
-- no text is given, or more is known
?5 is null or log_end is not null and ?7 < coalesce(log_said, 0)

-- name: logged
select id, fence, log_tail, log_end, log_said
from jobs
where id in (select value from json_each(?1))
  and status = 'running';

-- name: canceling
select id, fence
from jobs
where status = 'running'
  and worker_id = ?1
  and cancel_requested_at is not null;

-- part: started
status = 'running',
fence = fence + 1,
worker_id = ?4,
started_at = coalesce(started_at, ?2),
attempt_started_at = ?2,
progress = null,
progress_note = null,
log_tail = null,
log_end = null

-- part: claim
-- a Claim's columns; whether others may wait for its end; whether it may have a checkpoint
-- coalesce, because SQLite 3.40 gets `column is not null` wrong in a returning clause
id, tenant_id, kind, queue, payload, fence, tries, losses, max_attempts, max_losses,
backoff_base_ms, backoff_cap_ms, timeout_ms, delivery, correlation_id, trace_id, meta,
fence - step_fence, coalesce(train, partition, group_id, parent_id) is not null or limited > 0,
coalesce(step, signaled, parent_id) is not null

-- name: first_bytes
-- of the first jobs together
select coalesce(sum(bytes), 0)
from (
  select {order/capacity.bytes} as bytes
  from jobs
  where status = 'queued'
    and limited_by is null
    and queue = ?1
    and (expires_at is null or expires_at > ?2)
  order by priority, position, id
  limit ?3
);

-- name: fitting
-- how many of the first jobs a claim may bring by their bytes
select count(*) filter (where total <= ?4)
from (
  select sum(bytes) over (order by priority, position, id rows unbounded preceding) as total
  from (
    select priority, position, id, {order/capacity.bytes} as bytes
    from jobs
    where status = 'queued'
      and limited_by is null
      and queue = ?1
      and (expires_at is null or expires_at > ?2)
    order by priority, position, id
    limit ?3
  )
);

-- name: start_first
-- or ignore: a job that would enter a taken unique scope stays queued
update or ignore jobs
set {started},
  limited = 0
where rowid in (
  select rowid
  from jobs
  where {first}
)
returning priority, position, {claim};

-- name: start_these
update or ignore jobs
set {started},
  limited = ?3,
  limited_by = null
where rowid in (select value from json_each(?1))
returning rowid, {claim};
