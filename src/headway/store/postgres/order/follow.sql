-- What a job's end sets free. An execution that ends in this transaction has its row locked, so what follows is done
-- here and now. Anybody else's transaction may be long, or see an old snapshot: it leaves arrivals, which the next
-- claim handles.

-- Do what follows from the end of executions, or from their jobs leaving `running`: put trains on hold or move them on,
-- stop groups, admit jobs that waited for a limit. p_left are partition keys just given up. The caller must call
-- tell_dependents and announce.
create function headway.follow(p_ids uuid[], p_now timestamptz, p_left text[] default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenants uuid[];
  v_trains text[];
  v_groups uuid[];
  v_keys text[];
begin
  -- a car that ran was the locomotive
  insert into headway.holds (tenant_id, train, since, job_id, reason)
  select j.tenant_id, j.train, p_now, j.id,
         'job ' || j.id || case j.status when 'dead' then ' is dead' when 'failed' then ' has failed' else ' was canceled' end
    from headway.jobs j
   where j.id = any (p_ids)
     and j.train is not null
     and (j.on_dead = 'hold' and (j.status = 'dead' or j.status = 'failed' and not headway.is_retried(j.id))
          or j.status = 'canceled' and j.on_canceled = 'hold')
  on conflict do nothing;

  select e.tenants, e.trains, e.groups into v_tenants, v_trains, v_groups from headway.trains_and_groups_of(p_ids) e;
  select p_left || array_agg(k.key)
    into v_keys
    from headway.jobs j
    cross join lateral unnest(headway.taken_keys(j)) as k (key)
   where j.id = any (p_ids)
     and (coalesce(j.partition, j.concurrency_key) is not null or j.limited);
  if v_groups is not null then
    perform headway.stop_groups_later(v_groups);
  end if;
  if v_trains is not null then
    perform headway.release_next_cars(v_tenants, v_trains, p_now);
  end if;
  if v_keys is not null then
    perform headway.admit(v_keys);
  end if;
end
$$;

-- Leave arrivals for what follows from the end of jobs that were not running, and announce their ends.
create function headway.follow_later(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenants uuid[];
  v_trains text[];
  v_groups uuid[];
begin
  select e.tenants, e.trains, e.groups into v_tenants, v_trains, v_groups from headway.trains_and_groups_of(p_ids) e;
  if v_groups is not null then
    perform headway.stop_groups_later(v_groups);
  end if;
  if v_trains is not null then
    insert into headway.arrivals (tenant_id, trains)
    select w.tenant_id, array_agg(distinct w.train)
      from unnest(v_tenants, v_trains) as w (tenant_id, train)
     group by w.tenant_id;
  end if;
  perform headway.tell_dependents(p_ids);
  perform headway.announce(p_ids, p_now);
  -- a machine that runs has no unfinished children: only one that ends while it waits leaves some. A flow may
  insert into headway.arrivals (tenant_id, orphaned)
  select j.tenant_id, array_agg(j.id)
    from headway.jobs j
   where j.id = any (p_ids)
     and (j.joining is not null or j.step = '$flow')
     and j.finished_at is not null
   group by j.tenant_id;
end
$$;

-- Of these jobs, those that are over: their trains, and their groups that a failure stops. An at_most_once job that
-- failed is not over where another job retries it.
create function headway.trains_and_groups_of(p_ids uuid[], out tenants uuid[], out trains text[], out groups uuid[])
language plpgsql stable -- which keeps its plan
set search_path = pg_catalog, pg_temp
as $$
begin
  select array_agg(j.tenant_id order by j.tenant_id, j.train) filter (where j.train is not null),
         array_agg(j.train order by j.tenant_id, j.train) filter (where j.train is not null),
         array_agg(distinct g.id) filter (where g.id is not null and j.status <> 'succeeded')
    into tenants, trains, groups
    from headway.jobs j
    left join headway.groups g on g.id = j.group_id and g.on_failure = 'stop' and g.stopped_at is null
   where j.id = any (p_ids)
     and (j.status in ('succeeded', 'dead', 'canceled') or j.status = 'failed' and not headway.is_retried(j.id));
end
$$;

-- Leave arrivals for those that wait for these jobs. One probe where no job waits for another.
create function headway.tell_dependents(p_ids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.edges limit 1;
  if not found then
    return;
  end if;
  insert into headway.arrivals (tenant_id, ended)
  select j.tenant_id, array_agg(distinct e.parent_id)
    from headway.edges e
    join headway.jobs j on j.id = e.parent_id
   where e.parent_id = any (p_ids)
     and (e.state = 'pending') is true
     and (j.finished_at is not null) is true
   group by j.tenant_id;
end
$$;
