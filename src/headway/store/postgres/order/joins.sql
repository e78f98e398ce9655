-- Joins: jobs that wait for other jobs, by edges from parent to child. An edge is decided once, when its parent is
-- over. A child without an undecided edge is queued, or canceled if a parent did not succeed; a machine that waits for
-- the children it spawned is queued in any case. Only `process_arrivals` decides, one caller at a time and
-- after everybody's commit: so the last of several parents is never missed, and no parent's settle waits for another's.

-- Make these jobs wait for others. p_real are the jobs that were found instead of them, where a key was taken. Raises
-- HW004 for a parent that does not exist.
create function headway.add_edges(p_ids uuid[], p_afters text[], p_on_failures text[], p_real uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_missing uuid;
begin
  with edge as (
    select c.id as child_id, c.tenant_id, coalesce(r.real, a.id::uuid) as parent_id,
           coalesce(u.on_failure, 'stop') as on_failure
      from unnest(p_ids, p_afters, p_on_failures) as u (id, after, on_failure)
      join headway.jobs c on c.id = u.id and c.pending
      cross join lateral unnest(string_to_array(u.after, ',')) as a (id)
      left join unnest(p_ids, p_real) as r (id, real) on p_real is not null and r.id = a.id::uuid
  ), added as (
    insert into headway.edges (parent_id, child_id, tenant_id, on_failure)
    select e.parent_id, e.child_id, e.tenant_id, e.on_failure
      from edge e
    on conflict do nothing
  )
  select e.parent_id
    into v_missing
    from edge e
   where not exists (select from headway.jobs p where p.id = e.parent_id and p.tenant_id = e.tenant_id)
   limit 1;
  if found then
    raise exception 'after names job %, which does not exist (or is another tenant''s): nothing was enqueued', v_missing
      using errcode = 'HW004';
  end if;
  insert into headway.arrivals (tenant_id, jobs)
  select j.tenant_id, array_agg(u.id)
    from unnest(p_ids, p_afters) as u (id, after)
    join headway.jobs j on j.id = u.id
   where u.after is not null
   group by j.tenant_id;
end
$$;

-- Decide the edges of new children (p_jobs) and of parents that ended (p_ended), and then what becomes of the children.
create function headway.join_jobs(p_jobs uuid[], p_ended uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
-- always the plan by primary key: one made while the tables were small must not outlive that
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_asked uuid[];
  v_parents uuid[];
  v_statuses text[];
  v_children uuid[];
  v_decided uuid[];
  v_moved uuid[];
  v_stopped uuid[];
  v_flows uuid[];
  v_called uuid[];
begin
  select array_agg(distinct e.parent_id)
    into v_asked
    from (select e.parent_id
            from unnest(p_jobs) as u (id)
            join headway.edges e on e.child_id = u.id and e.state = 'pending'
          union all
          select u.id
            from unnest(p_ended) as u (id)
           where (select 1 from headway.edges e where e.parent_id = u.id and e.state = 'pending' limit 1) is not null) e;
  -- a parent that can be locked and is not over will leave an arrival when it ends
  select array_agg(l.id), array_agg(l.status)
    into v_parents, v_statuses
    from unnest(v_asked) as u (id)
    cross join lateral (select j.id, j.status from headway.jobs j where j.id = u.id for share skip locked) l;

  -- where a new job retries an at_most_once parent that failed, its children wait for that one
  select array_agg(m.id)
    into v_moved
    from (select c.id, headway.inherit_edges(p.id, c.id)
            from unnest(v_parents, v_statuses) as p (id, status)
            join headway.jobs c on c.retry_of = p.id
           where p.status = 'failed') m;

  with over as (
    select p.id, case p.status when 'succeeded' then 'done' else 'failed' end as state
      from unnest(v_parents, v_statuses) as p (id, status)
     where p.status in ('succeeded', 'dead', 'canceled', 'failed')
    union all
    -- a parent whose row was deleted
    select u.id, 'failed'
      from unnest(v_asked) as u (id)
     where not exists (select from headway.jobs j where j.id = u.id)
  ), piece as materialized (
    select p.parent_id, p.child_id, p.fence, o.state
      from over o
      cross join lateral (
        select e.parent_id, e.child_id, e.fence
          from headway.edges e
         where e.parent_id = o.id
           and e.state = 'pending'
         limit headway.piece()) p
     limit headway.piece()
  ), decided as (
    update headway.edges e
       set state = p.state
      from piece p
     where e.parent_id = p.parent_id
       and e.child_id = p.child_id
       and e.fence = p.fence
    returning e.child_id, e.parent_id, e.fence > 0 and e.state = 'failed' and e.on_failure = 'stop' as stops,
              e.fence < 0 as called
  )
  select array_agg(distinct d.child_id), array_agg(distinct d.parent_id), array_agg(distinct d.child_id) filter (where d.stops),
         array_agg(d.child_id) filter (where d.called), array_agg(d.parent_id) filter (where d.called)
    into v_children, v_decided, v_stopped, v_flows, v_called
    from decided d;
  if v_flows is not null then
    perform headway.tell_flows(v_flows, v_called, p_now);
    perform headway.deliver(array(select distinct u.id from unnest(v_flows) as u (id)), p_now);
  end if;
  if v_stopped is not null then
    insert into headway.arrivals (orphaned) values (v_stopped);
  end if;

  perform headway.leave_children(v_children || p_jobs);

  -- more edges than one piece: the rest is left as an arrival
  insert into headway.arrivals (ended)
  select array_agg(p.id)
    from unnest(v_parents, v_statuses) as p (id, status)
   where p.status in ('succeeded', 'dead', 'canceled', 'failed')
     and (select 1 from headway.edges e where e.parent_id = p.id and e.state = 'pending' limit 1) is not null
  having count(*) > 0;
  if found then
    perform headway.note_rest();
  end if;

  -- parents that somebody has locked, or that another job replaced meanwhile: process them again
  insert into headway.arrivals (ended)
  select array_agg(a.id)
    from (select a.id from unnest(v_asked) as a (id)
          except select l.id from unnest(v_parents) as l (id)
          except select d.id
                   from unnest(v_decided) as d (id)
                  where (select 1 from headway.edges e where e.parent_id = d.id and e.state = 'pending' limit 1) is null
          union all select m.id from unnest(v_moved) as m (id)) a
  having count(*) > 0;

  perform headway.decide_children(
    array(select c.id from unnest(v_children) as c (id) union select c.id from unnest(p_jobs) as c (id)), p_now);
end
$$;

-- Queue or cancel those of these jobs that wait for no other job any more.
create function headway.decide_children(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_waiting uuid[];
  v_locked uuid[];
  v_free uuid[];
  v_one uuid;
  v_doomed uuid[];
  v_reasons text[];
begin
  select array_agg(j.id)
    into v_waiting
    from unnest(p_ids) as u (id)
    join headway.jobs j on j.id = u.id
   where (j.status in ('held', 'waiting') and j.pending) is true
     and (select 1
            from headway.edges e
           where e.child_id = j.id and e.state = 'pending' and e.fence = case j.status when 'held' then 0 else j.joining end
           limit 1) is null;
  if v_waiting is null then
    return;
  end if;
  -- a transaction that adds a member to a group has the group's row locked: the callback will wait for that one, too
  select array_agg(l.id)
    into v_locked
    from unnest(v_waiting) as u (id)
    cross join lateral (
      select j.id, j.tenant_id
        from headway.jobs j
       where j.id = u.id and j.status in ('held', 'waiting') and j.pending
         for update skip locked) l
   where not exists (select from headway.groups g where g.callback_id = l.id and g.tenant_id = l.tenant_id)
      or exists (select
                   from (select
                           from headway.groups g
                          where g.callback_id = l.id and g.tenant_id = l.tenant_id
                            for update skip locked) g);
  select array_agg(l.id)
    into v_free
    from unnest(v_locked) as l (id)
    join headway.jobs j on j.id = l.id
   where (select 1
            from headway.edges e
           where e.child_id = j.id and e.state = 'pending' and e.fence = case j.status when 'held' then 0 else j.joining end
           limit 1) is null;
  insert into headway.arrivals (jobs)
  select array_agg(w.id)
    from (select w.id from unnest(v_waiting) as w (id) except select l.id from unnest(v_locked) as l (id)) w
  having count(*) > 0;
  if v_free is null then
    return;
  end if;

  -- a parent did not succeed, and the edge says stop; a machine that waits for its children ran in spite of that
  select array_agg(d.child_id), array_agg(d.reason)
    into v_doomed, v_reasons
    from (select distinct on (e.child_id) e.child_id,
                 'canceled because job ' || e.parent_id || ' is ' || coalesce(p.status, 'gone') as reason
            from headway.edges e
            join headway.jobs c on c.id = e.child_id
            left join headway.jobs p on p.id = e.parent_id
           where e.child_id = any (v_free)
             and (c.status = 'held') is true
             and e.state = 'failed'
             and e.on_failure = 'stop'
             and e.fence = 0
           order by e.child_id, e.parent_id) d;
  if v_doomed is not null then
    perform headway.cancel_jobs(v_doomed, v_reasons, p_now);
    perform headway.follow_later(v_doomed, p_now);
    v_free := array(select f.id from unnest(v_free) as f (id) except select d.id from unnest(v_doomed) as d (id));
  end if;

  begin
    perform headway.stop_waiting(v_free, p_now);
  exception when unique_violation or lock_not_available then
    foreach v_one in array v_free loop
      begin
        perform headway.stop_waiting(array[v_one], p_now);
      exception
        when unique_violation then
          if not headway.follow_again(v_one) then
            perform headway.supersede(v_one, p_now);
            perform headway.follow_later(array[v_one], p_now);
          end if;
        when lock_not_available then
          insert into headway.arrivals (jobs) values (array[v_one]);
      end;
    end loop;
  end;
end
$$;

-- These jobs, whose rows are locked, wait for no other job any more. A car goes on waiting for its turn; a machine that
-- waited for its children is queued, even as a car, since it is its train's locomotive.
create function headway.stop_waiting(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_parked uuid[];
begin
  with gone as (
    update headway.jobs j
       set pending = case when j.status = 'held' and j.train is null and headway.released_to(j, p_now) = 'waiting'
                               and j.joining is not null then true end,
           status = case when j.status = 'waiting' then 'queued'
                         when j.train is not null then 'held'
                         else headway.released_to(j, p_now) end,
           queued_at = case when j.status = 'waiting' then p_now
                            when j.train is null and headway.released_to(j, p_now) = 'queued' then p_now
                            else j.queued_at end,
           woken = case when j.status = 'waiting' then 'children' else j.woken end
     where j.id = any (p_ids)
       and j.status in ('held', 'waiting')
    returning j.id, j.tenant_id, j.train, j.status
  ), moved as (
    insert into headway.arrivals (tenant_id, trains)
    select g.tenant_id, array_agg(distinct g.train)
      from gone g
     where g.train is not null
       and g.status = 'held'
     group by g.tenant_id
  )
  select array_agg(g.id) into v_parked from gone g where g.status = 'waiting';
  if v_parked is not null then
    perform headway.wait_again(v_parked);
  end if;
end
$$;

-- Make the jobs that wait for one job wait for another instead.
create function headway.inherit_edges(p_old uuid, p_new uuid) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  -- unless they wait for that one already
  delete from headway.edges e
   using headway.edges d
   where e.parent_id = p_old and e.state = 'pending' and d.parent_id = p_new and d.child_id = e.child_id
     and d.fence = e.fence;
  update headway.edges e set parent_id = p_new where e.parent_id = p_old and e.state = 'pending';
$$;

-- Make the jobs that still wait for one of these retried jobs wait for it again, by the id that runs now.
create function headway.reopen_edges(p_old uuid[], p_new uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  update headway.edges e
     set child_id = u.new
    from unnest(p_old, p_new) as u (old, new)
   where e.child_id = u.old
     and u.old <> u.new;
  update headway.groups g
     set callback_id = u.new
    from unnest(p_old, p_new) as u (old, new)
   where g.callback_id = u.old
     and u.old <> u.new;
  update headway.edges e
     set state = 'pending'
    from unnest(p_old) as u (old)
   where e.parent_id = u.old
     and exists (select
                   from headway.jobs c
                  where c.id = e.child_id
                    and c.pending
                    and (c.status = 'held' and e.fence = 0 or c.status = 'waiting' and e.fence = c.joining));
  select headway.call_again(p_old);
  -- jobs that its end canceled wait for the new one, should they be revived
  update headway.edges e
     set parent_id = u.new
    from unnest(p_old, p_new) as u (old, new)
   where e.parent_id = u.old
     and u.old <> u.new
     and e.fence = 0
     and e.state = 'failed';
  select headway.inherit_edges(u.old, u.new) from unnest(p_old, p_new) as u (old, new) where u.old <> u.new;
$$;
