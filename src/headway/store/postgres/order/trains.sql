-- Trains. A train has no row and no lock: its locomotive's row is the lock, and the index jobs_locomotive allows only
-- one. What cannot be decided before somebody else's commit is left as an arrival, which the next claim processes. True
-- in every snapshot: a train with held cars but no locomotive and no hold has an arrival, or its first car is pending.

-- Make the next car of each train its locomotive, where one has just ended. Called with the old locomotive's row
-- locked, in a statement of its own, which sees every car committed before. A car that somebody has locked, or that may
-- meet a taken unique key, is left as an arrival. Nothing else can be refused, for the seat is this transaction's until
-- it commits, so this needs no exception block: a row that is locked and updated in one subtransaction and claimed in
-- another gets a multixact, and its dead versions stay in the indexes until the next vacuum.
create function headway.release_next_cars(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  with head as materialized (
    select w.tenant_id, w.train, h.id, h.enters
      from unnest(p_tenants, p_trains) as w (tenant_id, train)
      cross join lateral (
        -- find the first car, lock it later: skip locked in here would let a later car overtake
        select j.id, j.pending, j.unique_key is not null and not 'held' = any (j.unique_scope) as enters
          from headway.jobs j
         where j.tenant_id = w.tenant_id and j.train = w.train and j.train is not null and j.status = 'held'
         order by j.position, j.id
         limit 1
      ) h
     where h.pending is not true
       and (select 1 from headway.holds o where o.tenant_id = w.tenant_id and o.train = w.train limit 1) is null
  ), locked as materialized (
    -- lateral: forces a lookup by id, whatever the statistics say
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

-- Make the first car of each of these trains its locomotive, where there is neither a locomotive nor a hold. Where
-- somebody has the car locked, or a locomotive is there, leave an arrival.
create function headway.release_first_cars(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
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

-- The same, train by train where it fails for all of them. A car that would enter a unique scope now taken is canceled;
-- one that is in line for the key waits on.
create function headway.release_first_cars_each(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_constraint text;
  v_head uuid;
begin
  perform headway.release_first_cars(p_tenants, p_trains, p_now);
exception when others then
  for i in 1 .. cardinality(p_trains) loop
    begin
      perform headway.release_first_cars(p_tenants[i:i], p_trains[i:i], p_now);
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
          perform from headway.jobs j where j.id = v_head for update skip locked;
          if found and not headway.follow_again(v_head) then
            perform headway.supersede(v_head, p_now);
            perform headway.follow_later(array[v_head], p_now);
          end if;
        end if;
        insert into headway.arrivals (tenant_id, trains) values (p_tenants[i], p_trains[i:i]);
      when others then
        perform headway.warn_of(sqlstate, sqlerrm);
        insert into headway.arrivals (tenant_id, trains) values (p_tenants[i], p_trains[i:i]);
    end;
  end loop;
end
$$;

-- Which jobs of a call can be their train's locomotive at once: the first car of the call, if the train has no
-- unfinished car and no hold that this snapshot shows.
create function headway.seats(p_tenants uuid[], p_own uuid, p_trains text[], p_afters text[]) returns boolean[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  -- holds are rare: one probe instead of one for each train
  v_holds boolean := (select 1 from headway.holds limit 1) is not null;
begin
  return array(
    select coalesce(
             c.train is not null and c.first and c.after is null
             and (select 1
                    from headway.jobs h
                   where h.tenant_id = c.tenant_id and h.train = c.train and h.train is not null and h.status = 'held'
                   limit 1) is null
             and (select 1
                    from headway.jobs a
                   where a.tenant_id = c.tenant_id and a.train = c.train and a.train is not null
                     and a.status in ('queued', 'running', 'scheduled', 'waiting')
                   limit 1) is null
             and (not v_holds
                  or (select 1 from headway.holds o where o.tenant_id = c.tenant_id and o.train = c.train limit 1) is null),
             false)
      from (select coalesce(u.tenant_id, p_own) as tenant_id, u.train, u.after, u.ordinal,
                   row_number() over (partition by coalesce(u.tenant_id, p_own), u.train order by u.ordinal) = 1 as first
              from unnest(p_trains, p_tenants, p_afters) with ordinality as u (train, tenant_id, after, ordinal)) c
     order by c.ordinal);
end
$$;

-- Whether a train has no unfinished car and no hold that this snapshot shows.
create function headway.seat_is_free(p_tenant uuid, p_train text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_tenant uuid := coalesce(p_tenant, 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
begin
  return (select 1
            from headway.jobs h
           where h.tenant_id = v_tenant and h.train = p_train and h.train is not null and h.status = 'held'
           limit 1) is null
     and (select 1
            from headway.jobs a
           where a.tenant_id = v_tenant and a.train = p_train and a.train is not null
             and a.status in ('queued', 'running', 'scheduled', 'waiting')
           limit 1) is null
     and (select 1 from headway.holds o where o.tenant_id = v_tenant and o.train = p_train limit 1) is null;
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
  v_tenant uuid := coalesce(headway.acting_tenant(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
begin
  insert into headway.holds (tenant_id, train, since, reason, actor)
  values (v_tenant, p_train, v_now, p_reason, p_actor)
  on conflict do nothing;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_tenant, v_now, p_actor, 'hold train', p_train);
end
$$;

-- End a train's hold, so that its next car may start; false if it was not on hold.
create function headway.resume_train(p_train text, p_tenant uuid default null, p_actor text default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := coalesce(headway.acting_tenant(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
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

-- Take a car out of its train: one that waits is canceled, and the train moves on whatever its on_canceled says; for
-- the finished car that put its train on hold, the hold ends. Gives the job's status afterwards, or null if there is no
-- such job. Raises HW003.
create function headway.skip(p_id uuid, p_tenant uuid default null, p_actor text default null) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
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
    perform headway.cancel_waiting(p_id, 'skipped', v_now);
    v_job.status := 'canceled';
    perform headway.follow_later(array[p_id], v_now);
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

-- Cancel every car of a train that is not running, and end its hold; gives their ids. Many are canceled in pieces:
-- until all are, the train is on hold, and claims go on with it.
create function headway.clear_train(p_train text, p_tenant uuid default null, p_actor text default null)
returns setof uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := coalesce(headway.acting_tenant(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
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

-- Cancel the next piece of a train that is being cleared; end its hold when no car is left.
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
    perform headway.cancel_all_waiting(v_ids, array_fill('cleared'::text, array[cardinality(v_ids)]), p_now);
    perform headway.follow_later(v_ids, p_now);
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
  perform headway.note_rest();
end
$$;
