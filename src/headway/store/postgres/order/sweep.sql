-- Sweep: repair what somebody broke by SQL, such as deleting a job's row.

-- Find and repair trains with waiting cars that nothing will move, held jobs whose `after` are over or gone, machines
-- that have what they wait for, and jobs set aside under a key that has capacity. Gives what it found. Checks up to
-- p_limit of each, going on where the last call stopped.
create function headway.sweep(p_limit integer)
returns table (trains text[], jobs uuid[], keys text[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenants uuid[];
  v_holds boolean[];
  v_last headway.sweeps;
  v_next headway.sweeps;
  v_count bigint;
  v_ids uuid[];
  v_ready uuid[];
begin
  perform headway.process_arrivals();
  perform headway.expire_reservations(v_now);
  select s.* into v_last from headway.sweeps s for update skip locked;
  if not found then
    return;
  end if;
  v_next := v_last;
  -- a skip scan over the trains that have held cars
  with recursive train (tenant_id, train, n) as (
    (select j.tenant_id, j.train, 1
       from headway.jobs j
      where j.train is not null and j.status = 'held' and (j.tenant_id, j.train) > (v_last.tenant_id, v_last.train)
      order by j.tenant_id, j.train
      limit 1)
    union all
    select x.tenant_id, x.train, t.n + 1
      from train t
      cross join lateral (
        select j.tenant_id, j.train
          from headway.jobs j
         where j.train is not null and j.status = 'held' and (j.tenant_id, j.train) > (t.tenant_id, t.train)
         order by j.tenant_id, j.train
         limit 1) x
     where t.n < p_limit
  )
  select array_agg(t.tenant_id) filter (where b.broken), array_agg(t.train) filter (where b.broken),
         array_agg(h.holds) filter (where b.broken), (array_agg(t.tenant_id order by t.n desc))[1], (array_agg(t.train order by t.n desc))[1], count(*)
    into v_tenants, trains, v_holds, v_next.tenant_id, v_next.train, v_count
    from train t
    cross join lateral (
      select j.pending, coalesce(j.on_canceled, j.on_dead) is not null as holds
        from headway.jobs j
       where j.tenant_id = t.tenant_id and j.train = t.train and j.train is not null and j.status = 'held'
       order by j.position, j.id
       limit 1) h
    cross join lateral (select h.pending is not true
     and (select 1
            from headway.jobs a
           where a.tenant_id = t.tenant_id and a.train = t.train and a.train is not null
             and a.status in ('queued', 'running', 'scheduled', 'waiting')
           limit 1) is null
     and not exists (select from headway.holds o where o.tenant_id = t.tenant_id and o.train = t.train)
     and not exists (select from headway.arrivals a where a.tenant_id = t.tenant_id and t.train = any (a.trains))
       as broken) b;
  if v_count < p_limit then
    -- the end: the next call starts over
    v_next.tenant_id := '00000000-0000-0000-0000-000000000000';
    v_next.train := '';
  end if;
  if trains is not null then
    -- its policy is to stop when something goes wrong: a person has to decide
    insert into headway.holds (tenant_id, train, since, reason)
    select w.tenant_id, w.train, v_now, 'its locomotive was deleted'
      from unnest(v_tenants, trains, v_holds) as w (tenant_id, train, holds)
     where w.holds
    on conflict do nothing;
    insert into headway.arrivals (tenant_id, trains)
    select w.tenant_id, array_agg(w.train)
      from unnest(v_tenants, trains, v_holds) as w (tenant_id, train, holds)
     where not w.holds
     group by w.tenant_id;
  end if;

  select array_agg(h.id)
    into jobs
    from (select j.id
            from headway.jobs j
           where j.pending
             and j.status = 'held'
             and not exists (select from headway.arrivals a where j.id = any (a.jobs))
             and not exists (
                   select
                     from headway.edges e
                     join headway.jobs p on p.id = e.parent_id
                    where e.child_id = j.id and e.state = 'pending' and e.fence >= 0
                      and (p.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
                           or exists (select from headway.arrivals a where p.id = any (a.ended))))
           limit p_limit) h;
  if jobs is not null then
    insert into headway.arrivals (jobs) values (jobs);
  end if;

  -- those with a deadline first, in order; the others sort as infinity
  v_ids := array(
    select j.id
      from headway.jobs j
     where j.status = 'waiting' and (j.deadline_at, j.id) > (v_last.deadline_at, v_last.machine)
     order by j.deadline_at, j.id
     limit p_limit);
  if cardinality(v_ids) < p_limit then
    v_ids := v_ids || array(
      select j.id
        from headway.jobs j
       where j.status = 'waiting' and j.deadline_at is null
         and (v_last.deadline_at < 'infinity' or j.id > v_last.machine)
       order by j.id
       limit p_limit - cardinality(v_ids));
  end if;
  v_next.deadline_at := '-infinity';
  v_next.machine := '00000000-0000-0000-0000-000000000000';
  if cardinality(v_ids) = p_limit then
    select coalesce(j.deadline_at, 'infinity'), j.id
      into v_next.deadline_at, v_next.machine
      from headway.jobs j
     where j.id = v_ids[p_limit];
  end if;
  v_ready := headway.stuck_machines(v_ids);
  insert into headway.arrivals (signaled, jobs)
  select array_agg(r.id), array_agg(r.id) filter (where j.pending or j.step = '$flow')
    from unnest(v_ready) as r (id)
    join headway.jobs j on j.id = r.id
  having count(*) > 0;
  jobs := jobs || v_ready;

  -- keys that have jobs set aside although there is capacity, and no queued job of the same key that would bring them
  -- back
  with recursive aside (key, n) as (
    (select j.limited_by, 1 from headway.jobs j where j.limited_by > v_last.key order by j.limited_by limit 1)
    union all
    select x.limited_by, a.n + 1
      from aside a
      cross join lateral (
        select j.limited_by from headway.jobs j where j.limited_by > a.key order by j.limited_by limit 1) x
     where a.n < p_limit
  )
  select array_agg(a.key) filter (where r.room >= 1 and not r.stands),
         coalesce(max(a.key) filter (where a.n = p_limit), '')
    into keys, v_next.key
    from aside a
    cross join lateral (select j.* from headway.jobs j where j.limited_by = a.key limit 1) first
    cross join lateral (
      select coalesce(headway.capacity(first.id, a.key, v_now), 1) as room,
             exists (select from headway.arrivals o where a.key = any (o.keys))
             or exists (select from headway.buckets b where b.key = a.key and b.wake_at is not null)
             or exists (
                  select
                    from (select s.*
                            from headway.jobs s
                           where s.queue = first.queue and s.status = 'queued' and s.limited_by is null
                           order by s.priority, s.position, s.id
                           limit 1000) s
                   where a.key = any (headway.limit_keys(s))) as stands) r;
  update headway.sweeps s
     set tenant_id = v_next.tenant_id, train = v_next.train, key = v_next.key, deadline_at = v_next.deadline_at,
         machine = v_next.machine
   where (s.tenant_id, s.train, s.key, s.deadline_at, s.machine)
         <> (v_next.tenant_id, v_next.train, v_next.key, v_next.deadline_at, v_next.machine);
  if keys is not null then
    insert into headway.arrivals (keys) values (keys);
  end if;
  if coalesce(cardinality(trains), cardinality(jobs), cardinality(keys)) is not null then
    perform headway.process_arrivals();
    return next;
  end if;
end
$$;

-- Of these jobs, the machines that wait although they have what they wait for, and that no arrival names, and flows that
-- wait for a child that is over or gone; null for none.
create function headway.stuck_machines(p_ids uuid[]) returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select array_agg(j.id)
    from headway.jobs j
   where j.id = any (p_ids)
     and j.status = 'waiting'
     and case
           when j.pending
             then not exists (
                    select
                      from headway.edges e
                      join headway.jobs c on c.id = e.parent_id
                     where e.child_id = j.id and e.state = 'pending' and e.fence = j.joining
                       and (c.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
                            or exists (select from headway.arrivals a where c.id = any (a.ended))))
                  and not exists (select from headway.arrivals a where j.id = any (a.jobs))
           else headway.satisfied(j) and not exists (select from headway.arrivals a where j.id = any (a.signaled))
                or j.step = '$flow'
                   and exists (
                         select
                           from headway.edges e
                           left join headway.jobs c on c.id = e.parent_id
                          where e.child_id = j.id and e.state = 'pending' and e.fence = -1
                            and (c.id is null or c.finished_at is not null)
                            and not exists (select from headway.arrivals a where e.parent_id = any (a.ended)))
                   and not exists (select from headway.arrivals a where j.id = any (a.jobs))
         end
$$;
