-- Turns of machines, and their children. To wait for children is to wait for other jobs, by edges (joins.sql): a child is
-- the parent of its edge, and the edge has the fence of the Spawn.

-- What turns write after end_attempts has moved their machines, with the rows locked: another queue and partition, the
-- signals consumed, and a look whether what an Await waits for is there. Gives the keys of partitions that were left.
create function headway.take_turns(p_ids uuid[], p_fences integer[], p_turns jsonb[], p_now timestamptz) returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_moves boolean;
  v_consumes boolean;
  v_parked uuid[];
  v_left text[];
begin
  select bool_or(t.turn ? 'queue'), bool_or(t.turn ? 'consumed'), array_agg(t.id) filter (where t.turn ? 'awaiting')
    into v_moves, v_consumes, v_parked
    from unnest(p_ids, p_turns) as t (id, turn);
  if v_moves then
    v_left := array(
      select headway.partition_key(j.tenant_id, j.partition)
        from unnest(p_ids, p_turns) as t (id, turn)
        join headway.jobs j on j.id = t.id
       where t.turn ? 'queue'
         and (j.partition <> coalesce(t.turn ->> 'partition', '')) is true);
    update headway.jobs j
       set queue = t.turn ->> 'queue',
           partition = t.turn ->> 'partition',
           home_queue = t.turn ->> 'home_queue',
           home_partition = t.turn ->> 'home_partition',
           fair = (select true from headway.queues q where q.name = t.turn ->> 'queue' and q.fair)
      from unnest(p_ids, p_turns) as t (id, turn)
     where j.id = t.id
       and t.turn ? 'queue';
  end if;
  if v_consumes then
    update headway.signals s
       set fence = c.fence, consumed_at = p_now
      from (select t.id, t.fence, jsonb_array_elements_text(t.turn -> 'consumed')::uuid as signal_id
              from unnest(p_ids, p_fences, p_turns) as t (id, fence, turn)) c
     where s.id = c.signal_id
       and (s.job_id = c.id and s.fence is null) is true;
  end if;
  if v_parked is not null then
    -- whoever sends after this has an arrival, which is looked at after our commit
    perform headway.wake(v_parked, p_now);
  end if;
  return v_left;
end
$$;

-- Let machines wait for children that this transaction has enqueued, or that it met (p_met), which may be over.
-- Raises HW004 for a machine that would wait for itself.
create function headway.add_children(
  p_machines uuid[], p_fences integer[], p_children uuid[], p_places integer[], p_on_failures text[], p_met uuid[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_self uuid;
begin
  select u.machine into v_self from unnest(p_machines, p_children) as u (machine, child) where u.child = u.machine limit 1;
  if found then
    raise exception 'job % would wait for itself: a child met it by its unique or idempotency key', v_self
      using errcode = 'HW004';
  end if;
  -- of the job that this one retries
  delete from headway.edges e
   using (select distinct u.machine, u.fence from unnest(p_machines, p_fences) as u (machine, fence)) u
   where e.child_id = u.machine
     and e.fence = u.fence;
  insert into headway.edges (parent_id, child_id, tenant_id, on_failure, fence, place)
  select distinct on (u.child, u.machine) u.child, u.machine, m.tenant_id, u.on_failure, u.fence, u.place
    from unnest(p_machines, p_fences, p_children, p_places, p_on_failures)
         as u (machine, fence, child, place, on_failure)
    join headway.jobs m on m.id = u.machine
   order by u.child, u.machine, u.place
  on conflict do nothing;
  if cardinality(p_met) > 0 then
    insert into headway.arrivals (tenant_id, ended)
    select m.tenant_id, array_agg(distinct u.child)
      from unnest(p_machines, p_children) as u (machine, child)
      join headway.jobs m on m.id = u.machine
     where u.child = any (p_met)
     group by m.tenant_id;
  end if;
end
$$;

-- Cancel the unfinished children of these machines: of one that is over, and of one that waits and has a child that did
-- not succeed, where that stops the others. A child that is another's too is let alone. So many at a time, and what
-- somebody holds, is left for the next time.
create function headway.stop_children(p_machines uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_doomed uuid[];
  v_reasons text[];
  v_ids uuid[];
  v_of text[];
begin
  with stopped as materialized (
    select m.id, m.joining,
           case
             when m.finished_at is not null then 'canceled because job ' || m.id || ' is ' || m.status
             else (select 'canceled because job ' || f.parent_id || ' is ' || coalesce(c.status, 'gone')
                     from headway.edges f
                     left join headway.jobs c on c.id = f.parent_id
                    where f.child_id = m.id and f.state = 'failed' and f.fence = m.joining and f.on_failure = 'stop'
                    order by f.place
                    limit 1)
           end as reason
      from unnest(p_machines) as u (id)
      join headway.jobs m on m.id = u.id
     where (m.joining is not null and (m.finished_at is not null or m.status = 'waiting')) is true
  )
  select array_agg(d.id), array_agg(d.reason)
    into v_doomed, v_reasons
    from (select c.id, s.reason
            from stopped s
            join headway.edges e on e.child_id = s.id and e.state = 'pending' and e.fence = s.joining
            join headway.jobs c on c.id = e.parent_id
           where s.reason is not null
             and (c.parent_id = s.id
                  and c.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
                  and c.cancel_requested_at is null) is true
           limit headway.piece()) d;
  if v_doomed is null then
    return;
  end if;
  select array_agg(l.id), array_agg(d.reason)
    into v_ids, v_of
    from unnest(v_doomed, v_reasons) as d (id, reason)
    cross join lateral (
      select c.id
        from headway.jobs c
       where c.id = d.id
         and c.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
         for update skip locked) l;
  if v_ids is not null then
    perform headway.end_all_early(v_ids, v_of, p_now);
    perform headway.follow(v_ids, p_now, false);
  end if;
  if cardinality(v_doomed) = headway.piece() or cardinality(v_ids) is distinct from cardinality(v_doomed) then
    insert into headway.arrivals (orphaned) values (p_machines);
  end if;
end
$$;

-- end_early for many at once, whose rows are locked: as few statements as there are, while nothing is in the way.
create function headway.end_all_early(p_ids uuid[], p_reasons text[], p_now timestamptz, p_holds boolean default true)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_aside boolean := (select 1 from headway.jobs w where w.limited_by is not null limit 1) is not null;
begin
  begin
    update headway.jobs j
       set cancel_requested_at = coalesce(j.cancel_requested_at, p_now), cancel_reason = u.reason
      from unnest(p_ids, p_reasons) as u (id, reason)
     where j.id = u.id
       and (j.status = 'running') is true;
    perform headway.leave(j.id, p_now, p_holds)
       from unnest(p_ids) as u (id)
       join headway.jobs j on j.id = u.id
      where (j.status <> 'running' and (j.train is not null or v_aside)) is true;
    update headway.jobs j
       set status = 'canceled', error = u.reason, finished_at = p_now, limited_by = null, pending = null
      from unnest(p_ids, p_reasons) as u (id, reason)
     where j.id = u.id
       and (j.status <> 'running') is true;
  exception when unique_violation then
    perform headway.end_early(u.id, u.reason, p_now, p_holds) from unnest(p_ids, p_reasons) as u (id, reason);
  end;
end
$$;

-- Where a machine begins, as model/machine.py's Began; of one that has not run. Put together as text: the state stays as
-- it was written.
create function headway.began(p_job headway.jobs, p_joined uuid) returns json
language sql stable
as $$
  select ('{' || pg_catalog.concat_ws(
    ',',
    '"version":' || p_job.version,
    '"state":' || p_job.state,
    '"joining":' || p_job.joining,
    '"joined":"' || p_joined || '"'
  ) || '}')::json
$$;

-- Record that a machine was forked from another one, and where it begins; once. p_joined is the machine that spawned the
-- children that it sees.
create function headway.forked(p_id uuid, p_actor text default null, p_joined uuid default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope uuid := headway.scope(null);
begin
  update headway.jobs j
     set began = headway.began(j, p_joined)
   where j.id = p_id
     and (v_scope is null or j.tenant_id = v_scope)
     and j.forked_from is not null
     and j.began is null
     and j.fence = 0;
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  select j.tenant_id, j.id, headway.now(), p_actor, 'fork', j.forked_from::text
    from headway.jobs j
   where j.id = p_id
     and (v_scope is null or j.tenant_id = v_scope)
     and not exists (select from headway.audit a where a.job_id = p_id and a.action = 'fork');
end
$$;
