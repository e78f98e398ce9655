-- Differs because the end of the last child wakes the machine in the same transaction.

-- name: joined
-- of these machines, those whose children are all over
select rowid, id, unique_key, unique_scope
from jobs
where id in (select value from json_each(?1))
  and status = 'waiting'
  and pending = 1
  and not exists (
    select 1
    from edges
    where child_id = jobs.id
      and fence = jobs.joining
      and state = 'pending'
  )
order by position, id;

-- name: decided
-- of these machines, those whose Spawn has an until: enough children have succeeded, or too few are left for that; all
-- edges of a Spawn have the same `needed`
select jobs.id, jobs.joining
from jobs
where jobs.id in (select value from json_each(?1))
  and jobs.status = 'waiting'
  and jobs.pending = 1
  and (select needed from edges where child_id = jobs.id and fence = jobs.joining limit 1) is not null
  and exists (select 1 from edges where child_id = jobs.id and fence = jobs.joining and state = 'pending')
  and (
    select sum(state = 'done') >= max(needed) or sum(state in ('done', 'pending')) < max(needed)
    from edges
    where child_id = jobs.id
      and fence = jobs.joining
  );

-- name: leave
update edges
set state = 'left'
where child_id = ?1
  and fence = ?2
  and state = 'pending';

-- name: left
-- the children that a machine went on without and that were not asked to stop yet
select child.rowid
from edges
join jobs as child
  on child.id = edges.parent_id
where edges.child_id = ?1
  and edges.state = 'left'
  and child.parent_id = ?1
  and child.finished_at is null
  and child.cancel_requested_at is null
  and (
    child.step is not '$flow'
    or not exists (select 1 from signals where signals.job_id = child.id and signals.dedup_key = '$cancel')
  )
limit ?2;

-- name: siblings
-- the children that a machine waits for and that were not asked to stop yet
select child.rowid
from jobs as machine
join edges
  on edges.child_id = machine.id
  -- a flow's: -1
  and edges.fence = coalesce(machine.joining, -1)
  and edges.state = 'pending'
join jobs as child
  on child.id = edges.parent_id
where machine.id = ?1
  and child.parent_id = ?1
  and child.finished_at is null
  and child.cancel_requested_at is null
  and (
    child.step is not '$flow'
    or not exists (select 1 from signals where signals.job_id = child.id and signals.dedup_key = '$cancel')
  )
limit ?2;

-- name: stopped_by
-- why a machine's children must stop: it is over, or one of them failed
select id, status
from jobs
where id = ?1
  and finished_at is not null
union all
select edges.parent_id, coalesce(child.status, 'gone')
from jobs as machine
join edges
  on edges.child_id = machine.id
  and edges.fence = machine.joining
  and edges.state = 'failed'
  and edges.on_failure = 'stop'
left join jobs as child
  on child.id = edges.parent_id
where machine.id = ?1
  and machine.status = 'waiting'
limit 1;

-- name: await_again
-- children that were retried run again
update edges
set state = 'pending'
where child_id = ?1
  and fence = (select joining from jobs where id = ?1)
  and state in ('done', 'failed')
  and exists (
    select 1
    from jobs
    where jobs.id = edges.parent_id
      and jobs.finished_at is null
  );

-- name: began
select began
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: joining
select joining
from jobs
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: spawner
-- the job that spawned at that fence: the machine, or the nearest one that it was forked from
with recursive chain (id, origin, n) as (
  select id, case when began ->> 'joining' = ?2 then coalesce(began ->> 'joined', forked_from) else forked_from end, 0
  from jobs
  where id = ?1
    and (?3 is null or tenant_id = ?3)
  union all
  select
    jobs.id,
    case
      when jobs.began ->> 'joining' = ?2 then coalesce(jobs.began ->> 'joined', jobs.forked_from)
      else jobs.forked_from
    end,
    chain.n + 1
  from chain
  join jobs
    on jobs.id = chain.origin
)
select id
from chain
where exists (
    select 1
    from edges
    where child_id = chain.id
      and fence = ?2
  )
  or exists (
    select 1
    from attempts
    where job_id = chain.id
      and fence = ?2
      and outcome = 'spawn'
  )
order by n
limit 1;

-- part: child
-- the columns of a child
jobs.id,
jobs.kind,
jobs.status,
jobs.result,
jobs.error,
-- as `results` has it
substr(jobs.result, 1, 14) = '{"$artifact":"' and exists (
  select 1
  from artifacts
  where artifacts.job_id = jobs.id
    and artifacts.fence = jobs.fence
    and artifacts.name glob '.result*'
    and jobs.result = '{"$artifact":"' || artifacts.id || '"}'
) as spilled

-- name: children
select {child}
from edges
join jobs
  on jobs.id = edges.parent_id
where edges.child_id = ?1
  and edges.fence = ?2
order by edges.place, jobs.id;

-- name: spawned
select edges.fence, edges.parent_id
from jobs
join edges
  on edges.child_id = jobs.id
where jobs.id = ?1
  and (?2 is null or jobs.tenant_id = ?2)
  and edges.fence > 0
order by edges.fence, edges.place, edges.parent_id;
