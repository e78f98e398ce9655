-- Reap: end the executions of workers that are gone.

-- End the executions of workers that are gone: their lease is over, they are not registered, or p_gone names them; and
-- executions without a worker, which only SQL can leave. Skips rows that somebody has locked, or that an open
-- transaction blocks: the next round ends them. An execution that cannot be ended is given with its fault, and does not
-- stop the others. One whose handler committed its outcome is not lost: it is given as `committed`, for the caller to
-- settle (settle_committed). Removes the workers once they run nothing.
-- p_by is the worker that reaps. A database that stood still received no heartbeats, so leases that ran out meanwhile
-- prove nothing: unless p_by's own heartbeats came in time for one whole lease, only p_gone are reaped. Null: the clock
-- decides.
create function headway.reap(p_gone uuid[], p_limit integer, p_by uuid default null)
returns table (
  job_id uuid, fence integer, kind text, worker_id uuid, next text, fault text, committed boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- a user's open transaction may hold a unique key that a job enters here: the other jobs do not wait for it
set lock_timeout = '250ms'
-- always the plan by the index of running jobs and by primary key
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now timestamptz := headway.now();
  v_over timestamptz := '-infinity'; -- leases that ended before this are over
  v_dead uuid[];
  v_ids uuid[];
  v_id uuid;
  v_left uuid[] := '{}';
  v_more boolean;
begin
  if p_by is null or exists (
       select
         from headway.workers w
        where w.id = p_by
          and v_now between w.heartbeat_at and w.heartbeat_at + w.late_ms * interval '1 millisecond'
          and v_now >= w.steady_since + w.lease_ms * interval '1 millisecond') then
    v_over := v_now;
  end if;
  -- a skip scan over the workers that run something, instead of a scan over all running jobs
  with recursive busy (id) as (
    (select j.worker_id from headway.jobs j where j.status = 'running' order by j.worker_id limit 1)
    union all
    select (select j.worker_id
              from headway.jobs j
             where j.status = 'running' and j.worker_id > b.id
             order by j.worker_id
             limit 1)
      from busy b
     where b.id is not null
  )
  select array_agg(b.id)
    into v_dead
    from busy b
   where b.id is not null
     and (b.id = any (p_gone)
          or not exists (select from headway.workers w where w.id = b.id and w.lease_expires_at > v_over));
  perform from headway.jobs j where j.status = 'running' and j.worker_id is null limit 1;
  v_more := found or v_dead is not null;
  if v_more then
    return query
      (select j.id, j.fence, j.kind, j.worker_id, null::text, null::text, true
         from headway.jobs j
        where j.worker_id = any (v_dead)
          and j.status = 'running'
          and j.committed is not null
        limit p_limit)
      union all
      (select j.id, j.fence, j.kind, j.worker_id, null::text, null::text, true
         from headway.jobs j
        where j.worker_id is null
          and j.status = 'running'
          and j.committed is not null
        limit p_limit);
  end if;
  while v_more loop
    -- two queries, each by the index of running jobs and up to the limit
    v_ids := array(
      select j.id
        from headway.jobs j
       where j.worker_id = any (v_dead)
         and j.status = 'running'
         and j.committed is null
         and j.id <> all (v_left)
       limit p_limit
         for update skip locked);
    v_ids := v_ids || array(
      select j.id
        from headway.jobs j
       where j.worker_id is null
         and j.status = 'running'
         and j.committed is null
         and j.id <> all (v_left)
       limit p_limit - cardinality(v_ids)
         for update skip locked);
    v_more := false;
    begin
      return query select o.*, false from headway.lose(v_ids, v_now) o;
    exception when others then
      -- one by one from here on: many may be blocked, and each waits
      perform set_config('lock_timeout', '2ms', true);
      foreach v_id in array v_ids loop
        begin
          return query select o.*, false from headway.lose(array[v_id], v_now) o;
        exception when others then
          v_left := v_left || v_id;
          if sqlstate not in ('55P03', '40P01') then
            return query
              select j.id, j.fence, j.kind, j.worker_id, null::text, sqlerrm, false from headway.jobs j where j.id = v_id;
          end if;
        end;
      end loop;
      -- executions that cannot be ended must not use up the limit: go on, until ten times as many are left
      v_more := cardinality(v_ids) = p_limit and cardinality(v_left) < 10 * p_limit;
    end;
  end loop;

  v_ids := array(
    select o.id
      from headway.workers o
     where (o.lease_expires_at <= v_over or o.id = any (p_gone))
       and not exists (select from headway.jobs j where j.worker_id = o.id and j.status = 'running')
       for update skip locked);
  if cardinality(v_ids) > 0 then
    perform headway.remove_workers(v_ids, false);
  end if;
end
$$;

-- Remove this worker, whatever its lease says, and reap its jobs. A claim of it that commits after this is ended by the
-- next reap, since the worker is not registered. Raises HW006 for a worker that is not there.
create function headway.declare_dead(p_worker uuid, p_actor text default null)
returns table (
  job_id uuid, fence integer, kind text, worker_id uuid, next text, fault text, committed boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
  v_count integer;
begin
  select w.hostname || ':' || w.pid into v_name from headway.workers w where w.id = p_worker for update;
  if not found then
    raise exception 'there is no worker % (any more): nothing was changed; headway workers lists them', p_worker
      using errcode = 'HW006';
  end if;
  -- by nobody: leases of others do not count
  return query
    select r.*
      from headway.reap(array[p_worker], 10000, '00000000-0000-0000-0000-000000000000') r
     where r.worker_id = p_worker;
  get diagnostics v_count = row_count;
  perform headway.remove_workers(array[p_worker], false);
  insert into headway.audit (at, actor, action, detail)
  values (headway.now(), p_actor, 'worker.dead', p_worker || ' (' || v_name || '), ' || v_count || ' jobs');
end
$$;

-- End these executions, whose rows are locked, as lost. Charges a loss, unless the worker was stopping. The backoff is
-- a random part of twice the usual one, to separate a job that kills its worker from the jobs that ran beside it.
create function headway.lose(p_ids uuid[], p_now timestamptz)
returns table (job_id uuid, fence integer, kind text, worker_id uuid, next text, fault text)
language sql
set search_path = pg_catalog, pg_temp
as $$
  with lost as materialized (
    select j.id, j.fence, j.kind, j.worker_id, j.delivery, j.max_attempts, j.max_losses, j.tries,
           j.cancel_requested_at,
           j.losses as losses_before,
           case when w.stopping then 0 else 1 end as loss,
           b.losses + case when w.stopping then 0 else 1 end as losses,
           least(2 * j.backoff_base_ms * 2 ^ least(greatest(b.losses - case when w.stopping then 1 else 0 end, 0), 40),
                 j.backoff_cap_ms) * random() as delay_ms,
           coalesce('lost with its worker ' || coalesce(w.hostname || ':' || w.pid, j.worker_id::text),
                    'it was running without a worker') as error
      from headway.jobs j
      left join headway.workers w on w.id = j.worker_id
      -- a flow that recorded something was not stopped by what it does: its losses count from 0 again
      cross join lateral (
        select case when j.step = '$flow' and headway.recorded_last(j.id) = j.fence then 0 else j.losses end as losses) b
     where j.id = any (p_ids)
  ), judged as (
    select l.*,
           case
             when l.cancel_requested_at is not null then 'canceled'
             when l.loss > 0 and l.losses >= l.max_losses then 'dead'
             when l.loss > 0 and l.delivery = 'at_most_once' and l.tries + l.losses >= l.max_attempts then 'dead'
             when l.delivery = 'at_most_once' then 'failed'
             else 'scheduled'
           end as verdict
      from lost l
  ), batch as (
    select array_agg(g.id order by g.id) as ids,
           array_agg(g.fence order by g.id) as fences,
           array_agg('lost'::text order by g.id) as statuses,
           array_agg(g.verdict order by g.id) as tos,
           array_agg(g.losses - g.losses_before order by g.id) as losses,
           array_agg(greatest(g.delay_ms, 1)::bigint order by g.id) as delays,
           array_agg(case when g.verdict = 'dead'
                          then g.error || ', ' || g.losses || ' times now: it may be what kills them (a poison pill)'
                          else g.error end order by g.id) as errors
      from judged g
  )
  select e.id, e.fence, g.kind, g.worker_id, e.next, null::text
    from batch b
    cross join lateral headway.end_attempts(
      b.ids, b.fences, b.statuses, b.tos, null, b.losses, b.delays, null, b.errors, null, null, null) r
    cross join lateral unnest(r.ids, r.fences, r.nexts) as e (id, fence, next)
    join judged g on g.id = e.id
   where b.ids is not null
$$;
