-- The end of an execution: the common core of settle and reap.

-- End executions: for each (id, fence) that still runs, move the job and write its attempt. A job that was asked to
-- cancel ends canceled, unless it succeeded or is dead; one that would enter a unique scope now taken loses its key
-- and, unless it is over anyway, ends canceled; for one that failed over at_most_once, a new job is made that retries
-- it. p_turns are the turns of machines, as Turn in model/machine.py (of the children only that there are some),
-- p_states their states. Without a turn a machine stays at its step. One that goes to running starts its next execution
-- here, with fence + 1. A Spawn that ends canceled spawns nothing: if the job is retried, its step runs again. Locks
-- the rows in order of id; the caller's lock_timeout bounds how long it waits for a row, or for a unique key of a
-- user's open transaction. Gives the rows it changed, their new statuses and their turns.
-- p_superseded are the jobs that lose their key to p_holders. Null: not known yet; nothing is written if a job may
-- enter a unique scope, and end_attempts_entering finds out. Nothing else can be refused, so the usual case needs no
-- subtransaction.
create function headway.end_attempts(
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[],
  p_losses integer[],
  p_delays_ms bigint[],
  p_results json[],
  p_errors text[],
  p_exit_codes integer[],
  p_stdout_tails text[],
  p_stderr_tails text[],
  p_turns jsonb[] default null,
  p_states json[] default null,
  p_superseded uuid[] default null,
  p_holders uuid[] default null,
  p_pids integer[] default null,
  out ids uuid[],
  out fences integer[],
  out nexts text[],
  out turns jsonb[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
-- always the plan by primary key: one made while the table was small must not outlive that
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now timestamptz := headway.now();
  v_keys text[];
  v_failed boolean;
  v_retried uuid[];
  v_may_enter boolean;
  v_tenants uuid[];
  v_trains text[];
  v_followed boolean;
  v_leaving uuid[];
  v_left text[];
  v_sampled integer := headway.sampled(cardinality(p_ids));
  v_flows uuid[];
begin
  with given as (
    select *
      from unnest(p_ids, p_fences, p_statuses, p_tos, p_charges, p_losses, p_delays_ms, p_results, p_errors,
                  p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids)
           as u (id, fence, status, next, charge, loss, delay_ms, result, error,
                 exit_code, stdout_tail, stderr_tail, turn, state, pid)
     -- makes the planner expect one row, and so use the primary key, however small the table was at first
     limit cardinality(p_ids)
  ), locked as materialized (
    select j.id, j.fence, j.tenant_id, j.worker_id, j.unique_key, j.queue, j.kind, j.queued_at,
           -- a row may be running without a start, if somebody disabled the checks
           coalesce(j.attempt_started_at, j.started_at, v_now) as attempt_started_at,
           g.status, g.charge, g.loss, g.delay_ms,
           g.result, g.exit_code, g.stderr_tail, g.pid,
           j.train,
           coalesce(j.partition, j.on_canceled, j.on_dead) is not null or j.concurrency is not null
             or j.limited is true or j.group_id is not null as followed,
           p_superseded is null and j.unique_key is not null and not 'running' = any (j.unique_scope) as may_enter,
           coalesce(g.stdout_tail, j.log_tail) as stdout_tail,
           case
             when j.cancel_requested_at is not null
                  and g.next in ('scheduled', 'queued', 'waiting', 'running', 'failed', 'canceled')
               then coalesce(g.error, j.cancel_reason)
             else g.error
           end as error,
           -- an at_most_once job hands its key on to the job that retries it
           j.unique_key is not null and (d.retried or (j.id = any (p_superseded)) is true) as drops_key,
           d.retried,
           case when j.id = any (p_superseded) and g.next in ('scheduled', 'queued', 'waiting')
                then headway.superseded(j.unique_key, p_holders[array_position(p_superseded, j.id)])
           end as superseded,
           case
             when d.canceled then 'canceled'
             when g.next = 'scheduled' and coalesce(g.delay_ms, 0) = 0 then 'queued'
             when g.turn is not null and g.next = 'running' and d.elsewhere then 'queued'
             else g.next
           end as next,
           j.step, j.version, j.woken, g.turn, g.state,
           -- a plain job has no turn, so all of this is null for it
           case when g.turn is not null and not d.undone then g.turn end as goes,
           case when g.turn is not null and not d.undone then g.turn ? 'progress' end as progress,
           case when g.next = 'running' and not d.canceled then d.elsewhere is not true end as goes_on
      from given g
      join headway.jobs j on j.id = g.id and j.fence = g.fence
      cross join lateral (
        -- a machine that returned Stop has failed for good; any other failure is retried by a new job
        select g.next = 'failed' and (g.turn ->> 'outcome') is distinct from 'stop' as retried
      ) s
      cross join lateral (
        select j.cancel_requested_at is not null
               and (g.next in ('scheduled', 'queued', 'waiting', 'running') or s.retried)
               or (j.id = any (p_superseded)) is true and g.next in ('scheduled', 'queued', 'waiting') as canceled
      ) c
      cross join lateral (
        select c.canceled,
               s.retried and not c.canceled as retried,
               -- a Spawn that is canceled has no children
               c.canceled and g.turn ? 'joins' as undone,
               -- another queue or partition has limits of its own, which only a claim checks
               g.turn ? 'queue'
               and (j.queue, j.partition) is distinct from (g.turn ->> 'queue', g.turn ->> 'partition') as elsewhere
      ) d
     -- "is true" keeps the planner from the index of running jobs: it joins by primary key
     where (j.status = 'running') is true
       and j.committed is null -- else its handler has decided: settle_committed
     order by j.id
       for update of j
  ), moved as (
    update headway.jobs j
       set status = l.next,
           tries = case when l.progress then 0 else j.tries + coalesce(l.charge, 0) end,
           losses = case when l.progress then 0 else j.losses + coalesce(l.loss, 0) end,
           step_fence = case when l.progress then j.fence else j.step_fence end,
           result = l.result,
           error = coalesce(l.superseded, l.error),
           finished_at = case when l.next in ('succeeded', 'failed', 'dead', 'canceled') then v_now end,
           -- also of a Sleep that ends canceled: a retry sleeps until then
           scheduled_for = case when l.next = 'scheduled' or l.goes ->> 'outcome' = 'sleep'
                                  then v_now + l.delay_ms * interval '1 millisecond'
                                else j.scheduled_for end,
           -- also if it goes on at once: its next execution did not wait
           queued_at = case when l.next = 'queued' or l.goes_on then v_now else j.queued_at end,
           unique_scope = case when l.drops_key then headway.without_key(j.unique_scope, l.next) else j.unique_scope end,
           cancel_requested_at = null,
           cancel_reason = null,
           -- runs on: the next execution starts
           fence = case when l.goes_on then j.fence + 1 else j.fence end,
           worker_id = case when l.goes_on then j.worker_id end,
           attempt_started_at = case when l.goes_on then v_now end,
           progress = case when l.goes_on then null else j.progress end,
           progress_note = case when l.goes_on then null else j.progress_note end,
           log_tail = case when l.goes_on then null else j.log_tail end,
           log_end = case when l.goes_on then null else j.log_end end,
           -- behind the jobs that have waited longer
           position = case when l.next = 'queued' and l.goes ->> 'outcome' = 'next' and j.train is null
                           then nextval('headway.position') else j.position end,
           step = case when l.goes is null then j.step else l.goes ->> 'step' end,
           version = case when l.goes is null then j.version else (l.goes ->> 'version')::integer end,
           state = case when l.goes is null then j.state else coalesce(l.state, j.state) end,
           awaiting = case when l.progress then headway.texts(l.goes -> 'awaiting') else j.awaiting end,
           match_all = case when l.progress then case when l.goes ? 'all' then true end
                            else j.match_all end,
           deadline_at = case when l.progress
                              then v_now + (l.goes ->> 'deadline_ms')::bigint * interval '1 millisecond'
                              else j.deadline_at end,
           joining = case when l.progress then case when l.goes ->> 'outcome' = 'spawn' then j.fence end
                          else j.joining end,
           pending = case when l.goes ? 'joins' then true else j.pending end,
           woken = case when l.progress then case when l.goes ? 'childless' then 'children' end
                        else j.woken end
      from locked l
     where j.id = l.id
       and not exists (select from locked k where k.may_enter)
  ), written as (
    insert into headway.attempts (
      job_id, tenant_id, fence, status, started_at, finished_at, worker_id, error,
      exit_code, stdout_tail, stderr_tail, pid, step, version, woken, outcome, note, state)
    select l.id, l.tenant_id, l.fence, l.status, l.attempt_started_at, v_now, l.worker_id, l.error,
           l.exit_code, l.stdout_tail, l.stderr_tail, l.pid, coalesce(l.turn ->> 'ran', l.step),
           coalesce((l.turn ->> 'version')::integer, l.version), l.woken, l.turn ->> 'outcome', l.turn ->> 'note',
           case when l.goes is not null then l.state end
      from locked l
     where not exists (select from locked k where k.may_enter)
    on conflict do nothing
  ), counted as (
    insert into headway.stat_deltas (
      at, tenant_id, queue, kind, succeeded, failed, retried, dead, canceled, lost, ended, waits, runs)
    select v_now, l.tenant_id, l.queue, l.kind,
           count(*) filter (where l.next = 'succeeded'),
           count(*) filter (where l.status in ('failed', 'timeout')),
           count(*) filter (where l.status in ('failed', 'timeout', 'lost') and (l.retried or l.next in ('scheduled', 'queued'))),
           count(*) filter (where l.next = 'dead'),
           count(*) filter (where l.next = 'canceled'),
           count(*) filter (where l.status = 'lost'),
           count(*),
           array_agg(headway.elapsed_ms(coalesce(l.queued_at, l.attempt_started_at), l.attempt_started_at))
             filter (where uuid_hash(l.id) & v_sampled = 0),
           array_agg(headway.elapsed_ms(l.attempt_started_at, v_now)) filter (where uuid_hash(l.id) & v_sampled = 0)
      from locked l
     where not exists (select from locked k where k.may_enter)
     group by l.tenant_id, l.queue, l.kind
  ), erred as (
    insert into headway.error_deltas (at, tenant_id, job_id, fence, dead, status, queue, kind, error)
    select v_now, l.tenant_id, l.id, l.fence, l.next = 'dead', l.status, l.queue, l.kind, headway.error_excerpt(l.error)
      from locked l
     -- checked once: nothing is done for a batch in which none ended badly
     where p_statuses && '{failed,timeout,lost}'
       and l.status in ('failed', 'timeout', 'lost')
       and not exists (select from locked k where k.may_enter)
  )
  select array_agg(l.id), array_agg(l.fence), array_agg(l.next), array_agg(l.unique_key), bool_or(l.retried),
         array_agg(l.goes), bool_or(l.may_enter), bool_or(l.followed and l.goes_on is not true),
         array_agg(l.id) filter (where (l.followed or l.train is not null) and l.goes_on is not true),
         array_agg(l.tenant_id) filter (where l.train is not null and l.over),
         array_agg(l.train) filter (where l.train is not null and l.over),
         array_agg(l.id) filter (where l.retried), array_agg(l.id) filter (where l.step = '$flow' and l.over)
    into ids, fences, nexts, v_keys, v_failed, turns, v_may_enter, v_followed, v_leaving, v_tenants, v_trains,
         v_retried, v_flows
    from (select k.*, k.next in ('succeeded', 'dead', 'canceled') or k.next = 'failed' and not k.retried as over
            from locked k) l;
  if v_may_enter then
    select e.*
      into ids, fences, nexts, turns
      from headway.end_attempts_entering(
             p_ids, p_fences, p_statuses, p_tos, p_charges, p_losses, p_delays_ms, p_results, p_errors,
             p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids) e;
    return;
  end if;
  if v_failed then
    perform headway.retry_as_new(f.ids, f.delays, f.keys)
       from (select array_agg(e.id) as ids, array_agg(g.delay_ms) as delays, array_agg(e.unique_key) as keys
               from unnest(ids, nexts, v_keys) as e (id, next, unique_key)
               join unnest(p_ids, p_delays_ms) as g (id, delay_ms) on g.id = e.id
              where e.id = any (v_retried)) f;
  end if;
  -- from here on in new snapshots, which see what was committed before the rows were locked
  if p_turns is not null then
    v_left := headway.write_turns(ids, fences, turns, v_now);
  end if;
  if v_followed then
    perform headway.follow(v_leaving, v_now, v_left);
  elsif v_trains is not null then
    perform headway.release_next_cars(v_tenants, v_trains, v_now);
  end if;
  perform headway.tell_dependents(ids);
  perform headway.announce(ids, v_now);
  if v_flows is not null then
    perform headway.orphan_called(v_flows);
  end if;
end
$$;

-- The same where some may enter a unique scope: if one is refused, find the holders of the keys and try again.
create function headway.end_attempts_entering(
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[],
  p_losses integer[],
  p_delays_ms bigint[],
  p_results json[],
  p_errors text[],
  p_exit_codes integer[],
  p_stdout_tails text[],
  p_stderr_tails text[],
  p_turns jsonb[],
  p_states json[],
  p_pids integer[],
  out ids uuid[],
  out fences integer[],
  out nexts text[],
  out turns jsonb[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_superseded uuid[] := '{}';
  v_holders uuid[] := '{}';
  v_found uuid[];
  v_found_holders uuid[];
begin
  loop
    begin
      select e.*
        into ids, fences, nexts, turns
        from headway.end_attempts(
               p_ids, p_fences, p_statuses, p_tos, p_charges, p_losses, p_delays_ms, p_results, p_errors,
               p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states,
               v_superseded, v_holders, p_pids) e;
      return;
    exception when unique_violation then
      -- the holder is another job, or an earlier one of this batch
      with entering as (
        select j.id, j.tenant_id, k.shared_by, j.unique_key,
               first_value(j.id) over (partition by j.tenant_id, k.shared_by, j.unique_key order by j.id) as first
          from unnest(p_ids, p_fences, p_tos, p_delays_ms, p_turns) as u (id, fence, next, delay_ms, turn)
          join headway.jobs j on j.id = u.id and j.fence = u.fence
          cross join lateral (select coalesce(j.unique_group, j.kind) as shared_by) k
         where (j.status = 'running') is true
           and j.committed is null
           and j.unique_key is not null
           and not 'running' = any (j.unique_scope)
           -- its new status, decided as in end_attempts
           and case
                 when j.cancel_requested_at is not null
                      and (u.next in ('scheduled', 'queued', 'waiting', 'running')
                           or u.next = 'failed' and (u.turn ->> 'outcome') is distinct from 'stop') then 'canceled'
                 when u.next = 'scheduled' and coalesce(u.delay_ms, 0) = 0 then 'queued'
                 when u.next = 'running' and u.turn ? 'queue'
                      and (j.queue, j.partition) is distinct from (u.turn ->> 'queue', u.turn ->> 'partition')
                   then 'queued'
                 else u.next
               end = any (j.unique_scope)
      ), blocked as (
        select e.id, coalesce(o.id, case when e.first <> e.id then e.first end) as holder
          from entering e
          left join headway.jobs o
            on o.tenant_id = e.tenant_id and coalesce(o.unique_group, o.kind) = e.shared_by
           and o.unique_key = e.unique_key
           and o.unique_key is not null and o.status = any (o.unique_scope) and o.id <> e.id
      )
      select array_agg(b.id), array_agg(b.holder)
        into v_found, v_found_holders
        from blocked b
       where b.holder is not null
         and b.id <> all (v_superseded);
      if v_found is null then
        raise;
      end if;
      v_superseded := v_superseded || v_found;
      v_holders := v_holders || v_found_holders;
    end;
  end loop;
end
$$;
