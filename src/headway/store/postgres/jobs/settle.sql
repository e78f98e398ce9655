-- Settle: write how executions ended.

-- Write how executions ended (see end_attempts). Gives a verdict for some of them: `lost`, not this worker's to end
-- (not given for one that was written before and whose answer got lost); `continued`, runs on with fence + 1, with its
-- signals; `parked`, a Spawn, whose children the caller has to enqueue in this transaction.
-- Waits no longer than p_patience for anybody (55P03): then nothing is written, and the caller tries again with fewer.
create function headway.settle(
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[] default null,
  p_delays_ms bigint[] default null,
  p_results json[] default null,
  p_errors text[] default null,
  p_exit_codes integer[] default null,
  p_stdout_tails text[] default null,
  p_stderr_tails text[] default null,
  p_turns jsonb[] default null,
  p_states json[] default null,
  p_pids integer[] default null,
  p_patience text default '250ms'
) returns table (id uuid, fence integer, verdict text, signals text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
  v_fences integer[];
  v_nexts text[];
  v_turns jsonb[];
begin
  -- a user's open transaction may hold a unique key or a row: better to fail and try again without that job than to let
  -- all outcomes wait. Stays set for the children, which this transaction enqueues after a `parked`
  perform set_config('lock_timeout', p_patience, true);
  select e.ids, e.fences, e.nexts, e.turns
    into v_ended, v_fences, v_nexts, v_turns
    from headway.end_attempts(
           p_ids, p_fences, p_statuses, p_tos, p_charges, null, p_delays_ms, p_results, p_errors,
           p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids => p_pids) e;
  if p_turns is not null then
    return query
      select e.id, e.fence, 'continued', i.signals
        from unnest(v_ended, v_fences, v_nexts) as e (id, fence, next)
        cross join lateral (select headway.inbox(e.id, null)::text as signals) i
       where e.next = 'running'
      union all
      select e.id, e.fence, 'parked', null
        from unnest(v_ended, v_fences, v_turns) as e (id, fence, turn)
       where e.turn ? 'joins';
  end if;
  if cardinality(v_ended) = cardinality(p_ids) then
    return;
  end if;
  return query
    with missing as (
      select u.id, u.fence, u.next,
             exists (
               select
                 from headway.attempts a
                where a.job_id = u.id and a.fence = u.fence and a.worker_id = p_worker and a.status <> 'lost') as written
        from unnest(p_ids, p_fences, p_tos) as u (id, fence, next)
       where not exists (select from unnest(v_ended, v_fences) as e (id, fence) where e.id = u.id and e.fence = u.fence)
    )
    select m.id, m.fence, 'lost', null
      from missing m
     where not m.written
    union all
    select m.id, m.fence, 'continued', i.signals
      from missing m
      join headway.jobs j on j.id = m.id and j.fence = m.fence + 1 and j.worker_id = p_worker
      cross join lateral (select headway.inbox(m.id, null)::text as signals) i
     where m.written
       and m.next = 'running'
       and (j.status = 'running') is true;
end
$$;

-- Settle jobs that succeeded. Fast path: plain jobs at their first attempt, in one statement without the columns that
-- no such job has; the others by settle. Answers as settle does.
-- Locks the plain jobs in order of id, then the others. Waits for a lock no longer than settle does (55P03).
create function headway.succeed(p_worker uuid, p_ids uuid[], p_fences integer[], p_results json[] default null)
returns table (id uuid, fence integer, verdict text, signals text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- for the same reasons as end_attempts
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '250ms'
as $$
declare
  v_now timestamptz := headway.now();
  v_ended uuid[];
  v_fences integer[];
  v_sampled integer := headway.sampled(cardinality(p_ids));
begin
  with moved as (
    update headway.jobs j
       set status = 'succeeded',
           result = u.result,
           error = null,
           finished_at = v_now,
           worker_id = null,
           attempt_started_at = null,
           cancel_requested_at = null,
           cancel_reason = null
      from (
        select *
          from unnest(p_ids, p_fences, p_results) as g (id, fence, result)
         order by g.id
         -- makes the planner expect one row, and so use the primary key, however small the table was at first
         limit cardinality(p_ids)
      ) u
     where j.id = u.id
       and j.fence = u.fence
       and (j.status = 'running') is true
       and j.worker_id = p_worker
       and j.committed is null
       -- its first attempt: started_at stays, so the attempt's start is known after the update
       and j.started_at = j.attempt_started_at
       and coalesce(j.train, j.partition) is null
       and coalesce(j.concurrency, j.version) is null
       and j.limited is not true
       and j.group_id is null
       and (j.unique_key is null or 'running' = any (j.unique_scope))
    returning j.id, j.tenant_id, j.fence, j.started_at, j.log_tail, j.queue, j.kind, j.queued_at
  ), written as (
    insert into headway.attempts (
      job_id, tenant_id, fence, status, started_at, finished_at, worker_id, stdout_tail)
    select m.id, m.tenant_id, m.fence, 'succeeded', m.started_at, v_now, p_worker, m.log_tail
      from moved m
  ), counted as (
    insert into headway.stat_deltas (at, tenant_id, queue, kind, succeeded, ended, waits, runs)
    select v_now, m.tenant_id, m.queue, m.kind, count(*), count(*),
           array_agg(headway.elapsed_ms(m.queued_at, m.started_at)) filter (where uuid_hash(m.id) & v_sampled = 0),
           array_agg(headway.elapsed_ms(m.started_at, v_now)) filter (where uuid_hash(m.id) & v_sampled = 0)
      from moved m
     group by m.tenant_id, m.queue, m.kind
  )
  select array_agg(m.id), array_agg(m.fence) into v_ended, v_fences from moved m;
  perform headway.tell_dependents(v_ended);
  perform headway.announce(v_ended, v_now);
  if cardinality(v_ended) = cardinality(p_ids) then
    return;
  end if;
  return query
    select s.*
      from (
        select array_agg(g.id) as ids, array_agg(g.fence) as fences, array_agg('succeeded'::text) as ends,
               array_agg(g.result) as results
          from unnest(p_ids, p_fences, p_results) as g (id, fence, result)
         where not exists (
                 select from unnest(v_ended, v_fences) as e (id, fence) where e.id = g.id and e.fence = g.fence)
      ) g
      cross join lateral headway.settle(p_worker, g.ids, g.fences, g.ends, g.ends, p_results => g.results) s;
end
$$;

-- Settle, and then claim (flows only with p_flows), in one transaction. Gives the rows of settle, without a claim, and then a row for each claim,
-- with nothing else in it.
create function headway.settle_and_claim(
  p_queue text,
  p_limit integer,
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[] default null,
  p_delays_ms bigint[] default null,
  p_results json[] default null,
  p_errors text[] default null,
  p_exit_codes integer[] default null,
  p_stdout_tails text[] default null,
  p_stderr_tails text[] default null,
  p_turns jsonb[] default null,
  p_states json[] default null,
  p_pids integer[] default null,
  p_flows boolean default false
) returns table (id uuid, fence integer, verdict text, signals text, claim headway.claimed_job)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select s.id, s.fence, s.verdict, s.signals, null::headway.claimed_job
      from headway.settle(
             p_worker, p_ids, p_fences, p_statuses, p_tos, p_charges, p_delays_ms, p_results, p_errors,
             p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids) s;
  return query
    select null::uuid, null::integer, null::text, null::text, c
      from headway.claim(p_worker, p_queue, p_limit, p_flows => p_flows) c;
end
$$;
