-- Trains: operators hold, resume and clear them and skip cars, all audited.

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
    -- a locomotive that is a flow ends by itself
    perform headway.ask_flows(v_ids, array_fill('cleared'::text, array[cardinality(v_ids)]), p_now);
    v_ids := array(
      select j.id from unnest(v_ids) as u (id) join headway.jobs j on j.id = u.id where not headway.ends_by_itself(j));
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
