-- The next car of a train: released when its locomotive ends, unless that puts the train on hold. A train has no row and
-- no lock: its locomotive's row is the lock, and the index jobs_locomotive allows only one. What cannot be decided before
-- somebody else's commit is left as an arrival, which the next claim processes. True in every snapshot: a train with held
-- cars but no locomotive and no hold has an arrival, or its first car is pending.

-- Make the next car of each train its locomotive, where one has just ended. Called with the old locomotive's row
-- locked, in a statement of its own, which sees every car committed before. A car that somebody has locked, or that may
-- meet a taken unique key, is left as an arrival. Nothing else can be refused: the train is this transaction's until
-- it commits, so this needs no exception block: a row that is locked and updated in one subtransaction and claimed in
-- another gets a multixact, and its dead versions stay in the indexes until the next vacuum.
create function headway.release_next_cars(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_parked uuid[];
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
       set status = headway.released_to(j, p_now),
           queued_at = case headway.released_to(j, p_now) when 'queued' then p_now else j.queued_at end,
           pending = case when headway.released_to(j, p_now) = 'waiting' and j.joining is not null then true end
      from locked l
     where j.id = l.id
    returning j.id, j.status
  ), left_over as (
    insert into headway.arrivals (tenant_id, trains)
    select h.tenant_id, array_agg(h.train)
      from head h
     where h.id not in (select g.id from gone g)
     group by h.tenant_id
  )
  select array_agg(g.id) into v_parked from gone g where g.status = 'waiting';
  if v_parked is not null then
    perform headway.wait_again(v_parked);
  end if;
end
$$;

-- Make the first car of each of these trains its locomotive, where there is neither a locomotive nor a hold. Where
-- somebody has the car locked, or a locomotive is there, leave an arrival.
create function headway.release_first_cars(p_tenants uuid[], p_trains text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_parked uuid[];
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
       set status = headway.released_to(j, p_now),
           queued_at = case headway.released_to(j, p_now) when 'queued' then p_now else j.queued_at end,
           pending = case when headway.released_to(j, p_now) = 'waiting' and j.joining is not null then true end
      from locked l
     where j.id = l.id
    returning j.id, j.status
  ), left_over as (
    insert into headway.arrivals (tenant_id, trains)
    select t.tenant_id, array_agg(t.train)
      from train t
     where t.id not in (select g.id from gone g)
     group by t.tenant_id
  )
  select array_agg(g.id) into v_parked from gone g where g.status = 'waiting';
  if v_parked is not null then
    perform headway.wait_again(v_parked);
  end if;
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

-- Put the trains on hold whose locomotives are among these jobs, which are about to be canceled, if their on_canceled
-- says so. A held car is as good as the locomotive if only its arrival has not been processed.
create function headway.hold_trains_of(p_ids uuid[], p_now timestamptz) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.holds (tenant_id, train, since, job_id, reason)
  select j.tenant_id, j.train, p_now, j.id, 'job ' || j.id || ' was canceled'
    from headway.jobs j
   where j.id = any (p_ids)
     and j.train is not null
     and j.on_canceled = 'hold'
     and (j.status <> 'held'
          or j.pending is not true
             and not exists (select
                               from headway.jobs a
                              where a.tenant_id = j.tenant_id and a.train = j.train and a.train is not null
                                and a.status in ('queued', 'running', 'scheduled', 'waiting'))
             and j.id = (select h.id
                           from headway.jobs h
                          where h.tenant_id = j.tenant_id and h.train = j.train and h.train is not null
                            and h.status = 'held'
                          order by h.position, h.id
                          limit 1))
  on conflict do nothing
$$;

-- Which jobs of a call can be their train's locomotive at once: the first car of the call, if the train has no
-- unfinished car and no hold that this snapshot shows.
create function headway.leads(p_tenants uuid[], p_own uuid, p_trains text[], p_afters text[]) returns boolean[]
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
create function headway.train_is_free(p_tenant uuid, p_train text) returns boolean
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
