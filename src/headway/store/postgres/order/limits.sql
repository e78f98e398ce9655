-- Limits: what operators set for queues, kinds and tenants, and how much of it is used.

-- Set the limit of a queue, kind or tenant; with nothing but nulls, remove it. In force for the next claim (see
-- lock_limit). Under those locks it waits only briefly for rows of running jobs (55P03, and nothing is written). Raises
-- HW008.
create function headway.set_limit(
  p_scope text,
  p_name text,
  p_max_running integer default null,
  p_rate_count integer default null,
  p_rate_period_ms bigint default null,
  p_rate_burst integer default null,
  p_max_pending integer default null,
  p_actor text default null,
  p_max_bytes bigint default null,
  p_max_events integer default null,
  p_max_schedules integer default null,
  p_max_group integer default null,
  p_max_fan_out integer default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz := headway.now();
  v_old headway.limits;
begin
  perform pg_advisory_xact_lock(headway.setting_lock(p_scope || ' ' || p_name));
  perform headway.lock_limit(p_scope, p_name);
  select l.* into v_old from headway.limits l where l.scope = p_scope and l.name = p_name;
  perform headway.refuse_suspended(l.name::uuid)
     from headway.limits l
    where l.scope = p_scope and l.name = p_name and l.suspended;
  perform set_config('lock_timeout', '250ms', true);
  if num_nonnulls(p_max_running, p_rate_count, p_max_pending, p_max_bytes, p_max_events, p_max_schedules, p_max_group,
                  p_max_fan_out) = 0
  then
    delete from headway.limits l where l.scope = p_scope and l.name = p_name;
  else
    insert into headway.limits (
      scope, name, max_running, rate_count, rate_period_ms, rate_burst, max_pending, max_bytes, max_events,
      max_schedules, max_group, max_fan_out)
    values (
      p_scope, p_name, p_max_running, p_rate_count, p_rate_period_ms, p_rate_burst, p_max_pending, p_max_bytes,
      p_max_events, p_max_schedules, p_max_group, p_max_fan_out)
    on conflict (scope, name) do update
      set max_running = excluded.max_running, rate_count = excluded.rate_count,
          rate_period_ms = excluded.rate_period_ms, rate_burst = excluded.rate_burst, max_pending = excluded.max_pending,
          max_bytes = excluded.max_bytes, max_events = excluded.max_events, max_schedules = excluded.max_schedules,
          max_group = excluded.max_group, max_fan_out = excluded.max_fan_out;
  end if;
  -- jobs that run already count from now on
  if p_max_running is not null then
    update headway.jobs j
       set limited = true
     where j.status = 'running'
       and j.limited is not true
       and case p_scope
             when 'queue' then j.queue = p_name
             when 'kind' then j.kind = p_name
             else p_name = '*' or j.tenant_id::text = p_name
           end;
  end if;
  if (p_max_pending is not null or p_max_bytes is not null) and p_name <> '*' then
    update headway.jobs j
       set metered = true
     where j.id in (select m.id
                      from headway.jobs m
                     where m.tenant_id::text = p_name
                       and m.status in ('queued', 'scheduled', 'held', 'waiting')
                     -- as many as the limit has to count
                     limit case when p_max_bytes is null then p_max_pending else 100000 end);
  end if;
  -- jobs set aside under the old limit try again
  update headway.jobs j
     set limited_by = null
   where j.limited_by is not null
     and (p_scope = 'kind' and j.limited_by in (headway.kind_key(p_name), headway.rate_key(null, p_name, null))
          or p_scope = 'tenant' and p_name = '*' and j.limited_by like 't:%');
  if p_scope = 'tenant' and p_name <> '*' then
    perform headway.readmit_tenants(array[p_name::uuid]);
  end if;
  update headway.buckets b set wake_at = null where p_scope = 'kind' and b.key = headway.rate_key(null, p_name, null);
  insert into headway.audit (at, actor, action, changes, detail)
  values (v_now, p_actor, 'limit',
          headway.values_changed(
            row_to_json(v_old),
            (select row_to_json(l) from headway.limits l where l.scope = p_scope and l.name = p_name),
            '{"max_running": 0, "rate_count": 0, "rate_period_ms": 0, "rate_burst": 0, "max_pending": 0, "max_bytes": 0, "max_events": 0, "max_schedules": 0, "max_group": 0, "max_fan_out": 0}'),
          p_scope || ' ' || p_name || ': '
          || coalesce(nullif(concat_ws(', ', 'max_running ' || p_max_running,
                                'rate ' || p_rate_count || ' in ' || p_rate_period_ms || ' ms',
                                'burst ' || p_rate_burst, 'max_pending ' || p_max_pending,
                                'max_bytes ' || p_max_bytes, 'max_events ' || p_max_events,
                                'max_schedules ' || p_max_schedules, 'max_group ' || p_max_group,
                                'max_fan_out ' || p_max_fan_out), ''), 'none'));
end
$$;

-- Lock a limit, to change it: its row; then, alone, the lock that claims share, so that the claims under way end first;
-- and the lock of this limit, so that until this transaction ends, claims start only jobs that the limit does not
-- concern.
create function headway.lock_limit(p_scope text, p_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.limits l where l.scope = p_scope and l.name = p_name for update;
  perform pg_advisory_xact_lock(headway.limits_lock());
  perform pg_advisory_xact_lock(headway.limit_lock(p_scope, p_name));
end
$$;

-- Share the locks of the limits of this queue and of all tenants, for a claim; false while somebody changes one of them.
create function headway.share_limits(p_queue text) returns boolean
language sql
as $$
  select pg_catalog.pg_try_advisory_xact_lock_shared(headway.limit_lock('queue', p_queue))
     and pg_catalog.pg_try_advisory_xact_lock_shared(headway.limit_lock('tenant', '*'))
$$;

-- Share the locks of the limits of these jobs' kinds and tenants, for a claim. Gives the kinds and tenants whose limit
-- somebody changes.
create function headway.changing_limits(p_ids uuid[]) returns text[]
language sql
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(array_agg(l.name), '{}')
    from (select distinct l.scope, l.name
            from unnest(p_ids) as u (id)
            join headway.jobs j on j.id = u.id
            cross join lateral (values ('kind', j.kind), ('tenant', j.tenant_id::text)) as l (scope, name)) l
   where not pg_try_advisory_xact_lock_shared(headway.limit_lock(l.scope, l.name))
$$;

-- How many jobs run under a limit's key, and how many are set aside for it (counted up to 10,000): the tenant's, or
-- those of the session's own tenant.
create function headway.usage(p_key text, p_tenant uuid default null, out running bigint, out waiting bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_parts text[] := regexp_match(p_key, '^.:([^|]*)(?:\|(.*))?$');
  v_tenant uuid := headway.acting_tenant(p_tenant, p_reads => true);
begin
  -- raises HW003 for another tenant's key
  perform headway.acting_tenant(case when left(p_key, 1) in ('t', 'p', 'c') then v_parts[1]::uuid end, p_reads => true);
  case left(p_key, 1)
    when 'p' then
      select count(*) into running
        from headway.jobs j
       where j.tenant_id = v_parts[1]::uuid and j.partition = v_parts[2] and j.partition is not null
         and j.status = 'running';
    when 'c' then
      select count(*) into running
        from headway.jobs j
       where j.tenant_id = v_parts[1]::uuid and j.kind = split_part(v_parts[2], '|', 1)
         and j.concurrency_key = substr(v_parts[2], length(split_part(v_parts[2], '|', 1)) + 2)
         and j.concurrency_key is not null and j.status = 'running';
    when 'k' then
      select count(*) into running
        from headway.jobs j
       where j.kind = substr(p_key, 3) and j.limited and j.status = 'running'
         and (v_tenant is null or j.tenant_id = v_tenant);
    when 't' then
      select count(*) into running
        from headway.jobs j where j.tenant_id = substr(p_key, 3)::uuid and j.limited and j.status = 'running';
    when 'q' then
      select count(*) into running
        from headway.jobs j
       where j.queue = substr(p_key, 3) and j.status = 'running' and (v_tenant is null or j.tenant_id = v_tenant);
    else
      running := 0;
  end case;
  select count(*) into waiting
    from (select
            from headway.jobs j
           where j.limited_by = p_key and (v_tenant is null or j.tenant_id = v_tenant)
           limit 10000) w;
end
$$;
