-- Differs because of its indexes.

-- name: unfinished
select status, kind, step, ?1 is null or tenant_id = ?1 as own, count(*)
from (
  select *
  from (
    select status, kind, step, tenant_id
    from jobs indexed by jobs_listed
    where status = 'waiting'
      and status <> 'queued'
      and status <> 'running'
    limit ?2
  )
  union all
  select *
  from (
    select status, kind, step, tenant_id
    from jobs indexed by jobs_listed
    where status = 'held'
      and status <> 'queued'
      and status <> 'running'
    limit ?2
  )
  union all
  select *
  from (select status, kind, step, tenant_id from jobs indexed by jobs_due where status = 'scheduled' limit ?2)
  union all
  select *
  from (select status, kind, step, tenant_id from jobs indexed by jobs_running where status = 'running' limit ?2)
  union all
  select *
  from (
    select status, kind, step, tenant_id
    from jobs indexed by jobs_claim
    where status = 'queued'
      and limited_by is null
    limit ?2
  )
)
group by status, kind, step, own;
