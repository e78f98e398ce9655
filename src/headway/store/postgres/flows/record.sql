-- Record: rows of flows' journals, under the fence of the execution that made them.

-- Write rows of journals for executions that this worker (null: any) runs, and consume the signals that they name. A row
-- whose number is there stays as it is. Gives for each execution the time of its last row; null: this worker does not run
-- it, and nothing of it is written. Locks the jobs' rows for share, in order of id: claim, settle and reap wait for this, and this for them, no
-- longer than settle does (55P03), so that no row appears behind a newer claim's back. A flow that begins anew, with a row
-- `forgotten`, has no rows before that: a loop that never ends would be read from its beginning at every claim.
create function headway.record(
  p_worker uuid,
  p_jobs uuid[],
  p_fences integer[],
  p_seqs integer[],
  p_kinds text[],
  p_places text[],
  p_values json[] default null,
  p_errors text[] default null,
  p_prints bigint[] default null,
  p_took_ms integer[] default null,
  p_signals uuid[] default null
) returns table (id uuid, fence integer, at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '250ms'
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := headway.now();
  v_mine uuid[];
  v_fences integer[];
  v_tenants uuid[];
begin
  select l.ids, l.fences, l.tenants into v_mine, v_fences, v_tenants from headway.hold_running(p_worker, p_jobs, p_fences) l;
  insert into headway.flow_journal (
    job_id, tenant_id, signal, at, print, seq, fence, took_ms, kind, place, value, error)
  select u.job, m.tenant_id, u.signal, v_now, u.print, u.seq, u.fence, u.took_ms, u.kind, u.place, u.value, u.error
    from unnest(p_jobs, p_fences, p_seqs, p_kinds, p_places, p_values, p_errors, p_prints, p_took_ms, p_signals)
         as u (job, fence, seq, kind, place, value, error, print, took_ms, signal)
    join unnest(v_mine, v_fences, v_tenants) as m (id, fence, tenant_id) on m.id = u.job and m.fence = u.fence
  on conflict do nothing;
  if 'forgotten' = any (p_kinds) then
    delete from headway.flow_journal f
     using unnest(p_jobs, p_fences, p_seqs, p_kinds) as u (job, fence, seq, kind)
     join unnest(v_mine, v_fences) as m (id, fence) on m.id = u.job and m.fence = u.fence
     where u.kind = 'forgotten'
       and f.job_id = u.job
       and f.seq < u.seq;
  end if;
  if p_signals is not null then
    perform headway.consume_recorded(array_agg(u.signal), array_agg(u.job), array_agg(u.fence), v_now)
       from unnest(p_jobs, p_fences, p_signals) as u (job, fence, signal)
       join unnest(v_mine, v_fences) as m (id, fence) on m.id = u.job and m.fence = u.fence
      where u.signal is not null;
  end if;
  return query
    select l.job, l.fence,
           -- a row that was there has a time of its own
           case when m.id is not null
                then (select f.at from headway.flow_journal f where f.job_id = l.job and f.seq = l.seq) end
      from (select u.job, u.fence, max(u.seq) as seq
              from unnest(p_jobs, p_fences, p_seqs) as u (job, fence, seq)
             group by u.job, u.fence) l
      left join unnest(v_mine, v_fences) as m (id, fence) on m.id = l.job and m.fence = l.fence
     order by l.job, l.fence;
end
$$;

-- Hold those of these executions that this worker (null: any) runs until the transaction ends: nobody can end them
-- before. Locks the jobs' rows for share, in order of id; the caller's lock_timeout bounds how long it waits.
create function headway.hold_running(
  p_worker uuid, p_jobs uuid[], p_fences integer[], out ids uuid[], out fences integer[], out tenants uuid[]
)
language sql
set search_path = pg_catalog, pg_temp
as $$
  select array_agg(l.id), array_agg(l.fence), array_agg(l.tenant_id)
    from (select distinct u.id, u.fence from unnest(p_jobs, p_fences) as u (id, fence) order by u.id, u.fence) u
    -- lateral: forces a lookup by id, whatever the statistics say
    cross join lateral (
      select j.id, j.fence, j.tenant_id
        from headway.jobs j
       where j.id = u.id
         and j.fence = u.fence
         and (j.status = 'running') is true
         and (p_worker is null or j.worker_id = p_worker)
         for share) l
$$;

-- Mark these signals of flows as consumed by these executions, if nobody has consumed them.
create function headway.consume_recorded(p_signals uuid[], p_jobs uuid[], p_fences integer[], p_now timestamptz) returns void
language sql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
  update headway.signals s
     set fence = u.fence, consumed_at = p_now
    from unnest(p_signals, p_jobs, p_fences) as u (id, job, fence)
   where s.id = u.id
     and (s.job_id = u.job and s.fence is null) is true
$$;

-- The same for a record that enqueues children, which has to know before: gives for each entry whether this worker runs
-- its execution, and the child that a row of its number has already. What follows in the transaction waits no longer for
-- anybody than settle does, either.
create function headway.begin_record(p_worker uuid, p_jobs uuid[], p_fences integer[], p_seqs integer[])
returns table (ordinal bigint, mine boolean, child text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_mine uuid[];
  v_fences integer[];
begin
  perform set_config('lock_timeout', '250ms', true);
  select l.ids, l.fences into v_mine, v_fences from headway.hold_running(p_worker, p_jobs, p_fences) l;
  return query
    select u.ordinal,
           exists (select from unnest(v_mine, v_fences) as m (id, fence) where m.id = u.job and m.fence = u.fence),
           (select f.value ->> 'id'
              from headway.flow_journal f
             where f.job_id = u.job and f.seq = u.seq)
      from unnest(p_jobs, p_fences, p_seqs) with ordinality as u (job, fence, seq, ordinal)
     order by u.ordinal;
end
$$;

-- Make flows wait for children that this transaction enqueued, or found by their keys (p_met); those may be over. The
-- edges have fence -1: no machine, group or `after` knows them. Raises HW004 for a flow that would wait for itself.
create function headway.add_called(p_flows uuid[], p_children uuid[], p_met uuid[] default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_self uuid;
begin
  select u.flow into v_self from unnest(p_flows, p_children) as u (flow, child) where u.child = u.flow limit 1;
  if found then
    raise exception 'job % would wait for itself: a child met it by its unique or idempotency key; nothing was written: give the child another key', v_self
      using errcode = 'HW004';
  end if;
  insert into headway.edges as e (parent_id, child_id, tenant_id, on_failure, fence)
  select distinct u.child, u.flow, j.tenant_id, 'continue', -1
    from unnest(p_flows, p_children) as u (flow, child)
    join headway.jobs j on j.id = u.flow
  -- two calls met one job, or it was left before
  on conflict (parent_id, child_id, fence) do update set state = 'pending';
  if cardinality(p_met) > 0 then
    insert into headway.arrivals (tenant_id, ended)
    select j.tenant_id, array_agg(distinct u.child)
      from unnest(p_flows, p_children) as u (flow, child)
      join headway.jobs j on j.id = u.flow
     where u.child = any (p_met)
     group by j.tenant_id;
  end if;
end
$$;

-- Note in the caller's own transaction that a step is settled by it. Nothing follows from it before that has committed;
-- until then nobody can end the execution, since its row is locked for share, and other steps of the flow go on.
-- Raises HW002 if the job does not run under this fence any more, HW003 if this step is settled already, HW006 if there
-- is no such job, and 55P03 if another transaction settles the same step.
create function headway.settle_step(
  p_id uuid, p_fence integer, p_place text, p_value json, p_print bigint default null, p_took_ms integer default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s' -- as in commit_outcome
as $$
declare
  v_tenant uuid;
  -- by the place, so that two transactions meet only where they settle the same step
  v_seq integer := -1 - ('x' || left(md5(p_place), 7))::bit(28)::integer;
begin
  select j.tenant_id
    into v_tenant
    from headway.jobs j
   where j.id = p_id
     and j.fence = p_fence
     and (j.status = 'running') is true
     for share;
  if not found then
    perform from headway.jobs j where j.id = p_id;
    if not found then
      raise exception 'the database of conn= has no job %: nothing was written; pass a connection to the database that Headway''s URL names', p_id
        using errcode = 'HW006';
    end if;
    raise exception 'job % does not run under fence % any more: this worker lost its claim, and the job may run elsewhere; nothing was written: roll back', p_id, p_fence
      using errcode = 'HW002';
  end if;
  loop
    insert into headway.flow_journal (job_id, tenant_id, at, print, seq, fence, took_ms, kind, place, value)
    values (p_id, v_tenant, headway.now(), p_print, v_seq, p_fence, p_took_ms, 'settled', p_place, p_value)
    on conflict do nothing;
    exit when found;
    -- one that a retry from the start took back may have the number
    perform from headway.effective(p_id) f where f.seq = v_seq and f.place = p_place;
    if found then
      raise exception 'step % of job % is settled already, by this transaction or by one that was committed: nothing was written; settle once', p_place, p_id
        using errcode = 'HW003';
    end if;
    v_seq := v_seq - 1;
  end loop;
end
$$;

-- Store what others read of running flows. Skips rows that somebody has locked.
create function headway.set_flow_state(p_worker uuid, p_ids uuid[], p_fences integer[], p_states json[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  with mine as materialized (
    select l.id, u.state
      from unnest(p_ids, p_fences, p_states) as u (id, fence, state)
      cross join lateral (
        select j.id
          from headway.jobs j
         where j.id = u.id
           and j.fence = u.fence
           and (j.status = 'running') is true
           and j.worker_id = p_worker
           for update skip locked) l
  )
  update headway.jobs j set state = m.state from mine m where j.id = m.id
$$;

-- The last execution of a flow that recorded something.
create function headway.recorded_last(p_id uuid) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select greatest(
    (select f.fence from headway.flow_journal f where f.job_id = p_id order by f.seq desc limit 1),
    (select max(f.fence) from headway.flow_journal f where f.job_id = p_id and f.seq < 0))
$$;
