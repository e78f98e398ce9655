-- Differs because an edge is decided in the transaction that ends its parent.

-- name: end
update edges
set state = ?2
where parent_id = ?1
  and (child_id, fence) in (
    select child_id, fence
    from edges indexed by edges_pending
    where parent_id = ?1
      and state = 'pending'
    limit ?3
  )
returning parent_id, child_id, fence, on_failure;

-- name: inherit_dependents
update edges
set parent_id = ?2
where parent_id = ?1
  and state = 'pending';

-- name: ready
-- of these jobs, those that wait for no parent any more, with the first parent that failed, if any
select
  head.rowid, head.tenant_id, head.train, {order/held_jobs.goes_to},
  head.unique_key, head.unique_scope,
  (
    select parent_id
    from edges
    where child_id = head.id
      and fence = 0
      and state = 'failed'
      and on_failure = 'stop'
    order by parent_id
    limit 1
  )
from jobs as head
where head.id in (select value from json_each(?1))
  and head.pending = 1
  and head.status = 'held'
  and not exists (
    select 1
    from edges
    where child_id = head.id
      and fence = 0
      and state = 'pending'
  )
order by head.position, head.id;

-- name: statuses
select id, status
from jobs
where id in (select value from json_each(?1));

-- name: parents
select id, tenant_id, status
from jobs
where id in (select value from json_each(?1));

-- name: heir
-- the last of the jobs that retry this one
with recursive chain (id) as (
  select ?1
  union all
  select jobs.id
  from chain
  join jobs
    on jobs.retry_of = chain.id
)
select jobs.id, jobs.status
from chain
join jobs
  on jobs.id = chain.id
order by jobs.id desc
limit 1;

-- name: add
insert into edges (parent_id, child_id, fence, tenant_id, on_failure, state, place, needed)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict do nothing;

-- name: awaited
select edges.parent_id, parent.status
from edges
join jobs as child
  on child.id = edges.child_id
left join jobs as parent
  on parent.id = edges.parent_id
where edges.child_id = ?1
  and edges.state = 'pending'
  and (?2 is null or child.tenant_id = ?2)
order by edges.parent_id;

-- name: waiters
select waiter.id, waiter.kind, waiter.status, case when edges.fence <> 0 then 'children' else 'after' end
from edges indexed by edges_pending
join jobs as waiter
  on waiter.id = edges.child_id
where edges.parent_id = ?1
  and edges.state = 'pending'
  and (?2 is null or waiter.tenant_id = ?2)
order by waiter.id
limit ?3;

-- name: cars_behind
select behind.id, behind.kind, behind.status, 'train'
from jobs as me
join jobs as behind indexed by jobs_held
  on behind.tenant_id = me.tenant_id
  and behind.train = me.train
  and behind.status = 'held'
where me.id = ?1
  and (?2 is null or me.tenant_id = ?2)
  and me.finished_at is null
  and behind.id <> me.id
  and (me.status <> 'held' or (behind.position, behind.id) > (me.position, me.id))
order by behind.position, behind.id
limit ?3;

-- name: reopen
-- jobs that still wait for a retried one wait again, for the id that runs now
update edges
set parent_id = ?2,
  state = 'pending'
where parent_id = ?1
  and exists (
    select 1
    from jobs
    where jobs.id = edges.child_id
      and jobs.pending = 1
      and (jobs.status = 'held' or (jobs.status = 'waiting' and jobs.joining = edges.fence))
  );

-- name: called
-- unfinished flows that called these jobs
select edges.parent_id, edges.child_id
from json_each(?1) as named
join edges
  on edges.parent_id = named.value
  and edges.fence = -1
  and edges.state <> 'left'
join jobs
  on jobs.id = edges.child_id
  and jobs.finished_at is null;

-- name: call_again
update edges
set parent_id = ?3,
  state = 'pending'
where parent_id = ?1
  and child_id = ?2
  and fence = -1;

-- name: inherit_canceled
-- jobs that its end has canceled belong to the new one, in case they are revived
update edges
set parent_id = ?2
where parent_id = ?1
  and fence = 0
  and state = 'failed';

-- name: behind
-- of these jobs, those that wait for an unfinished one, or for another of these
select distinct edges.child_id
from json_each(?1) as child
join edges
  on edges.child_id = child.value
  and edges.fence = 0
left join jobs as parent
  on parent.id = edges.parent_id
where (parent.id is not null and parent.finished_at is null)
  or edges.parent_id in (select value from json_each(?1));

-- name: rejoin
-- after all were put back: an unfinished parent is waited for again, a finished one is not
update edges
set state = case
  when exists (
    select 1
    from jobs
    where jobs.id = edges.parent_id
      and jobs.finished_at is null
  )
  then 'pending'
  else 'done'
end
where child_id in (select value from json_each(?1))
  and fence = 0;

-- name: inherit_parents
update edges
set child_id = ?2
where child_id = ?1;

-- name: over
-- parents that these jobs wait for although they are over, or deleted
select distinct edges.parent_id, parent.status
from edges
left join jobs as parent
  on parent.id = edges.parent_id
where edges.child_id in (select value from json_each(?1))
  and edges.state = 'pending'
  and (parent.id is null or parent.finished_at is not null);
