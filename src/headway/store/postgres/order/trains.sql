-- Trains without a lock of their own. The locomotive's row is the lock; jobs_locomotive allows only one; what cannot be
-- decided before somebody else's commit is left as an arrival, which the first step of the next claim looks at.
-- True in every snapshot: a train with held cars, no locomotive and no hold has an arrival, or its head is pending.

-- Let the next cars go, where a locomotive has just ended: called with its row locked, in a statement of its own, so
-- that every car is seen that was committed before. A head that somebody holds, or that may meet a taken unique key,
-- becomes an arrival. Nothing else can be refused: the seat is this transaction's until its commit. So there is no
-- exception block: a row locked and updated in one subtransaction and claimed in another has a multixact, and what has
-- one stays in the indexes until the next vacuum.
create function headway.advance(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  with head as materialized (
    select w.tenant_id, w.train, h.id, h.enters
      from unnest(p_tenants, p_trains) as w (tenant_id, train)
      cross join lateral (
        -- the head first and its lock after: skip locked in here would let a later car overtake
        select j.id, j.pending, j.unique_key is not null and not 'held' = any (j.unique_scope) as enters
          from headway.jobs j
         where j.tenant_id = w.tenant_id and j.train = w.train and j.train is not null and j.status = 'held'
         order by j.position, j.id
         limit 1
      ) h
     where h.pending is not true
       and (select 1 from headway.holds o where o.tenant_id = w.tenant_id and o.train = w.train limit 1) is null
  ), locked as materialized (
    -- lateral: by id and in no other way, whatever the statistics say
    select l.id
      from head h
      cross join lateral (
        select j.id from headway.jobs j where j.id = h.id and j.status = 'held' for update skip locked) l
     where not h.enters
  ), gone as (
    update headway.jobs j
       set status = case when j.scheduled_for > p_now then 'scheduled' else 'queued' end,
           queued_at = case when j.scheduled_for > p_now then j.queued_at else p_now end
      from locked l
     where j.id = l.id
    returning j.id
  )
  insert into headway.arrivals (tenant_id, trains)
  select h.tenant_id, array_agg(h.train)
    from head h
   where h.id not in (select g.id from gone g)
   group by h.tenant_id;
end
$$;

-- Let the heads of these trains go where there is neither locomotive nor hold; where there is something in motion,
-- leave an arrival.
create function headway.let_go(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  with train as (
    select w.tenant_id, w.train, h.id, h.pending
      from unnest(p_tenants, p_trains) as w (tenant_id, train)
      cross join lateral (
        select j.id, j.pending
          from headway.jobs j
         where j.tenant_id = w.tenant_id and j.train = w.train and j.train is not null and j.status = 'held'
         order by j.position, j.id
         limit 1
      ) h
     where h.pending is not true
       and (select 1 from headway.holds o where o.tenant_id = w.tenant_id and o.train = w.train limit 1) is null
  ), locked as materialized (
    select l.id
      from train t
      cross join lateral (
        select j.id from headway.jobs j where j.id = t.id and j.status = 'held' for update skip locked) l
     where (select 1
              from headway.jobs a
             where a.tenant_id = t.tenant_id and a.train = t.train and a.train is not null
               and a.status in ('queued', 'running', 'scheduled', 'waiting')
             limit 1) is null
  ), gone as (
    update headway.jobs j
       set status = case when j.scheduled_for > p_now then 'scheduled' else 'queued' end,
           queued_at = case when j.scheduled_for > p_now then j.queued_at else p_now end
      from locked l
     where j.id = l.id
    returning j.id
  )
  insert into headway.arrivals (tenant_id, trains)
  select t.tenant_id, array_agg(t.train)
    from train t
   where t.id not in (select g.id from gone g)
   group by t.tenant_id;
end
$$;

-- The same, train by train where they cannot go together. A head that would enter a unique scope now taken ends.
create function headway.let_go_apart(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_constraint text;
  v_head uuid;
begin
  perform headway.let_go(p_tenants, p_trains, p_now);
exception when others then
  for i in 1 .. cardinality(p_trains) loop
    begin
      perform headway.let_go(p_tenants[i:i], p_trains[i:i], p_now);
    exception
      when unique_violation then
        get stacked diagnostics v_constraint = constraint_name;
        if v_constraint = 'jobs_unique' then
          select j.id
            into v_head
            from headway.jobs j
           where j.tenant_id = p_tenants[i] and j.train = p_trains[i] and j.train is not null and j.status = 'held'
           order by j.position, j.id
           limit 1;
          perform headway.supersede(v_head, p_now);
          perform headway.follow(array[v_head], p_now, false);
        end if;
        insert into headway.arrivals (tenant_id, trains) values (p_tenants[i], p_trains[i:i]);
      when others then
        perform headway.put_back(sqlstate, sqlerrm);
        insert into headway.arrivals (tenant_id, trains) values (p_tenants[i], p_trains[i:i]);
    end;
  end loop;
end
$$;

-- Look at what arrived: the only step that looks after the commit of whoever enqueued, canceled or ended something.
-- One at a time, waits for nobody, and costs one probe when nothing arrived. Where more arrived than it takes, tenants take
-- turns. Gives how many arrivals it took.
create function headway.couple(p_limit integer default 500) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
-- arrays are joined with each other here, whatever the claim around it has switched off
set enable_hashjoin = on
set lock_timeout = '50ms'
as $$
declare
  v_taken integer := 0;
  v_round integer;
  v_until timestamptz := clock_timestamp() + interval '50 milliseconds';
begin
  perform from headway.arrivals limit 1;
  if not found then
    return 0;
  end if;
  perform from headway.gates g where g.n = 0 for update skip locked;
  if not found then
    return 0;
  end if;
  -- what one lets go may let go another; what somebody holds is left for the next claim
  for i in 1 .. 5 loop
    v_round := headway.couple_once(p_limit);
    v_taken := v_taken + v_round;
    -- whoever claims waits for this; but what was settled just now must get to who waits for it, also where the first
    -- round of a session takes long
    exit when v_round = 0 or (i >= 3 and clock_timestamp() > v_until);
  end loop;
  return v_taken;
end
$$;

-- Say in the server's log what else than somebody's lock keeps a row from being handled.
create function headway.put_back(p_state text, p_message text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_state not in ('55P03', '40P01') then
    raise warning 'headway: what could not be handled is left for the next round: % %', p_state, p_message;
  end if;
end
$$;

-- Look at arrivals of one sort: groups to be stopped, and the rest of those that are, machines that ended before their
-- children, jobs that run again and whose end had canceled others, machines that got signals, jobs that wait for others,
-- jobs that others may wait for.
create function headway.look_at(p_what text, p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  case p_what
    when 'groups' then perform headway.stop_groups(p_ids, null, p_now);
    when 'stopping' then perform headway.stop_groups(null, p_ids, p_now);
    when 'orphaned' then perform headway.stop_children(p_ids, p_now);
    when 'revived' then perform headway.revive(p_ids, p_now, null, false);
    when 'signaled' then perform headway.deliver(p_ids, p_now);
    when 'jobs' then perform headway.join_jobs(p_ids, null, p_now);
    else perform headway.join_jobs(null, p_ids, p_now);
  end case;
end
$$;

-- The same, one by one where they fail together; those that fail alone are put back.
create function headway.look_at_each(p_what text, p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
  v_left uuid[];
begin
  if p_ids is null then
    return;
  end if;
  begin
    perform headway.look_at(p_what, p_ids, p_now);
    return;
  exception when others then
    null;
  end;
  foreach v_id in array p_ids loop
    begin
      perform headway.look_at(p_what, array[v_id], p_now);
    exception when others then
      perform headway.put_back(sqlstate, p_what || ' ' || v_id || ': ' || sqlerrm);
      v_left := v_left || v_id;
    end;
  end loop;
  insert into headway.arrivals (groups, stopping, orphaned, revived, signaled, jobs, ended)
  select case p_what when 'groups' then v_left end, case p_what when 'stopping' then v_left end,
         case p_what when 'orphaned' then v_left end, case p_what when 'revived' then v_left end,
         case p_what when 'signaled' then v_left end, case p_what when 'jobs' then v_left end,
         case p_what when 'ended' then v_left end
   where v_left is not null;
end
$$;

-- Up to p_limit arrivals (a few more where many tenants share them), each tenant's oldest. The tenants are found by one
-- probe each, beginning with any of them.
create function headway.arrivals_in_turn(p_limit integer) returns tid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_first uuid := gen_random_uuid();
  v_last uuid := v_first;
  v_found uuid;
  v_owners uuid[] := '{}';
  v_round integer := 1;
begin
  loop
    select a.tenant_id into v_found from headway.arrivals a where a.tenant_id > v_last order by a.tenant_id limit 1;
    if v_found is null or v_round = 2 and v_found > v_first then
      exit when v_round = 2;
      v_round := 2;
      v_last := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    v_owners := v_owners || v_found;
    exit when cardinality(v_owners) >= p_limit;
    v_last := v_found;
  end loop;
  return array(
    select s.ctid
      from unnest(v_owners) as o (tenant_id)
      cross join lateral (
        select a.ctid
          from headway.arrivals a
         where a.tenant_id = o.tenant_id
         order by a.id
         limit (p_limit + cardinality(v_owners) - 1) / cardinality(v_owners)
           for update skip locked) s);
end
$$;

-- One round of it, under the gate.
create function headway.couple_once(p_limit integer) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  -- nobody else takes arrivals, or changes one: a row stays where it is
  v_rows tid[] := array(select a.ctid from headway.arrivals a limit p_limit);
  v_taken integer;
  v_tenants uuid[];
  v_trains text[];
  v_jobs uuid[];
  v_ended uuid[];
  v_keys text[];
  v_groups uuid[];
  v_signaled uuid[];
  v_orphaned uuid[];
  v_revived uuid[];
  v_stopping uuid[];
  v_clearing record;
begin
  if cardinality(v_rows) = p_limit then
    v_rows := headway.arrivals_in_turn(p_limit);
  end if;
  with taken as materialized (
    delete from headway.arrivals a
     where a.ctid = any (array(select o.ctid from headway.arrivals o where o.ctid = any (v_rows) for update skip locked))
    returning a.tenant_id, a.trains, a.jobs, a.ended, a.keys, a.groups, a.signaled, a.orphaned, a.revived,
              a.stopping
  )
  select (select count(*) from taken),
         t.tenants, t.trains,
         -- the first of each arrival first: what is one job comes before the rest of many
         (select array_agg(d.id order by d.n)
            from (select u.id, min(u.n) as n
                    from taken k, unnest(k.jobs) with ordinality as u (id, n)
                   group by u.id) d),
         (select array_agg(d.id order by d.n)
            from (select u.id, min(u.n) as n
                    from taken k, unnest(k.ended) with ordinality as u (id, n)
                   group by u.id) d),
         (select array_agg(u) from taken k, unnest(k.keys) u),
         (select array_agg(distinct u) from taken k, unnest(k.groups) u),
         (select array_agg(d.id order by d.n)
            from (select u.id, min(u.n) as n
                    from taken k, unnest(k.signaled) with ordinality as u (id, n)
                   group by u.id) d),
         (select array_agg(distinct u) from taken k, unnest(k.orphaned) u),
         (select array_agg(distinct u) from taken k, unnest(k.revived) u),
         (select array_agg(distinct u) from taken k, unnest(k.stopping) u)
    into v_taken, v_tenants, v_trains, v_jobs, v_ended, v_keys, v_groups, v_signaled, v_orphaned, v_revived, v_stopping
    from (select array_agg(w.tenant_id order by w.tenant_id, w.train) as tenants,
                 array_agg(w.train order by w.tenant_id, w.train) as trains
            from (select distinct k.tenant_id, u.train from taken k, unnest(k.trains) as u (train)) w) t;

  if greatest(cardinality(v_jobs), cardinality(v_ended), cardinality(v_signaled)) > headway.piece() then
    insert into headway.arrivals (jobs, ended, signaled)
    values (nullif(v_jobs[headway.piece() + 1 :], '{}'), nullif(v_ended[headway.piece() + 1 :], '{}'),
            nullif(v_signaled[headway.piece() + 1 :], '{}'));
    v_jobs := v_jobs[: headway.piece()];
    v_ended := v_ended[: headway.piece()];
    v_signaled := v_signaled[: headway.piece()];
  end if;

  -- nothing of one stops the claims of everybody: what would wait, or fails, is put back
  perform headway.look_at_each('groups', v_groups, v_now), headway.look_at_each('stopping', v_stopping, v_now),
          headway.look_at_each('orphaned', v_orphaned, v_now), headway.look_at_each('revived', v_revived, v_now),
          headway.look_at_each('signaled', v_signaled, v_now), headway.look_at_each('jobs', v_jobs, v_now),
          headway.look_at_each('ended', v_ended, v_now);
  if v_keys is not null then
    begin
      perform headway.let_in(v_keys, false);
    exception when others then
      perform headway.put_back(sqlstate, sqlerrm);
      insert into headway.arrivals (keys) values (v_keys);
    end;
  end if;
  if v_trains is null then
    return v_taken;
  end if;

  for v_clearing in
    select o.tenant_id, o.train
      from unnest(v_tenants, v_trains) as w (tenant_id, train)
      join headway.holds o on o.tenant_id = w.tenant_id and o.train = w.train and o.clear_to is not null
  loop
    begin
      perform headway.clear_some(v_clearing.tenant_id, v_clearing.train, v_now);
    exception when others then
      perform headway.put_back(sqlstate, sqlerrm);
      insert into headway.arrivals (tenant_id, trains) values (v_clearing.tenant_id, array[v_clearing.train]);
    end;
  end loop;

  -- a locomotive that stands still has a settle before it, which will see the car: only the others need a look
  with train as (
    select *
      from unnest(v_tenants, v_trains) as w (tenant_id, train)
     where (select 1
              from headway.jobs h
             where h.tenant_id = w.tenant_id and h.train = w.train and h.train is not null and h.status = 'held'
             limit 1) is not null
  ), still as materialized (
    select l.tenant_id, l.train
      from train t
      cross join lateral (
        select j.tenant_id, j.train
          from headway.jobs j
         where j.tenant_id = t.tenant_id and j.train = t.train and j.train is not null
           and j.status in ('queued', 'running', 'scheduled', 'waiting')
           for share skip locked) l
  )
  select array_agg(t.tenant_id order by t.tenant_id, t.train), array_agg(t.train order by t.tenant_id, t.train)
    into v_tenants, v_trains
    from train t
   where (t.tenant_id, t.train) not in (select s.tenant_id, s.train from still s);
  if v_trains is not null then
    perform headway.let_go_apart(v_tenants, v_trains, v_now);
  end if;
  return v_taken;
end
$$;

-- Let no further car of a train become its locomotive.
create function headway.hold_train(p_train text, p_tenant uuid default null, p_reason text default null, p_actor text default null)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := coalesce(headway.scope(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
begin
  insert into headway.holds (tenant_id, train, since, reason, actor)
  values (v_tenant, p_train, v_now, p_reason, p_actor)
  on conflict do nothing;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_tenant, v_now, p_actor, 'hold train', p_train);
end
$$;

-- End a train's hold and let its next car go; false if it was not on hold.
create function headway.resume_train(p_train text, p_tenant uuid default null, p_actor text default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := coalesce(headway.scope(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
begin
  delete from headway.holds o where o.tenant_id = v_tenant and o.train = p_train;
  if not found then
    return false;
  end if;
  insert into headway.arrivals (tenant_id, trains) values (v_tenant, array[p_train]);
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_tenant, headway.now(), p_actor, 'resume train', p_train);
  return true;
end
$$;

-- Take a car out of its train: the train goes on, whatever its on_canceled says. For the finished car that put its
-- train on hold, the hold ends. Gives the job's status after, or null if there is none. Raises HW003.
create function headway.skip(p_id uuid, p_tenant uuid default null, p_actor text default null) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.scope(p_tenant);
  v_job headway.jobs;
begin
  select j.*
    into v_job
    from headway.jobs j
   where j.id = p_id
     and (v_tenant is null or j.tenant_id = v_tenant)
     for update;
  if not found then
    return null;
  end if;
  if v_job.train is null then
    raise exception 'job % is no car of a train: cancel it instead', p_id using errcode = 'HW003';
  end if;
  if v_job.status = 'running' then
    raise exception 'job % is running and cannot be skipped: cancel it, or let it finish', p_id using errcode = 'HW003';
  end if;
  if v_job.finished_at is null then
    v_job.status := headway.end_early(p_id, 'skipped', v_now, false);
    perform headway.follow(array[p_id], v_now, false);
  else
    delete from headway.holds o
     where o.tenant_id = v_job.tenant_id and o.train = v_job.train and o.job_id = p_id;
    if not found then
      raise exception 'job % is % already, and train % does not wait for it', p_id, v_job.status, v_job.train
        using errcode = 'HW003';
    end if;
    insert into headway.arrivals (tenant_id, trains) values (v_job.tenant_id, array[v_job.train]);
  end if;
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  values (v_job.tenant_id, p_id, v_now, p_actor, 'skip', v_job.train);
  return v_job.status;
end
$$;

-- Cancel every car of a train that is not running, and end its hold; gives their ids. So many at a time: until all are
-- canceled the train is on hold, and who claims goes on with it.
create function headway.clear_train(p_train text, p_tenant uuid default null, p_actor text default null)
returns setof uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := coalesce(headway.scope(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
  v_ids uuid[];
  v_last bigint;
begin
  select array_agg(c.id order by c.id), coalesce(max(c.position), 0)
    into v_ids, v_last
    from (select h.id, h.position
            from headway.jobs h
           where h.tenant_id = v_tenant and h.train = p_train and h.train is not null and h.status = 'held'
          union all
          select a.id, a.position
            from headway.jobs a
           where a.tenant_id = v_tenant and a.train = p_train and a.train is not null
             and a.status in ('queued', 'scheduled', 'waiting')) c;
  insert into headway.holds as o (tenant_id, train, since, reason, actor, clear_to)
  values (v_tenant, p_train, v_now, 'it is being cleared', p_actor, v_last)
  on conflict (tenant_id, train) do update
    set clear_to = excluded.clear_to, reason = excluded.reason, actor = excluded.actor, job_id = null;
  perform headway.clear_some(v_tenant, p_train, v_now);
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_tenant, v_now, p_actor, 'clear train', p_train);
  return query select * from unnest(v_ids);
end
$$;

-- Cancel some more of the cars of a train that is being cleared; end its hold when none is left.
create function headway.clear_some(p_tenant uuid, p_train text, p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_to bigint;
  v_ids uuid[];
begin
  select o.clear_to
    into v_to
    from headway.holds o
   where o.tenant_id = p_tenant and o.train = p_train and o.clear_to is not null
     for update;
  if not found then
    return;
  end if;
  select array_agg(l.id)
    into v_ids
    from (select c.id
            from ((select a.id
                     from headway.jobs a
                    where a.tenant_id = p_tenant and a.train = p_train and a.train is not null
                      and a.status in ('queued', 'scheduled', 'waiting')
                      and a.position <= v_to)
                  union all
                  (select h.id
                     from headway.jobs h
                    where h.tenant_id = p_tenant and h.train = p_train and h.train is not null and h.status = 'held'
                      and h.position <= v_to
                    order by h.position, h.id
                    limit headway.piece())) c) c
    cross join lateral (
      select j.id
        from headway.jobs j
       where j.id = c.id
         and j.status in ('held', 'queued', 'scheduled', 'waiting')
         for update skip locked) l;
  if v_ids is not null then
    perform headway.end_all_early(v_ids, array_fill('cleared'::text, array[cardinality(v_ids)]), p_now, false);
    perform headway.follow(v_ids, p_now, false);
  end if;
  perform
     from headway.jobs j
    where j.tenant_id = p_tenant and j.train = p_train and j.train is not null
      and j.status = 'held'
      and j.position <= v_to
    limit 1;
  if not found then
    delete from headway.holds o where o.tenant_id = p_tenant and o.train = p_train;
  end if;
  insert into headway.arrivals (tenant_id, trains) values (p_tenant, array[p_train]);
end
$$;
