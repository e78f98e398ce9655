-- Differs because counts are read from indexes that have only those rows.

-- name: jobs
select
  j.id, j.tenant_id, coalesce(t.slug, j.tenant_id), j.kind, j.queue, j.status, j.priority, j.position, j.payload,
  j.fence, j.tries, j.losses, j.max_attempts, j.max_losses, j.backoff_base_ms, j.backoff_cap_ms, j.timeout_ms,
  j.delivery, j.idempotency_key, j.unique_key, j.unique_scope, j.scheduled_for, j.expires_at, j.created_at,
  j.queued_at, j.started_at, j.finished_at, j.worker_id, j.attempt_started_at, j.cancel_requested_at, j.progress,
  j.progress_note, j.log_tail, j.result, j.error, j.correlation_id, j.trace_id, j.source, j.source_ref,
  j.created_by, j.retry_of, j.meta, j.train, coalesce(j.on_canceled, 'advance'), coalesce(j.on_dead, 'advance'),
  j.partition, j.concurrency, j.concurrency_key, j.rate_count, j.rate_period_ms, j.rate_burst, j.rate_key,
  j.limited_by, j.group_id, j.pending, j.version, j.step, j.state, j.awaiting, j.match_all, j.deadline_at, j.joining,
  j.woken, j.home_queue, j.home_partition, j.forked_from, j.parent_id, j.log_end, j.template_id, j.template_revision,
  j.trigger_id, j.tags, j.unique_group
from jobs as j
left join tenants as t
  on t.id = j.tenant_id
where j.id in (select value from json_each(?1))
  and (?2 is null or j.tenant_id = ?2)
order by j.id desc;

-- name: ids_from
select id
from jobs
where id between ?1 and ?2
order by id
limit ?3;

-- name: attempts
select
  a.job_id, a.fence, a.status, a.started_at, a.finished_at, a.worker_id, a.error, a.step, a.state, a.exit_code,
  a.stdout_tail, a.stderr_tail, a.pid, a.version, a.outcome, a.note, a.woken
from attempts as a
join jobs as j
  on j.id = a.job_id
where a.job_id = ?1
  and (?2 is null or j.tenant_id = ?2)
order by a.fence;

-- name: open_attempt
select
  id, fence, 'running', attempt_started_at, null, worker_id, null, step, null, null, log_tail, null, null, version, null,
  null, woken
from jobs
where id = ?1
  and status = 'running'
  and (?2 is null or tenant_id = ?2);

-- name: results
-- spilled: the result is a reference to the artifact that has it, and not one that somebody returned
select
  id,
  status,
  result,
  error,
  substr(result, 1, 14) = '{"$artifact":"' and exists (
    select 1
    from artifacts
    where artifacts.job_id = jobs.id
      and artifacts.fence = jobs.fence
      and artifacts.name glob '.result*'
      and jobs.result = '{"$artifact":"' || artifacts.id || '"}'
  ) as spilled
from jobs
where id in (select value from json_each(?1))
  and (?2 is null or tenant_id = ?2);

-- name: counts
-- each by a scan of an index that has only these statuses
select status, count(*)
from jobs indexed by jobs_listed
where status <> 'queued'
  and status <> 'running'
group by status
union all
select 'queued', (
  select count(*)
  from jobs indexed by jobs_claim
  where status = 'queued'
    and limited_by is null
) + (
  select count(*)
  from jobs indexed by jobs_aside
  where limited_by is not null
)
union all
select 'running', count(*)
from jobs indexed by jobs_running
where status = 'running';

-- name: counts_of_tenant
select status, count(*)
from jobs indexed by jobs_tenant
where tenant_id = ?1
  and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
group by status;

-- name: some_of_status
-- up to ?2 of each of these statuses, by indexes that have only those rows
select named.value, case named.value
  when 'queued' then (
    select count(*)
    from (
      select 1
      from jobs indexed by jobs_claim
      where status = 'queued'
        and limited_by is null
      limit ?2
    )
  ) + (
    select count(*)
    from (
      select 1
      from jobs indexed by jobs_aside
      where limited_by is not null
      limit ?2
    )
  )
  when 'running' then (
    select count(*)
    from (
      select 1
      from jobs indexed by jobs_running
      where status = 'running'
      limit ?2
    )
  )
  else (
    select count(*)
    from (
      select 1
      from jobs indexed by jobs_listed
      where status = named.value
        and status <> 'queued'
        and status <> 'running'
      limit ?2
    )
  )
end
from json_each(?1) as named;

-- name: some_of_tenant
select named.value, (
  select count(*)
  from (
    select 1
    from jobs indexed by jobs_tenant
    where tenant_id = ?3
      and tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
      and status = named.value
    limit ?2
  )
)
from json_each(?1) as named;

-- name: some_of_default
-- among the first ?2 of each status, of any tenant: the default tenant has no index of its own
select named.value, case named.value
  when 'queued' then (
    select count(*)
    from (
      select tenant_id
      from jobs indexed by jobs_claim
      where status = 'queued'
        and limited_by is null
      limit ?2
    )
    where tenant_id = ?3
  ) + (
    select count(*)
    from (
      select tenant_id
      from jobs indexed by jobs_aside
      where limited_by is not null
      limit ?2
    )
    where tenant_id = ?3
  )
  when 'running' then (
    select count(*)
    from (
      select tenant_id
      from jobs indexed by jobs_running
      where status = 'running'
      limit ?2
    )
    where tenant_id = ?3
  )
  else (
    select count(*)
    from (
      select tenant_id
      from jobs indexed by jobs_listed
      where status = named.value
        and status <> 'queued'
        and status <> 'running'
      order by id desc
      limit ?2
    )
    where tenant_id = ?3
  )
end
from json_each(?1) as named;

-- name: any_of_others
select exists (
  select 1
  from jobs indexed by jobs_tenant
  where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
);

-- name: counts_of_others
-- of all but the default tenant, whose jobs are not in that index
select status, count(*)
from jobs indexed by jobs_tenant
where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
group by status;

-- name: ahead
select count(*)
from (
  select 1
  from jobs as me
  join jobs as other indexed by jobs_claim
    on other.status = 'queued'
    and other.limited_by is null
    and other.queue = me.queue
    and (other.priority, other.position, other.id) < (me.priority, me.position, me.id)
    and (?2 is null or other.tenant_id = ?2)
  where me.id = ?1
    and me.status = 'queued'
  limit 10000
);

-- name: counts_by_kind
select queue, kind, status, count(*)
from jobs
where (?1 is null or tenant_id = ?1)
group by queue, kind, status
order by queue, kind, status;

-- name: brief
select jobs.id, tenant_id, kind, queue, status, queued_at, scheduled_for
from json_each(?1) as wanted
cross join jobs
where jobs.id = wanted.value;

-- name: watched
select jobs.id, status, fence, tries, losses, queue, priority, scheduled_for, worker_id, cancel_requested_at,
  finished_at, progress, progress_note, step, max_attempts, max_losses, timeout_ms, expires_at, log_end,
  case when log_end is null or log_end is not json_extract(wanted.value, '$[1]') then log_tail end
from json_each(?1) as wanted
cross join jobs
where jobs.id = json_extract(wanted.value, '$[0]')
  and (?2 is null or tenant_id = ?2);
