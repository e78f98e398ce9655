-- Differs because what hangs on the pruned jobs is removed by statements of its own, as far as there is any.

-- name: prune
-- a child is kept until the machine that waits for it has gone on
delete from jobs
where rowid in (
  select rowid
  from jobs indexed by jobs_prune
  where status = ?1
    and finished_at < ?2
    and not exists (
      select 1
      from edges
      join jobs as machine
        on machine.id = edges.child_id
        and machine.joining = edges.fence
        and machine.finished_at is null
      where edges.parent_id = jobs.id
        and edges.fence > 0
    )
  order by finished_at
  limit ?3
)
returning id, group_id;

-- name: probe
select exists (
  select 1
  from jobs indexed by jobs_prune
  where status = ?1
    and finished_at < ?2
    and not exists (
      select 1
      from edges
      join jobs as machine
        on machine.id = edges.child_id
        and machine.joining = edges.fence
        and machine.finished_at is null
      where edges.parent_id = jobs.id
        and edges.fence > 0
    )
);

-- name: prune_attempts
delete from attempts
where job_id = ?1;

-- name: prune_audit
-- entries come in order of time: none but the first need a look
delete from audit
where id in (
    select id
    from audit
    order by id
    limit ?2
  )
  and at < ?1
returning id;

-- name: audit_probe
select exists (
  select 1
  from (
    select at
    from audit
    order by id
    limit 1
  )
  where at < ?1
);

-- name: prunable_jobs
select count(*)
from jobs indexed by jobs_prune
where status = ?1
  and finished_at < ?2
  and not exists (
    select 1
    from edges
    join jobs as machine
      on machine.id = edges.child_id
      and machine.joining = edges.fence
      and machine.finished_at is null
    where edges.parent_id = jobs.id
      and edges.fence > 0
  );

-- name: prunable_events
select count(*)
from events indexed by events_prune
where status = ?1
  and handled_at is not null
  and handled_at < ?2;

-- name: prunable_fires
select count(*)
from fires indexed by fires_prune
where event_id is null
  and fired_at < ?1;

-- name: prunable_audit
select count(*)
from audit
where at < ?1;

-- name: any_ties
-- is there anything to prune beside the jobs
select exists (select 1 from edges), exists (select 1 from signals);

-- name: prune_children
delete from edges
where child_id in (select value from json_each(?1));

-- name: prune_parents
-- how a pruned job ended still matters to those that wait
delete from edges
where parent_id in (select value from json_each(?1))
  and not exists (
    select 1
    from jobs
    where jobs.id = edges.child_id
      and jobs.pending = 1
      and (edges.fence = 0 or edges.fence = jobs.joining)
  );

-- name: prune_signals
delete from signals
where job_id = ?1;

-- name: prune_groups
-- a group without its members and its callback is nothing any more
delete from groups
where (id in (select value from json_each(?1)) or callback_id in (select value from json_each(?2)))
  and not exists (
    select 1
    from jobs indexed by jobs_group
    where group_id = groups.id
  )
  and not exists (
    select 1
    from jobs
    where jobs.id = groups.callback_id
  );
