-- Children. A machine waits for them as a job waits for others, by edges (order/joins.sql): the child is the edge's
-- parent, since its end decides the edge, and the edge carries the fence of the execution that spawned it.

-- Make machines wait for children that this transaction enqueued, or found by their keys (p_met); those may be over.
-- Raises HW004 for a machine that would wait for itself.
create function headway.add_children(
  p_machines uuid[], p_fences integer[], p_children uuid[], p_places integer[], p_on_failures text[], p_met uuid[],
  p_needed integer[] default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_self uuid;
begin
  select u.machine into v_self from unnest(p_machines, p_children) as u (machine, child) where u.child = u.machine limit 1;
  if found then
    raise exception 'job % would wait for itself: a child met it by its unique or idempotency key; nothing was written: give the child another key', v_self
      using errcode = 'HW004';
  end if;
  -- edges of the job that this one retries
  delete from headway.edges e
   using (select distinct u.machine, u.fence from unnest(p_machines, p_fences) as u (machine, fence)) u
   where e.child_id = u.machine
     and e.fence = u.fence;
  insert into headway.edges (parent_id, child_id, tenant_id, on_failure, fence, place, needed)
  select distinct on (u.child, u.machine) u.child, u.machine, m.tenant_id, u.on_failure, u.fence, u.place, u.needed
    from unnest(p_machines, p_fences, p_children, p_places, p_on_failures, p_needed)
         as u (machine, fence, child, place, on_failure, needed)
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

-- Leave the undecided children of those of these machines whose Spawn has an until, if enough children have succeeded, or
-- too few are left for that: the machines wait for them no longer, and stop_children cancels them. All edges of a Spawn
-- have the same `needed`.
create function headway.leave_children(p_machines uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_decided uuid[];
begin
  select array_agg(m.id)
    into v_decided
    from unnest(p_machines) as u (id)
    join headway.jobs m on m.id = u.id
   where (m.status = 'waiting' and m.pending and m.joining is not null) is true
     and (select e.needed from headway.edges e where e.child_id = m.id and e.fence = m.joining limit 1) is not null
     and (select count(*) filter (where e.state = 'done') >= max(e.needed)
                 or count(*) filter (where e.state in ('done', 'pending')) < max(e.needed)
            from headway.edges e
           where e.child_id = m.id and e.fence = m.joining);
  if v_decided is null then
    return;
  end if;
  update headway.edges e
     set state = 'left'
    from headway.jobs m
   where m.id = any (v_decided)
     and e.child_id = m.id
     and e.fence = m.joining
     and e.state = 'pending';
  if found then
    insert into headway.arrivals (orphaned) values (v_decided);
  end if;
end
$$;

-- Cancel the unfinished children of these machines and flows: of one that is over, of one that waits and has a child whose failure
-- stops the others, and those that one went on without. Leaves alone what another machine spawned. One piece at a time; the rest, and what somebody
-- has locked, is left as an arrival.
create function headway.stop_children(p_machines uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
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
     where (m.joining is not null and (m.finished_at is not null or m.status = 'waiting')
            or m.step = '$flow' and m.finished_at is not null) is true
  )
  select array_agg(d.id), array_agg(d.reason)
    into v_doomed, v_reasons
    from (select c.id, e.reason
            from (select e.parent_id, e.child_id, s.reason
                    from stopped s
                    join headway.edges e on e.child_id = s.id and e.state = 'pending' and e.fence = coalesce(s.joining, -1)
                   where s.reason is not null
                  union all
                  select e.parent_id, e.child_id, 'canceled because job ' || e.child_id || ' went on without it'
                    from unnest(p_machines) as u (id)
                    join headway.edges e on e.child_id = u.id and e.state = 'left') e
            join headway.jobs c on c.id = e.parent_id
           where (c.parent_id = e.child_id
                  and c.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
                  and c.cancel_requested_at is null
                  and (c.step is distinct from '$flow' or not headway.is_asked(c.id))) is true
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
    perform headway.cancel_jobs(v_ids, v_of, p_now);
    perform headway.follow_later(v_ids, p_now);
  end if;
  if cardinality(v_doomed) = headway.piece() or cardinality(v_ids) is distinct from cardinality(v_doomed) then
    insert into headway.arrivals (orphaned) values (p_machines);
    perform headway.note_rest();
  end if;
end
$$;
