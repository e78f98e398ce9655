-- Cancel: end jobs before their time.

-- Cancel jobs that are not over: at once, or a running one by asking its worker. A flow that has begun is asked by the
-- signal `$cancel` (flows/children.sql); like any other job it is canceled by a second cancel, or with p_at_once. Gives
-- the status that each known job has now. p_filter says which jobs these are, where somebody named them so: then the audit has one entry for all of a tenant's.
-- Locks the rows in order of id.
create function headway.cancel(p_ids uuid[], p_tenant uuid default null, p_reason text default null, p_actor text default null,
                               p_filter text default null, p_at_once boolean default false)
returns table (id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_ids uuid[];
  v_statuses text[];
  v_open uuid[];
  v_flows boolean;
  v_asked uuid[];
  v_others uuid[];
begin
  select array_agg(l.id), array_agg(l.status),
         array_agg(l.id) filter (where l.status in ('queued', 'scheduled', 'held', 'waiting', 'running')),
         bool_or(l.flow)
    into v_ids, v_statuses, v_open, v_flows
    from (select j.id, j.status, headway.ends_by_itself(j) as flow
            from headway.jobs j
           where j.id = any (p_ids)
             and (v_tenant is null or j.tenant_id = v_tenant)
           order by j.id
             for update) l;
  if v_open is not null then
    if v_flows and not p_at_once then
      v_asked := headway.ask_flows(v_open, array_fill(coalesce(p_reason, 'canceled'), array[cardinality(v_open)]), v_now);
    end if;
    v_others := v_open;
    if v_asked is not null then
      v_others := array(select u.id from unnest(v_open) as u (id) where u.id <> all (v_asked));
    end if;
    -- all at once: a car behind another one of this call is not the locomotive
    perform headway.cancel_now(v_others, array_fill(coalesce(p_reason, 'canceled'), array[cardinality(v_others)]), v_now);
    insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
    select j.tenant_id, j.id, v_now, p_actor, 'cancel', p_reason
      from headway.jobs j
     where j.id = any (v_open)
       and (p_filter is null or cardinality(v_open) = 1)
     order by j.id;
    insert into headway.audit (tenant_id, at, actor, action, detail)
    select j.tenant_id, v_now, p_actor, 'cancel', concat_ws(': ', count(*) || ' jobs', p_filter, p_reason)
      from headway.jobs j
     where j.id = any (v_open)
       and p_filter is not null
       and cardinality(v_open) > 1
     group by j.tenant_id
     order by j.tenant_id;
    perform headway.follow_later(
      array(select u.id from unnest(v_ids, v_statuses) as u (id, status) where u.id = any (v_others) and u.status <> 'running'),
      v_now);
  end if;
  if v_asked is not null then
    return query select j.id, j.status from headway.jobs j where j.id = any (v_asked);
  end if;
  return query
    select u.id, case when u.status in ('queued', 'scheduled', 'held', 'waiting') then 'canceled' else u.status end
      from unnest(v_ids, v_statuses) as u (id, status)
     where v_asked is null or u.id <> all (v_asked);
end
$$;

-- Cancel one unfinished job, or ask its worker to, or a flow that has begun; gives its status now, or `running` for one
-- that was asked. A locomotive's on_canceled may put its train on hold. The caller calls follow_later.
create function headway.cancel_job(p_id uuid, p_reason text, p_now timestamptz) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_status text;
begin
  perform from headway.jobs j where j.id = p_id and headway.ends_by_itself(j);
  if found then
    perform headway.ask_flows(array[p_id], array[p_reason], p_now);
    return 'running';
  end if;
  update headway.jobs j
     set cancel_requested_at = coalesce(j.cancel_requested_at, p_now),
         cancel_reason = case when p_reason = 'canceled' then coalesce(j.cancel_reason, p_reason) else p_reason end
   where j.id = p_id
     and j.status = 'running'
  returning j.status into v_status;
  if found then
    return v_status;
  end if;
  perform headway.hold_trains_of(array[p_id], p_now);
  perform headway.cancel_waiting(p_id, p_reason, p_now);
  return 'canceled';
end
$$;

-- The same for many jobs, whose rows are locked.
create function headway.cancel_jobs(p_ids uuid[], p_reasons text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flows uuid[];
begin
  select array_agg(j.id)
    into v_flows
    from unnest(p_ids) as u (id)
    join headway.jobs j on j.id = u.id
   where headway.ends_by_itself(j);
  if v_flows is null then
    perform headway.cancel_now(p_ids, p_reasons, p_now);
    return;
  end if;
  perform headway.ask_flows(p_ids, p_reasons, p_now);
  perform headway.cancel_now(array_agg(u.id), array_agg(u.reason), p_now)
     from unnest(p_ids, p_reasons) as u (id, reason)
    where u.id <> all (v_flows);
end
$$;

-- The same without asking flows.
create function headway.cancel_now(p_ids uuid[], p_reasons text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids uuid[];
  v_reasons text[];
begin
  update headway.jobs j
     set cancel_requested_at = coalesce(j.cancel_requested_at, p_now),
         cancel_reason = case when u.reason = 'canceled' then coalesce(j.cancel_reason, u.reason) else u.reason end
    from unnest(p_ids, p_reasons) as u (id, reason)
   where j.id = u.id
     and (j.status = 'running') is true;
  select array_agg(j.id), array_agg(u.reason)
    into v_ids, v_reasons
    from unnest(p_ids, p_reasons) as u (id, reason)
    join headway.jobs j on j.id = u.id
   where (j.status <> 'running') is true;
  if v_ids is not null then
    perform headway.hold_trains_of(v_ids, p_now);
    perform headway.cancel_all_waiting(v_ids, v_reasons, p_now);
  end if;
end
$$;

-- Cancel one job that waits, whatever its on_canceled says. If it would enter a taken unique scope by that, it loses
-- its key.
create function headway.cancel_waiting(p_id uuid, p_reason text, p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform headway.offer_keys(p_id);
  begin
    update headway.jobs j
       set status = 'canceled', error = p_reason, finished_at = p_now, limited_by = null, pending = null
     where j.id = p_id;
  exception when unique_violation then
    update headway.jobs j
       set status = 'canceled', error = p_reason, finished_at = p_now, limited_by = null, pending = null,
           unique_scope = headway.without_key(j.unique_scope, 'canceled')
     where j.id = p_id;
  end;
  perform headway.count_canceled(array[p_id], p_now);
end
$$;

-- The same for many jobs, whose rows are locked: one statement for all of them, unless a unique key is taken.
create function headway.cancel_all_waiting(p_ids uuid[], p_reasons text[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.jobs w where w.limited_by is not null limit 1;
  if found then
    perform headway.offer_keys(u.id) from unnest(p_ids) as u (id);
  end if;
  begin
    update headway.jobs j
       set status = 'canceled', error = u.reason, finished_at = p_now, limited_by = null, pending = null
      from unnest(p_ids, p_reasons) as u (id, reason)
     where j.id = u.id;
    perform headway.count_canceled(p_ids, p_now);
  exception when unique_violation then
    perform headway.cancel_waiting(u.id, u.reason, p_now) from unnest(p_ids, p_reasons) as u (id, reason);
  end;
end
$$;
