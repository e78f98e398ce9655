-- Differs because each job was read before, under the write lock: a running one is asked to stop, the others end at once.

-- part: unasked
-- whether a job was not asked to end yet
cancel_requested_at is null
and (
  step is not '$flow'
  or not exists (
    select 1
    from signals
    where signals.job_id = jobs.id
      and signals.dedup_key = '$cancel'
  )
)

-- name: cancel
-- a job that would enter a unique scope that another job holds drops its key
update jobs
set status = 'canceled',
  finished_at = ?2,
  error = ?3,
  limited_by = null,
  pending = 0,
  unique_scope = case
    when unique_key is not null
      and instr(unique_scope, '"canceled"') > 0
      and instr(unique_scope, '"' || status || '"') = 0
      and exists (
        select 1
        from jobs as other
        where other.tenant_id = jobs.tenant_id
          and coalesce(other.unique_group, other.kind) = coalesce(jobs.unique_group, jobs.kind)
          and other.unique_key = jobs.unique_key
          and instr(other.unique_scope, '"' || other.status || '"') > 0
      )
    then replace(unique_scope, '"canceled"', '"-canceled"')
    else unique_scope
  end
where rowid = ?1;

-- name: ask
update jobs
set cancel_requested_at = coalesce(cancel_requested_at, ?2),
  cancel_reason = coalesce(?3, cancel_reason, 'canceled')
where rowid = ?1
  and status = 'running';
