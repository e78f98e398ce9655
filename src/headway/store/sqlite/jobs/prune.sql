-- Differs because attempts, signals, edges and groups of pruned jobs are deleted by their own statements.

-- part: not_joined
-- a child is kept until the machine that waits for it goes on, or the flow has seen how it ended
not exists (
  select 1
  from edges
  join jobs as machine
    on machine.id = edges.child_id
    and machine.finished_at is null
  where edges.parent_id = jobs.id
    and edges.fence <> 0
    and (
      machine.joining = edges.fence
      or (
        edges.fence = -1
        and (
          edges.state = 'pending'
          or exists (
            select 1
            from signals
            where signals.job_id = machine.id
              and signals.dedup_key = '$child:' || jobs.id
              and signals.fence is null
          )
        )
      )
    )
)

-- name: next_queue
-- the next queue of a kind that has jobs with this end: two statements, for a comparison of pairs would walk over all
-- jobs of the pair
select kind, queue
from jobs indexed by jobs_prune
where status = ?1
  and finished_at is not null
  and kind = ?2
  and queue > ?3
order by queue
limit 1;

-- name: next_kind
select kind, queue
from jobs indexed by jobs_prune
where status = ?1
  and finished_at is not null
  and kind > ?2
order by kind, queue
limit 1;

-- name: own_retentions
-- kinds and queues that have one of their own
select 'kind', kind, policy ->> 'retention'
from definitions
where policy ->> 'retention' is not null
union all
select 'queue', name, retention
from queues
where retention is not null;

-- name: prune
delete from jobs
where rowid in (
  select rowid
  from jobs indexed by jobs_prune
  where status = ?1
    and kind = ?4
    and queue = ?5
    and finished_at < ?2
    and {not_joined}
  order by finished_at
  limit ?3
)
returning id, group_id, tags;

-- name: probe
select exists (
  select 1
  from jobs indexed by jobs_prune
  where status = ?1
    and kind = ?3
    and queue = ?4
    and finished_at < ?2
    and {not_joined}
);

-- name: prune_attempts
delete from attempts
where job_id = ?1;

-- name: prune_tags
delete from job_tags
where tag in (select value from json_each(?1))
  and job_id = ?2;

-- name: prune_job_errors
delete from job_errors
where job_id in (select value from json_each(?1));

-- name: prunable_jobs
select count(*)
from jobs indexed by jobs_prune
where status = ?1
  and kind = ?3
  and queue = ?4
  and finished_at < ?2
  and {not_joined};

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
from audit as a
left join audit_seals as s on s.n = a.seal
where coalesce(s.newest_at, a.at) < ?1;

-- name: any_ties
-- whether there are any edges, signals, artifacts or journals at all
select
  exists (select 1 from edges), exists (select 1 from signals), exists (select 1 from artifacts),
  exists (select 1 from flow_journal);

-- name: prune_children
delete from edges
where child_id in (select value from json_each(?1));

-- name: prune_parents
-- the outcome of a pruned job still matters to jobs that wait
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

-- name: prune_journal
delete from flow_journal
where job_id = ?1;

-- name: prune_groups
-- a group goes with the last of its members and its callback
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

-- name: prunable_stats
select count(*)
from stats indexed by stats_at
where span = ?1
  and at < ?2;

-- name: prunable_errors
select count(*)
from errors indexed by errors_seen
where last_seen_at < ?1;
