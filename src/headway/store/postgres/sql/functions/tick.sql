-- End the executions of workers that are gone: their lease is over, they are not registered, or p_gone names them.
-- Charges a loss; waits with wide jitter, which parts a job that kills its workers from the neighbours it took along.
-- Skips rows that a settle holds. Removes those workers once nothing runs under them.
create function headway.reap(p_gone uuid[], p_limit integer)
returns table (job_id uuid, fence integer, kind text, worker_id uuid, next text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_dead uuid[];
begin
  -- a skip scan over the workers that run something, not over what they run
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
          or not exists (select from headway.workers w where w.id = b.id and w.lease_expires_at > v_now));

  if v_dead is not null then
    return query
      with lost as materialized (
        select j.id, j.fence, j.kind, j.worker_id, j.delivery, j.max_attempts, j.max_losses, j.tries,
               j.cancel_requested_at,
               j.losses + 1 as losses,
               least(j.backoff_base_ms * 2 ^ least(j.losses, 40), j.backoff_cap_ms) * random() * 2 as delay_ms,
               'lost with its worker ' || coalesce(w.hostname || ':' || w.pid, j.worker_id::text) as error
          from headway.jobs j
          left join headway.workers w on w.id = j.worker_id
         where j.worker_id = any (v_dead)
           and j.status = 'running'
         order by j.id
         limit p_limit
           for update of j skip locked
      ), judged as (
        select l.*,
               case
                 when l.cancel_requested_at is not null then 'canceled'
                 when l.losses >= l.max_losses then 'dead'
                 when l.delivery = 'at_most_once' and l.tries + l.losses >= l.max_attempts then 'dead'
                 when l.delivery = 'at_most_once' then 'failed'
                 else 'scheduled'
               end as verdict
          from lost l
      ), batch as (
        select array_agg(g.id order by g.id) as ids,
               array_agg(g.fence order by g.id) as fences,
               array_agg('lost'::text order by g.id) as statuses,
               array_agg(g.verdict order by g.id) as tos,
               array_agg(1 order by g.id) as losses,
               array_agg(greatest(g.delay_ms, 1)::bigint order by g.id) as delays,
               array_agg(case when g.verdict = 'dead'
                              then g.error || ', ' || g.losses || ' times now: it may be what kills them'
                              else g.error end order by g.id) as errors
          from judged g
      )
      select e.id, e.fence, g.kind, g.worker_id, e.next
        from batch b
        cross join lateral headway.end_attempts(
          b.ids, b.fences, b.statuses, b.tos, null, b.losses, b.delays, null, b.errors, null, null, null) e
        join judged g on g.id = e.id
       where b.ids is not null;
  end if;

  delete from headway.workers w
   where (w.lease_expires_at <= v_now or w.id = any (p_gone))
     and not exists (select from headway.jobs j where j.worker_id = w.id and j.status = 'running');
end
$$;

-- Queue the scheduled jobs that are due, in order of their time, and end what expired. Finding nothing, it writes
-- nothing. Skips rows that others hold.
create function headway.promote(p_limit integer)
returns table (queued integer, expired integer, next_due_ms bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
-- a user's open transaction may hold a unique key that a job needs here: the others do not wait for it
set lock_timeout = '250ms'
as $$
declare
  v_now timestamptz := headway.now();
  v_ids uuid[];
  v_places bigint[];
  v_late uuid;
  v_over uuid[];
begin
  perform headway.couple();
  perform headway.refill(v_now);
  queued := 0;
  expired := 0;
  for v_late in
    select j.id
      from headway.jobs j
     where j.expires_at <= v_now
       and j.expires_at is not null
       and j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
       and (j.status <> 'running' or j.cancel_requested_at is null)
     order by j.expires_at
     limit p_limit
       for update skip locked
  loop
    if headway.end_early(v_late, 'expired', v_now) = 'canceled' then
      v_over := v_over || v_late;
    end if;
    expired := expired + 1;
  end loop;

  select array_agg(d.id), array_agg(d.place)
    into v_ids, v_places
    from (
      select o.id, coalesce(o.position, nextval('headway.position')) as place
        from (
          select j.id, j.position
            from headway.jobs j
           where j.status = 'scheduled'
             and j.scheduled_for <= v_now
           order by j.scheduled_for, j.id
           limit p_limit
             for update skip locked
        ) o
    ) d;
  if v_ids is not null then
    begin
      update headway.jobs j
         set status = 'queued', queued_at = v_now, position = u.place
        from unnest(v_ids, v_places) as u (id, place)
       where j.id = u.id;
      queued := cardinality(v_ids);
    exception when unique_violation or lock_not_available then
      for i in 1 .. cardinality(v_ids) loop
        begin
          update headway.jobs j
             set status = 'queued', queued_at = v_now, position = v_places[i]
           where j.id = v_ids[i];
          queued := queued + 1;
        exception
          when unique_violation then
            v_over := v_over || headway.supersede(v_ids[i], v_now);
          when lock_not_available then
            null; -- whether the key is taken is not known yet: the next round asks again
        end;
      end loop;
    end;
  end if;

  if v_over is not null then
    perform headway.follow(v_over, v_now, false);
  end if;

  select greatest(0, extract(epoch from min(t.at) - v_now) * 1000)::bigint
    into next_due_ms
    from ((select j.scheduled_for
             from headway.jobs j
            where j.status = 'scheduled'
            order by j.scheduled_for, j.id
            limit 1)
          union all
          (select b.wake_at from headway.buckets b where b.wake_at is not null order by b.wake_at limit 1)) as t (at)
  having count(*) > 0;
  return next;
end
$$;

-- Let in what waits for a rate that has tokens again, and forget buckets that are full.
create function headway.refill(p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bucket headway.buckets;
  v_first headway.jobs;
  v_demand record;
  v_room double precision;
begin
  for v_bucket in
    select b.*
      from headway.buckets b
     where b.wake_at <= p_now
     order by b.wake_at
     limit 100
       for update skip locked
  loop
    select j.* into v_first from headway.jobs j where j.limited_by = v_bucket.key limit 1;
    if not found then
      update headway.buckets b set wake_at = null where b.key = v_bucket.key;
      continue;
    end if;
    select d.* into v_demand from headway.demands(array[v_first.id]) d where d.key = v_bucket.key;
    if not found then
      -- the rate is gone
      update headway.jobs j set limited_by = null where j.limited_by = v_bucket.key;
      update headway.buckets b set wake_at = null where b.key = v_bucket.key;
      continue;
    end if;
    v_room := headway.room(v_first.id, v_bucket.key, p_now);
    if v_room >= 1 then
      perform headway.let_in(array_fill(v_bucket.key, array[floor(v_room)::integer]));
    end if;
    perform from headway.jobs j where j.limited_by = v_bucket.key limit 1;
    update headway.buckets b
       set wake_at = case when found
                          then p_now + greatest(1 - (v_room - floor(v_room)), 0.001)
                                       * v_demand.rate_period_ms * interval '1 millisecond' / v_demand.rate_count
                     end
     where b.key = v_bucket.key;
  end loop;
end
$$;

-- Delete up to p_limit jobs that ended in p_status longer ago, oldest first, with their attempts.
create function headway.prune(p_status text, p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_before timestamptz := headway.now() - p_older_than_ms * interval '1 millisecond';
  v_count integer;
  v_ids uuid[];
  v_joined uuid[];
  v_groups uuid[];
begin
  with old as materialized (
    select j.id, j.group_id, exists (select from headway.edges e where e.parent_id = j.id)
                             or exists (select from headway.edges e where e.child_id = j.id) as joined
      from headway.jobs j
     where j.status = p_status
       and j.finished_at < v_before
       and j.finished_at is not null
     order by j.finished_at
     limit p_limit
       for update skip locked
  ), history as (
    delete from headway.attempts a
     using old o
     where a.job_id = o.id
  ), gone as (
    delete from headway.jobs j
     using old o
     where j.id = o.id
  )
  select count(*), array_agg(o.id), array_agg(o.id) filter (where o.joined),
         array_agg(distinct o.group_id) filter (where o.group_id is not null)
    into v_count, v_ids, v_joined, v_groups
    from old o;
  if v_joined is not null then
    -- who still waits learns now how it ended
    with told as (
      update headway.edges e
         set state = case p_status when 'succeeded' then 'done' else 'failed' end
       where e.parent_id = any (v_joined)
         and e.state = 'pending'
      returning e.child_id
    )
    insert into headway.arrivals (jobs)
    select array_agg(distinct t.child_id) from told t having count(*) > 0;
    delete from headway.edges e where e.child_id = any (v_joined);
    delete from headway.edges e where e.parent_id = any (v_joined) and e.state = 'done';
  end if;
  perform from headway.groups limit 1;
  if found then
    delete from headway.groups g
     where (g.id = any (v_groups) or g.callback_id = any (v_ids))
       and not exists (select from headway.jobs j where j.group_id = g.id)
       and not exists (select from headway.jobs j where j.id = g.callback_id);
  end if;
  return v_count;
end
$$;

-- Repair what an outside hand broke, and name it: trains with waiting cars that nothing will move, held jobs whose
-- `after` are over or gone, keys that have room. Looks at up to p_limit of each, going on where the last one stopped.
create function headway.sweep(p_limit integer)
returns table (trains text[], jobs uuid[], keys text[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenants uuid[];
  v_last headway.sweeps;
  v_next headway.sweeps;
  v_count bigint;
begin
  perform headway.couple();
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
         (array_agg(t.tenant_id order by t.n desc))[1], (array_agg(t.train order by t.n desc))[1], count(*)
    into v_tenants, trains, v_next.tenant_id, v_next.train, v_count
    from train t
    cross join lateral (
      select j.pending
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
    -- the end: from the beginning the next time
    v_next.tenant_id := '00000000-0000-0000-0000-000000000000';
    v_next.train := '';
  end if;
  if trains is not null then
    insert into headway.arrivals (tenant_id, trains)
    select w.tenant_id, array_agg(w.train) from unnest(v_tenants, trains) as w (tenant_id, train) group by w.tenant_id;
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
                    where e.child_id = j.id and e.state = 'pending'
                      and (p.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
                           or exists (select from headway.arrivals a where p.id = any (a.ended))))
           limit p_limit) h;
  if jobs is not null then
    insert into headway.arrivals (jobs) values (jobs);
  end if;

  -- keys that have jobs aside although there is room, and nothing queued that stands for them
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
      select coalesce(headway.room(first.id, a.key, v_now), 1) as room,
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
     set tenant_id = v_next.tenant_id, train = v_next.train, key = v_next.key
   where (s.tenant_id, s.train, s.key) <> (v_next.tenant_id, v_next.train, v_next.key);
  if keys is not null then
    insert into headway.arrivals (keys) values (keys);
  end if;
  if coalesce(cardinality(trains), cardinality(jobs), cardinality(keys)) is not null then
    perform headway.couple();
    return next;
  end if;
end
$$;
