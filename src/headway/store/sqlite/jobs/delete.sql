-- Differs because followers that did not fit into the transaction that ended the job still need its row.

-- name: known
select
  id,
  case
    when finished_at is null then status
    when not {jobs/prune.not_joined} then 'awaited'
    when exists (
      select 1
      from edges indexed by edges_pending
      where parent_id = jobs.id
        and state = 'pending'
    ) then 'unsettled'
    -- children that are not asked to stop yet
    when exists (
      select 1
      from edges
      join jobs as child
        on child.id = edges.parent_id
      where edges.child_id = jobs.id
        and edges.fence = coalesce(jobs.joining, -1)
        and edges.state = 'pending'
        and child.parent_id = jobs.id
        and child.finished_at is null
        and child.cancel_requested_at is null
        and (
          child.step is not '$flow'
          or not exists (select 1 from signals where signals.job_id = child.id and signals.dedup_key = '$cancel')
        )
    ) then 'unsettled'
    else 'deleted'
  end,
  tenant_id, kind, status
from jobs
where id in (select value from json_each(?1))
  and (?2 is null or tenant_id = ?2)
order by id;

-- name: delete
delete from jobs
where id in (select value from json_each(?1))
returning id, group_id, tags;
