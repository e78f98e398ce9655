-- Claims: take jobs to run, report their progress, give them back.

-- Take up to p_limit jobs of a queue in order, and start their executions: status, worker, start and fence + 1. First
-- processes arrivals. A claim that finds nothing is two index probes and writes nothing. Shares the queue's lock with
-- other claims, so that none commits once a pause or a reservation has returned; and the lock of limits, so that none
-- that read an old limit commits once set_limit has returned. Waits for neither: while somebody changes a limit and has
-- not committed, it claims what does not depend on that one. Locks candidates with skip locked, so claims never wait
-- for each other, except for the gate of a limit.
-- Where jobs of two tenants wait, tenants take turns (see fair.sql); with p_tenant it takes only that tenant's jobs (see
-- pick_tenant), with p_kinds only those of these kinds (pick_kinds). A flow is taken only with p_flows: only Headway's own
-- workers can run one, and what was written before flows does not know them. Raises HW002 for a worker that is not registered.
-- One generic plan, and only index scans: for a limit that it does not know, the planner would sort the whole queue;
-- and an idle poll costs no planning. No JIT, as wherever a scan is switched off: the planner counts such a scan, where
-- there is no other way, as so expensive that each call would be compiled, for hundreds of milliseconds.
create function headway.claim(
  p_worker uuid, p_queue text, p_limit integer, p_tenant uuid default null, p_kinds text[] default null,
  p_flows boolean default false
)
returns setof headway.claimed_job
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- an error says that somebody keeps the gate of a limit
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz;
  v_queue headway.queues;
  v_indexed boolean; -- all its unfinished jobs are in the index of tenants
  v_first uuid; -- the first tenant that this index has here
  v_shared boolean; -- and it has another
  v_most integer;
  v_kinds text[];
  v_tenants uuid[];
  v_all boolean := false;
  v_changing boolean;
  v_count integer := 0;
  v_ids uuid[];
begin
  perform from headway.arrivals limit 1;
  if found then
    perform headway.process_arrivals();
  end if;
  perform from headway.jobs j where j.queue = p_queue and j.status = 'queued' and j.limited_by is null limit 1;
  if not found then
    return;
  end if;
  -- somebody pauses or reserves this queue and has not committed: do not wait, the worker may have other queues
  if not pg_try_advisory_xact_lock_shared(headway.queue_lock(p_queue)) then
    return;
  end if;
  v_changing := not pg_try_advisory_xact_lock_shared(headway.limits_lock());
  if v_changing and not headway.share_limits(p_queue) then
    return;
  end if;
  v_now := headway.now();
  select q.* into v_queue from headway.queues q where q.name = p_queue;
  if found then
    if v_queue.paused_at is not null then
      return;
    end if;
    perform from headway.reservations r where r.queue = p_queue and r.expires_at > v_now;
    if found then
      return;
    end if;
  end if;
  select t.tenant_id,
         t.tenant_id is not null
         and exists (select
                       from headway.jobs j
                      where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                        and j.tenant_id > t.tenant_id)
    into v_first, v_shared
    from headway.workers w
    left join lateral (
      select j.tenant_id
        from headway.jobs j
       where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
       order by j.tenant_id
       limit 1) t on true
   where w.id = p_worker;
  if not found then
    raise exception 'worker % is not registered (any more): its lease ran out and it was reaped; register again under a new id', p_worker
      using errcode = 'HW002';
  end if;
  v_indexed := v_queue.fair is true
               and (v_queue.fair_since is null or headway.index_tenants(p_queue, v_queue.fair_since));
  if v_queue.fair_since is null and v_queue.fair_again is not null then
    perform headway.index_tenants(p_queue, v_queue.fair_again);
  end if;
  if v_first is not null and v_queue.fair is not true then
    perform headway.share_queue(p_queue);
  end if;
  v_queue.fair := case
    when p_tenant is null then v_indexed and v_shared and not v_queue.unfair
    when v_indexed then true
    -- but for what an older version enqueued, it has those of every tenant but the default one from the start
    when p_tenant <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' and (v_queue.fair_since is null or v_queue.fair_again is null)
      then null
    else false
  end;
  perform from headway.limits limit 1;
  if found then
    select max(l.max_running) filter (where l.scope = 'queue'),
           array_agg(l.name) filter (where l.scope = 'kind'),
           array_agg(l.name::uuid) filter (where l.scope = 'tenant' and l.name <> '*'),
           coalesce(bool_or(l.scope = 'queue' or l.name = '*'), false)
      into v_most, v_kinds, v_tenants, v_all
      from headway.limits l
     where l.scope = 'queue' and l.name = p_queue
        or l.scope = 'kind'
        or l.scope = 'tenant' and l.max_running is not null;
  end if;

  if not v_all and not v_changing and v_queue.fair is not true and p_tenant is null and p_kinds is null then
    return query
      -- materialized: a subquery may be run again, and claim more than the limit
      with signals as materialized (
        select from headway.signals limit 1
      ), candidate as materialized (
        select j.id, coalesce(j.partition, j.concurrency_key) is not null or j.concurrency is not null
                     or j.rate_count is not null
                     or j.unique_key is not null and not 'queued' = any (j.unique_scope)
                     or coalesce(j.kind = any (v_kinds), false)
                     or coalesce(j.tenant_id = any (v_tenants), false) as keyed,
               headway.text_bytes(j.payload) + coalesce(headway.text_bytes(j.state), 0) as bytes,
               -- a machine that was enqueued by its kind alone may have signals before it has a step; where the table
               -- is empty, that takes one probe for the whole claim
               case when exists (select from signals)
                         and exists (select from headway.signals s where s.job_id = j.id and s.fence is null)
                    then headway.inbox_bytes(j.id)
               end as inbox
          from headway.jobs j
         where j.queue = p_queue
           and j.status = 'queued'
           and j.limited_by is null
           and (j.expires_at is null or j.expires_at > v_now)
           and (p_flows or j.step is distinct from '$flow')
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
               log_tail = null,
               log_end = null
          from candidate c
         where j.id = c.id
           -- if one has a limit's key, or may enter a unique scope by running, all go to claim_under_limits, which keeps
           -- their order; here nothing can be refused, so no subtransaction is needed. So do large jobs, which it cuts
           and not (select bool_or(k.keyed) or sum(k.bytes) + coalesce(sum(k.inbox), 0) > headway.claim_bytes() from candidate k)
        -- only the columns that are returned or sorted by: these rows are kept in memory
        returning j.priority, j.position, j.id, j.tenant_id, j.kind, j.queue, j.payload, j.fence, j.tries, j.losses,
                  j.max_attempts, j.max_losses, j.backoff_base_ms, j.backoff_cap_ms, j.timeout_ms,
                  j.delivery, j.correlation_id, j.trace_id, j.meta,
                  j.train is not null or j.group_id is not null or j.parent_id is not null as followed,
                  case when j.step is not null or j.parent_id is not null or c.inbox is not null
                       then headway.checkpoint_json(
                              j.version, j.step, j.state, j.awaiting, j.match_all, j.joining, j.woken, j.partition,
                              j.home_queue, j.home_partition, j.forked_from, j.parent_id,
                              headway.inbox(j.id, j.awaiting))
                  end as checkpoint,
                  j.fence - j.step_fence as attempt
      )
      select c.id, c.tenant_id, c.kind, c.queue, c.payload, c.fence, c.tries, c.losses,
             c.max_attempts, c.max_losses, c.backoff_base_ms, c.backoff_cap_ms, c.timeout_ms,
             c.delivery, c.correlation_id, c.trace_id, c.meta, c.followed, c.checkpoint, c.attempt
        from claimed c
       order by c.priority, c.position, c.id;
    get diagnostics v_count = row_count;
    if v_count > 0 then
      return;
    end if;
  end if;

  v_ids := headway.claim_under_limits(p_worker, p_queue, p_limit, v_now, v_queue.fair, v_most, null, v_changing, p_tenant, p_kinds, p_flows);
  if cardinality(v_ids) > 0 then
    return query select * from headway.claims(v_ids);
  end if;
end
$$;

-- How many bytes of payloads, states and signals one claim brings at most; a larger job comes alone. All of it is in the worker's
-- memory before the first of its jobs starts. CLAIM_BYTES in model/job.py.
create function headway.claim_bytes() returns bigint
language sql immutable
as $$ select 67108864::bigint $$;

-- How many bytes a stored JSON text has; unpacks it only if it is compressed, which a short one never is.
create function headway.text_bytes(p_text json) returns bigint
language sql stable
as $$
  select case
           when pg_catalog.pg_column_compression(p_text) is null then pg_catalog.pg_column_size(p_text)
           else pg_catalog.octet_length(p_text::text)
         end::bigint
$$;

-- The claims of these jobs, in this order. Called in a statement after the one that locked their rows.
create function headway.claims(p_ids uuid[])
returns setof headway.claimed_job
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select j.id, j.tenant_id, j.kind, j.queue, j.payload, j.fence, j.tries, j.losses,
         j.max_attempts, j.max_losses, j.backoff_base_ms, j.backoff_cap_ms, j.timeout_ms,
         j.delivery, j.correlation_id, j.trace_id, j.meta,
         coalesce(j.train, j.partition) is not null or j.concurrency is not null or j.limited is true
           or j.group_id is not null or j.parent_id is not null,
         case when j.step is not null or j.parent_id is not null
                   or (select 1 from headway.signals s where s.job_id = j.id and s.fence is null limit 1) is not null
              then headway.checkpoint_json(
                     j.version, j.step, j.state, j.awaiting, j.match_all, j.joining, j.woken, j.partition,
                     j.home_queue, j.home_partition, j.forked_from, j.parent_id,
                     headway.inbox(j.id, j.awaiting))
         end,
         j.fence - j.step_fence
    from unnest(p_ids) with ordinality as u (id, ordinal)
    join headway.jobs j on j.id = u.id
   order by u.ordinal
$$;

-- Claim exactly this job, even though its queue is reserved under p_reservation. Gives nothing if it is not queued, if
-- somebody else has reserved its queue, or if a partition or limit does not allow it. Raises HW002.
create function headway.take(p_worker uuid, p_id uuid, p_reservation uuid default null)
returns setof headway.claimed_job
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz;
  v_queue text;
  v_kind text;
  v_tenant uuid;
  v_ids uuid[];
begin
  perform headway.process_arrivals();
  select j.queue, j.kind, j.tenant_id into v_queue, v_kind, v_tenant from headway.jobs j where j.id = p_id;
  if not found then
    return;
  end if;
  perform pg_advisory_xact_lock_shared(headway.queue_lock(v_queue));
  if not pg_try_advisory_xact_lock_shared(headway.limits_lock()) then
    -- somebody changes a limit and has not committed: wait only for one that this job depends on
    perform pg_advisory_xact_lock_shared(headway.limit_lock(l.scope, l.name))
       from (values ('queue', v_queue), ('kind', v_kind), ('tenant', '*'), ('tenant', v_tenant::text)) as l (scope, name);
  end if;
  v_now := headway.now();
  perform
     from headway.reservations r
    where r.queue = v_queue and r.expires_at > v_now and r.id is distinct from p_reservation;
  if found then
    return;
  end if;
  perform from headway.workers w where w.id = p_worker;
  if not found then
    raise exception 'worker % is not registered (any more): its lease ran out and it was reaped; register again under a new id', p_worker
      using errcode = 'HW002';
  end if;
  perform from headway.jobs j where j.id = p_id and j.status = 'queued' and j.queue = v_queue for update;
  if not found then
    return;
  end if;
  v_ids := headway.claim_under_limits(
    p_worker, v_queue, 1, v_now, false,
    (select l.max_running from headway.limits l where l.scope = 'queue' and l.name = v_queue), p_id);
  return query select * from headway.claims(v_ids);
end
$$;

-- Those of these queues that have something to claim: one statement for an idle worker of many queues. First processes
-- what arrived, as a claim does; then one index probe per queue, and no writes.
create function headway.claimable(p_queues text[]) returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '5s'
as $$
begin
  perform from headway.arrivals limit 1;
  if found then
    perform headway.process_arrivals();
  end if;
  return query
    select q.name
      from unnest(p_queues) as q (name)
      cross join lateral (
        select
          from headway.jobs j
         where j.queue = q.name
           and j.status = 'queued'
           and j.limited_by is null
         limit 1
      ) found
     where not exists (select from headway.queues p where p.name = q.name and p.paused_at is not null);
end
$$;

-- The queue, tenant and kind of the first jobs to be claimed from these queues, and of the first of p_tenants in the queues
-- p_of, by the index of tenants: up to ten each. First processes what arrived, as a claim does; no other writes.
create function headway.first_in_line(p_queues text[], p_of text[], p_tenants uuid[])
returns table (queue text, tenant_id uuid, kind text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '5s'
as $$
begin
  perform from headway.arrivals limit 1;
  if found then
    perform headway.process_arrivals();
  end if;
  return query
    select f.queue, f.tenant_id, f.kind
      from (
        select j.queue, j.tenant_id, j.kind
          from unnest(p_queues) as q (name)
          cross join lateral (
            select j.queue, j.tenant_id, j.kind
              from headway.jobs j
             where j.queue = q.name and j.status = 'queued' and j.limited_by is null
             order by j.priority, j.position, j.id
             limit 10) j
        union
        select j.queue, j.tenant_id, j.kind
          from unnest(p_of, p_tenants) as t (queue, id)
          cross join lateral (
            select j.queue, j.tenant_id, j.kind
              from headway.jobs j
             where j.queue = t.queue and j.tenant_id = t.id and j.fair and j.status = 'queued' and j.limited_by is null
             order by j.priority, j.position, j.id
             limit 10) j
      ) f
     where not exists (select from headway.queues p where p.name = f.queue and p.paused_at is not null);
end
$$;

-- Every job that a worker is running; of one tenant, if p_tenant is given.
create function headway.running(p_worker uuid, p_tenant uuid default null) returns table (id uuid, fence integer)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select j.id, j.fence
    from headway.jobs j
   where j.worker_id = p_worker
     and j.status = 'running'
     and (p_tenant is null or j.tenant_id = p_tenant)
$$;

-- Store progress, note and log tail (with the number of characters logged so far, and said by a worker over HTTP: one that
-- said fewer than is known comes too late) of running jobs; gives the worker's jobs that were asked to stop. Skips rows that others have locked: the settle stores the last report again.
create function headway.report(
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_progress real[],
  p_notes text[],
  p_tails text[],
  p_tail_ends bigint[] default null,
  p_said bigint[] default null
) returns table (id uuid, fence integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if cardinality(p_ids) > 0 then
    with locked as materialized (
      select j.id, u.progress, u.note, u.tail_end, u.said,
             case when j.log_end is null or u.said is null or u.said >= coalesce(j.log_said, 0) then u.tail end as tail
        from unnest(p_ids, p_fences, p_progress, p_notes, p_tails, p_tail_ends, p_said)
             as u (id, fence, progress, note, tail, tail_end, said)
        join headway.jobs j on j.id = u.id and j.fence = u.fence
       where (j.status = 'running') is true
       order by j.id
         for update of j skip locked
    )
    update headway.jobs j
       set progress = coalesce(l.progress, j.progress),
           progress_note = coalesce(l.note, j.progress_note),
           log_tail = coalesce(l.tail, j.log_tail),
           log_end = case when l.tail is null then j.log_end else l.tail_end end,
           log_said = case when l.tail is null then j.log_said else l.said end
      from locked l
     where j.id = l.id;
  end if;
  return query
    select j.id, j.fence
      from headway.jobs j
     where j.worker_id = p_worker
       and j.status = 'running'
       and j.cancel_requested_at is not null;
end
$$;

-- Give back claims whose execution never started: no attempt, no charge. Gives how many: a job whose row or unique key
-- somebody's open transaction has stays running, for a later call.
create function headway.release(p_ids uuid[], p_fences integer[], p_delay_ms bigint) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '20ms' -- for each of many jobs, one after another
as $$
declare
  v_now timestamptz := headway.now();
  v_id uuid;
  v_fence integer;
  v_status text := case when p_delay_ms > 0 then 'scheduled' else 'queued' end;
  v_canceled boolean;
  v_ids uuid[] := '{}';
begin
  for v_id, v_fence in
    select j.id, j.fence
      from unnest(p_ids, p_fences) as u (id, fence)
      join headway.jobs j on j.id = u.id and j.fence = u.fence
     where (j.status = 'running') is true
       and j.committed is null
     order by j.id
       for update of j skip locked
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
             -- a claim that never ran is no start
             started_at = case
               when j.started_at = j.attempt_started_at
                    and not exists (select from headway.attempts a where a.job_id = j.id)
                 then null
               else j.started_at
             end,
             worker_id = null,
             attempt_started_at = null,
             step_fence = j.step_fence + 1,
             cancel_requested_at = null,
             cancel_reason = null
       where j.id = v_id
      returning j.status = 'canceled' into v_canceled;
      if v_canceled then
        perform headway.count_canceled(array[v_id], v_now);
      end if;
    exception
      when unique_violation then
        perform headway.supersede(v_id, v_now);
      when lock_not_available then
        continue;
    end;
    v_ids := v_ids || v_id;
  end loop;
  if cardinality(v_ids) > 0 then
    -- what follows may wait for gates, which are locked only briefly
    perform set_config('lock_timeout', '1s', true);
    perform headway.follow(v_ids, v_now);
    perform headway.tell_dependents(v_ids);
    perform headway.announce(v_ids, v_now);
  end if;
  return cardinality(v_ids);
end
$$;
