-- Take up to p_limit jobs of a queue in order and start their attempts: status, worker, start and fence + 1.
-- A claim that finds nothing is one index probe and writes nothing. Shares the queue's lock with other claims, so
-- that none commits once a pause has returned; locks candidates with skip locked, so claimers never wait for each other.
-- Raises HW002 for a worker that is not registered.
-- Planned once, for any limit: with nothing but index scans to choose from, the planner cannot prefer to sort the whole
-- queue for a limit that it does not know, and an idle poll costs no planning.
create function headway.claim(p_worker uuid, p_queue text, p_limit integer)
returns table (
  id uuid, tenant_id uuid, kind text, queue text, payload json, fence integer, tries integer, losses integer,
  max_attempts integer, max_losses integer, backoff_base_ms bigint, backoff_cap_ms bigint, timeout_ms bigint,
  delivery text, correlation_id text, trace_id text, meta json
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- so that a queue's lock that is held for long is heard of
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz;
  v_superseded bigint;
begin
  perform from headway.jobs j where j.queue = p_queue and j.status = 'queued' limit 1;
  if not found then
    return;
  end if;
  perform pg_advisory_xact_lock_shared(headway.queue_lock(p_queue));
  perform from headway.queues q where q.name = p_queue and q.paused_at is not null;
  if found then
    return;
  end if;
  perform from headway.workers w where w.id = p_worker;
  if not found then
    raise exception 'worker % is not registered (any more): its lease ran out and it was reaped; register again under a new id', p_worker
      using errcode = 'HW002';
  end if;
  v_now := headway.now();
  loop
    begin
      return query
        -- materialized: a subquery under `in` may run again and claim more than the limit
        with candidate as materialized (
          select j.id
            from headway.jobs j
           where j.queue = p_queue
             and j.status = 'queued'
             and (j.expires_at is null or j.expires_at > v_now)
           order by j.priority, j.position, j.id
           limit p_limit
             for update skip locked
        ), claimed as (
          update headway.jobs j
             set status = 'running',
                 fence = j.fence + 1,
                 worker_id = p_worker,
                 attempt_started_at = v_now,
                 started_at = coalesce(j.started_at, v_now),
                 progress = null,
                 progress_note = null,
                 log_tail = null
            from candidate c
           where j.id = c.id
          returning j.*
        )
        select c.id, c.tenant_id, c.kind, c.queue, c.payload, c.fence, c.tries, c.losses,
               c.max_attempts, c.max_losses, c.backoff_base_ms, c.backoff_cap_ms, c.timeout_ms,
               c.delivery, c.correlation_id, c.trace_id, c.meta
          from claimed c
         order by c.priority, c.position, c.id;
      return;
    exception when unique_violation then
      -- some would enter a unique scope by running, and it is taken: end those, then take the others
      with candidate as materialized (
        select j.id, j.priority, j.position
          from headway.jobs j
         where j.queue = p_queue
           and j.status = 'queued'
           and (j.expires_at is null or j.expires_at > v_now)
         order by j.priority, j.position, j.id
         limit p_limit
           for update skip locked
      ), entering as (
        select j.id,
               headway.holder(j) as holder,
               first_value(j.id) over (
                 partition by j.tenant_id, j.kind, j.unique_key order by j.priority, j.position, j.id) as first
          from candidate c
          join headway.jobs j on j.id = c.id
         where j.unique_key is not null
           and 'running' = any (j.unique_scope)
           and not 'queued' = any (j.unique_scope)
      )
      select count(headway.supersede(e.id, v_now, coalesce(e.holder, e.first)))
        into v_superseded
        from entering e
       where e.holder is not null
          or e.first <> e.id;
      if v_superseded = 0 then
        raise;
      end if;
    end;
  end loop;
end
$$;

-- Every job that is running under a worker.
create function headway.running(p_worker uuid) returns table (id uuid, fence integer)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select j.id, j.fence
    from headway.jobs j
   where j.worker_id = p_worker
     and j.status = 'running'
$$;

-- Give back claims whose execution never started: no attempt, no charge.
-- Locks the rows in order of id.
create function headway.release(p_ids uuid[], p_fences integer[], p_delay_ms bigint) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_id uuid;
  v_fence integer;
  v_status text := case when p_delay_ms > 0 then 'scheduled' else 'queued' end;
  v_count integer := 0;
begin
  for v_id, v_fence in
    select j.id, j.fence
      from unnest(p_ids, p_fences) as u (id, fence)
      join headway.jobs j on j.id = u.id and j.fence = u.fence
     where (j.status = 'running') is true
     order by j.id
       for update of j
  loop
    begin
      update headway.jobs j
         set status = case when j.cancel_requested_at is null then v_status else 'canceled' end,
             finished_at = case when j.cancel_requested_at is not null then v_now end,
             error = case when j.cancel_requested_at is null then j.error else j.cancel_reason end,
             scheduled_for = case when p_delay_ms > 0 and j.cancel_requested_at is null
                                  then v_now + p_delay_ms * interval '1 millisecond'
                                  else j.scheduled_for end,
             queued_at = case when p_delay_ms > 0 or j.cancel_requested_at is not null then j.queued_at else v_now end,
             -- the claim that never ran was no start
             started_at = case when j.started_at = j.attempt_started_at then null else j.started_at end,
             worker_id = null,
             attempt_started_at = null,
             cancel_requested_at = null,
             cancel_reason = null
       where j.id = v_id;
    exception when unique_violation then
      perform headway.supersede(v_id, v_now);
    end;
    v_count := v_count + 1;
  end loop;
  return v_count;
end
$$;
