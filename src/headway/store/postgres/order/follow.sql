-- What a job's end sets free.

-- What follows from the end of these jobs, or from their leaving `running`: holds, the next cars, what waits for their
-- keys, who waits for them, the stop of a group, and the event of their end. A settle does it here and now, and tells and
-- announces by itself. An operator's transaction may be long, or see an old snapshot: it leaves arrivals. p_left are keys
-- that were left by jobs that have others now.
create function headway.follow(p_ids uuid[], p_now timestamptz, p_settling boolean, p_left text[] default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenants uuid[];
  v_trains text[];
  v_keys text[];
  v_groups uuid[];
begin
  if p_settling then
    -- who ran was the locomotive
    insert into headway.holds (tenant_id, train, since, job_id, reason)
    select j.tenant_id, j.train, p_now, j.id,
           'job ' || j.id || case j.status when 'dead' then ' is dead' when 'failed' then ' has failed' else ' was canceled' end
      from headway.jobs j
     where j.id = any (p_ids)
       and j.train is not null
       and (j.on_dead = 'hold' and (j.status = 'dead' or j.status = 'failed' and not headway.is_retried(j.id))
            or j.status = 'canceled' and j.on_canceled = 'hold')
    on conflict do nothing;
  end if;

  select array_agg(j.tenant_id order by j.tenant_id, j.train) filter (where j.train is not null and o.over),
         array_agg(j.train order by j.tenant_id, j.train) filter (where j.train is not null and o.over),
         array_agg(distinct g.id) filter (where g.id is not null and o.over and j.status <> 'succeeded')
    into v_tenants, v_trains, v_groups
    from headway.jobs j
    -- an at_most_once job that failed has one that retries it, in its place
    cross join lateral (select j.status in ('succeeded', 'dead', 'canceled')
                               or j.status = 'failed' and not headway.is_retried(j.id) as over) o
    left join headway.groups g on g.id = j.group_id and g.on_failure = 'stop' and g.stopped_at is null
   where j.id = any (p_ids);

  if p_settling then
    select array_agg(k.key)
      into v_keys
      from headway.jobs j
      cross join lateral unnest(headway.taken_keys(j)) as k (key)
     where j.id = any (p_ids)
       and (coalesce(j.partition, j.concurrency_key) is not null or j.limited);
    v_keys := p_left || v_keys;
  end if;
  if v_groups is not null then
    insert into headway.arrivals (tenant_id, groups)
    select g.tenant_id, array_agg(g.id) from headway.groups g where g.id = any (v_groups) group by g.tenant_id;
  end if;
  if v_trains is not null and p_settling then
    perform headway.advance(v_tenants, v_trains, p_now);
  elsif v_trains is not null then
    insert into headway.arrivals (tenant_id, trains)
    select w.tenant_id, array_agg(distinct w.train)
      from unnest(v_tenants, v_trains) as w (tenant_id, train)
     group by w.tenant_id;
  end if;
  if v_keys is not null then
    perform headway.let_in(v_keys);
  end if;
  if not p_settling then
    perform headway.tell(p_ids);
    perform headway.announce(p_ids, p_now);
    -- a machine that runs has no unfinished children: only one that ends while it waits leaves some
    insert into headway.arrivals (tenant_id, orphaned)
    select j.tenant_id, array_agg(j.id)
      from headway.jobs j
     where j.id = any (p_ids)
       and j.joining is not null
       and j.finished_at is not null
     group by j.tenant_id;
  end if;
end
$$;

-- Leave word for those that wait for these jobs, as far as there are any. One probe where nobody waits for anything.
create function headway.tell(p_ids uuid[]) returns void
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
