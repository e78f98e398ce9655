-- Jobs that wait for other jobs. An edge is decided once, when its parent is over; a child without an undecided edge is
-- let go, or ends; a machine that waits for those it spawned goes on in any case. Only `couple` decides, one at a time and after everybody's commit: the last of several siblings
-- cannot be missed, and no parent's settle waits for another's.

-- Decide the edges of new children and of parents that ended, then look at the children.
create function headway.join_jobs(p_jobs uuid[], p_ended uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
-- one plan for ever, by primary key: a plan made while the tables were small must not outlive that
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
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
  -- a parent that can be locked and is not over has its settle before it, which will leave word
  select array_agg(l.id), array_agg(l.status)
    into v_parents, v_statuses
    from unnest(v_asked) as u (id)
    cross join lateral (select j.id, j.status from headway.jobs j where j.id = u.id for share skip locked) l;

  -- an at_most_once parent that failed: wait for the job that retries it
  select array_agg(m.id)
    into v_moved
    from (select c.id, headway.repoint(p.id, c.id)
            from unnest(v_parents, v_statuses) as p (id, status)
            join headway.jobs c on c.retry_of = p.id
           where p.status = 'failed') m;

  with over as (
    select p.id, case p.status when 'succeeded' then 'done' else 'failed' end as state
      from unnest(v_parents, v_statuses) as p (id, status)
     where p.status in ('succeeded', 'dead', 'canceled', 'failed')
    union all
    -- its row was deleted
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
    returning e.child_id, e.parent_id, e.fence > 0 and e.state = 'failed' and e.on_failure = 'stop' as stops
  )
  select array_agg(distinct d.child_id), array_agg(distinct d.parent_id), array_agg(distinct d.child_id) filter (where d.stops)
    into v_children, v_decided, v_stopped
    from decided d;
  if v_stopped is not null then
    insert into headway.arrivals (orphaned) values (v_stopped);
  end if;

  -- more wait for those that are over than are looked at in one go
  insert into headway.arrivals (ended)
  select array_agg(p.id)
    from unnest(v_parents, v_statuses) as p (id, status)
   where p.status in ('succeeded', 'dead', 'canceled', 'failed')
     and (select 1 from headway.edges e where e.parent_id = p.id and e.state = 'pending' limit 1) is not null
  having count(*) > 0;

  -- somebody holds the parent's row, or it is gone or another one now: look again
  insert into headway.arrivals (ended)
  select array_agg(a.id)
    from (select a.id from unnest(v_asked) as a (id)
          except select l.id from unnest(v_parents) as l (id)
          except select d.id
                   from unnest(v_decided) as d (id)
                  where (select 1 from headway.edges e where e.parent_id = d.id and e.state = 'pending' limit 1) is null
          union all select m.id from unnest(v_moved) as m (id)) a
  having count(*) > 0;

  perform headway.release_children(
    array(select c.id from unnest(v_children) as c (id) union select c.id from unnest(p_jobs) as c (id)), p_now);
end
$$;

-- Let go, or end, those of these jobs that wait for nobody any more.
create function headway.release_children(p_ids uuid[], p_now timestamptz) returns void
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
           where e.child_id = j.id and e.state = 'pending' and (j.status = 'held' or e.fence = j.joining)
           limit 1) is null;
  if v_waiting is null then
    return;
  end if;
  -- whoever adds a member to a group holds the group's row: its callback has one more to wait for
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
           where e.child_id = j.id and e.state = 'pending' and (j.status = 'held' or e.fence = j.joining)
           limit 1) is null;
  insert into headway.arrivals (jobs)
  select array_agg(w.id)
    from (select w.id from unnest(v_waiting) as w (id) except select l.id from unnest(v_locked) as l (id)) w
  having count(*) > 0;
  if v_free is null then
    return;
  end if;

  -- what it waited for did not succeed, and it minds
  select array_agg(d.child_id), array_agg(d.reason)
    into v_doomed, v_reasons
    from (select distinct on (e.child_id) e.child_id,
                 'canceled because job ' || e.parent_id || ' is ' || coalesce(p.status, 'gone') as reason
            from headway.edges e
            left join headway.jobs p on p.id = e.parent_id
           where e.child_id = any (v_free)
             and e.state = 'failed'
             and e.on_failure = 'stop'
             and e.fence = 0
           order by e.child_id, e.parent_id) d;
  if v_doomed is not null then
    perform headway.end_all_early(v_doomed, v_reasons, p_now);
    perform headway.follow(v_doomed, p_now, false);
    v_free := array(select f.id from unnest(v_free) as f (id) except select d.id from unnest(v_doomed) as d (id));
  end if;

  begin
    perform headway.unhold(v_free, p_now);
  exception when unique_violation or lock_not_available then
    foreach v_one in array v_free loop
      begin
        perform headway.unhold(array[v_one], p_now);
      exception
        when unique_violation then
          perform headway.supersede(v_one, p_now);
          perform headway.follow(array[v_one], p_now, false);
        when lock_not_available then
          insert into headway.arrivals (jobs) values (array[v_one]);
      end;
    end loop;
  end;
end
$$;

-- These jobs, whose rows are locked, wait for nobody any more: a car now for its turn only. A machine that waits is
-- queued, as the locomotive that it is.
create function headway.unhold(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  with gone as (
    update headway.jobs j
       set pending = null,
           status = case when j.status = 'waiting' then 'queued'
                         when j.train is not null then 'held'
                         when j.scheduled_for > p_now then 'scheduled'
                         else 'queued' end,
           queued_at = case when j.status = 'held' and (j.train is not null or j.scheduled_for > p_now) then j.queued_at
                            else p_now end,
           woken = case when j.status = 'waiting' then 'children' else j.woken end
     where j.id = any (p_ids)
       and j.status in ('held', 'waiting')
    returning j.tenant_id, j.train, j.status
  )
  insert into headway.arrivals (tenant_id, trains)
  select g.tenant_id, array_agg(distinct g.train)
    from gone g
   where g.train is not null
     and g.status = 'held'
   group by g.tenant_id;
end
$$;

-- Add a group; its members carry its id.
create function headway.new_group(
  p_id uuid,
  p_mode text default 'parallel',
  p_on_failure text default 'stop',
  p_callback uuid default null,
  p_tenant uuid default null,
  p_slug text default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := coalesce(headway.scope(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
begin
  if p_tenant is not null then
    perform headway.name_tenant(v_tenant, coalesce(p_slug, v_tenant::text), v_now);
  end if;
  insert into headway.groups (id, tenant_id, created_at, callback_id, mode, on_failure)
  values (p_id, v_tenant, v_now, p_callback, p_mode, p_on_failure)
  on conflict do nothing;
end
$$;

-- Cancel the members of groups that a failure stopped (p_groups), or that are being stopped (p_stopping), unless somebody
-- has retried those meanwhile. So many at a time; the rest, and what somebody holds, is left for the next time.
create function headway.stop_groups(p_groups uuid[], p_stopping uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
  v_stopping uuid[];
  v_ids uuid[];
  v_reasons text[];
  v_left uuid[];
begin
  -- a row that somebody holds who adds a member: it is stopped again when that is done
  with locked as materialized (
    select g.id, g.stopped_at from headway.groups g where g.id = any (p_groups) for update skip locked
  ), stopped as (
    update headway.groups g
       set stopped_at = p_now
      from locked l
     where g.id = l.id
       and l.stopped_at is null
  )
  select array_agg(l.id), array_agg(g.id) filter (where l.id is null)
    into v_stopping, v_left
    from headway.groups g
    left join locked l on l.id = g.id
   where g.id = any (p_groups);
  if v_left is not null then
    insert into headway.arrivals (groups) values (v_left);
  end if;
  v_stopping := array_remove(v_stopping, null)
    || array(select g.id from headway.groups g where g.id = any (p_stopping) and g.stopped_at is not null);

  select array_agg(l.id), array_agg(l.reason)
    into v_ids, v_reasons
    from (select m.id, coalesce(g.stop_reason, 'canceled because its group stopped') as reason
            from headway.groups g
            cross join lateral (
              (select c.id
                 from headway.jobs c
                where c.id = g.callback_id
                  and c.tenant_id = g.tenant_id
                  and c.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
                  and c.cancel_requested_at is null)
              union all
              (select k.id
                 from headway.jobs k
                where k.group_id = g.id
                  and k.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
                  and k.cancel_requested_at is null
                limit headway.piece())) m
           where g.id = any (v_stopping)
           limit headway.piece()) m
    cross join lateral (
      select j.id, m.reason
        from headway.jobs j
       where j.id = m.id
         and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
         for update skip locked) l;
  if v_ids is not null then
    perform headway.end_all_early(v_ids, v_reasons, p_now);
    perform headway.follow(v_ids, p_now, false);
  end if;
  insert into headway.arrivals (stopping)
  select array_agg(g.id)
    from unnest(v_stopping) as g (id)
   where (select 1
            from headway.jobs j
           where j.group_id = g.id
             and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
             and j.cancel_requested_at is null
           limit 1) is not null
  having count(*) > 0;
end
$$;

-- Cancel the members of a group that are not over, and its callback. Gives the status that each has now. So many at a
-- time: who claims goes on with the rest.
-- Raises HW006 where there is no such group.
create function headway.cancel_group(
  p_group uuid, p_tenant uuid default null, p_reason text default null, p_actor text default null
) returns table (id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.scope(p_tenant);
  v_group headway.groups;
  v_ids uuid[];
begin
  update headway.groups g
     set stopped_at = coalesce(g.stopped_at, headway.now()),
         stop_reason = coalesce(p_reason, 'canceled with its group')
   where g.id = p_group
     and (v_tenant is null or g.tenant_id = v_tenant)
  returning g.* into v_group;
  if not found then
    raise exception 'there is no group % (or it is another tenant''s, or it was pruned)', p_group using errcode = 'HW006';
  end if;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_group.tenant_id, headway.now(), p_actor, 'cancel group', p_group::text);
  v_ids := array(
    select j.id
      from headway.jobs j
     where (j.group_id = p_group or j.id = v_group.callback_id and j.tenant_id = v_group.tenant_id)
       and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
     order by j.id = v_group.callback_id desc);
  if cardinality(v_ids) > headway.piece() then
    insert into headway.arrivals (tenant_id, stopping) values (v_group.tenant_id, array[p_group]);
  end if;
  return query
    select c.id, c.status
      from headway.cancel(v_ids[: headway.piece()], v_group.tenant_id, v_group.stop_reason, p_actor) c
    union all
    select j.id, j.status from headway.jobs j where j.id = any (v_ids[headway.piece() + 1 :]);
end
$$;

-- Let whoever waits for one job wait for another.
create function headway.repoint(p_old uuid, p_new uuid) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  -- it may wait for that one anyway
  delete from headway.edges e
   using headway.edges d
   where e.parent_id = p_old and e.state = 'pending' and d.parent_id = p_new and d.child_id = e.child_id
     and d.fence = e.fence;
  update headway.edges e set parent_id = p_new where e.parent_id = p_old and e.state = 'pending';
$$;
