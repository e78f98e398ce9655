-- Quotas: how much a tenant may store. None by default. Where one is set, that tenant's calls take turns (and so wait
-- for its own open transactions, but for no other tenant's), so that calls at the same moment cannot exceed it
-- together.

-- The limits of a tenant: its own, or else those of all tenants (*).
create function headway.limits_of(p_tenant uuid) returns headway.limits
language sql stable
as $$
  select l
    from headway.limits l
   where l.scope = 'tenant' and l.name in ('*', p_tenant::text)
   order by l.name desc
   limit 1
$$;

-- Let one call at a time store what these tenants' quotas count, until its transaction ends; gives the tenants, null
-- for none. Locks in order of id, so that two calls never deadlock. Where the caller has no lock_timeout, it waits five
-- seconds (55P03).
create function headway.lock_quotas(p_tenants uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before text := current_setting('lock_timeout');
begin
  if v_before = '0' then
    perform set_config('lock_timeout', '5s', true);
  end if;
  perform pg_advisory_xact_lock(headway.lock_key('quota ' || t.id))
     from (select u.id from unnest(p_tenants) as u (id) order by u.id) t;
  perform set_config('lock_timeout', v_before, true);
  return nullif(p_tenants, '{}');
end
$$;

-- Lock the quotas for jobs of those of these tenants that have one; gives them, null for none. A null id is p_own.
-- Raises HW008 for a suspended tenant, unless the jobs go on with what is under way: children, retries.
create function headway.lock_job_quotas(p_tenants uuid[], p_own uuid, p_kinds text[], p_checkpoints jsonb[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.limits l where l.has_quotas;
  if not found then
    return null;
  end if;
  perform headway.refuse_suspended(coalesce(u.tenant_id, p_own))
     from unnest(p_tenants, p_kinds, p_checkpoints) as u (tenant_id, kind, machine)
    where not headway.continues(u.kind, u.machine);
  return headway.lock_quotas(array(
    select distinct coalesce(u.id, p_own)
      from unnest(p_tenants) as u (id)
     where (headway.limits_of(coalesce(u.id, p_own))).has_quotas));
end
$$;

-- Refuse a call that added this many bytes of payloads, in rows or in artifacts that rows refer to, if more wait now than the
-- tenant's max_bytes. Called after the insert. Raises HW005.
create function headway.check_byte_quota(p_tenant uuid, p_new bigint) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_most bigint := (headway.limits_of(p_tenant)).max_bytes;
  v_found bigint;
begin
  if v_most is null then
    return;
  end if;
  select sum(octet_length(j.payload::text)
             + case when starts_with(j.payload::text, '{"$artifact":"')
                    then coalesce((select a.size
                                     from headway.artifacts a
                                    where a.job_id = j.id and a.fence = 0 and j.payload::text = headway.reference(a.id)), 0)
                    else 0
               end)
    into v_found
    from headway.jobs j
   where j.tenant_id = p_tenant and j.metered and j.status in ('queued', 'scheduled', 'held', 'waiting');
  if v_found > v_most then
    raise exception 'tenant % has % bytes of payloads waiting, and % more would be over its max_bytes of %: nothing was enqueued; let workers catch up, or raise the limit',
      coalesce((select t.slug from headway.tenants t where t.id = p_tenant), p_tenant::text), v_found - p_new, p_new, v_most
      using errcode = 'HW005';
  end if;
end
$$;

-- Refuse a call whose new jobs (p_ids), or the payloads of those that it replaced, give a tenant more than its quotas
-- allow. Called after the insert, without jobs
-- that existed before, so that a call can be repeated. Raises HW005.
create function headway.check_job_quotas(p_tenants uuid[], p_ids uuid[], p_replaced uuid[] default '{}') returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
  v_slug text;
  v_limit headway.limits;
  v_new bigint;
  v_bytes bigint;
  v_found bigint;
  v_of uuid;
begin
  foreach v_tenant in array p_tenants loop
    v_limit := headway.limits_of(v_tenant);
    v_slug := coalesce((select t.slug from headway.tenants t where t.id = v_tenant), v_tenant::text);
    select count(*) filter (where j.id = any (p_ids)), sum(octet_length(j.payload::text))
      into v_new, v_bytes
      from headway.jobs j
     where j.id = any (p_ids || p_replaced) and j.tenant_id = v_tenant;
    continue when v_bytes is null;
    if v_limit.max_pending is not null and v_new > 0 then
      select count(*)
        into v_found
        from (select
                from headway.jobs j
               where j.tenant_id = v_tenant and j.metered and j.status in ('queued', 'scheduled', 'held', 'waiting')
               limit v_limit.max_pending + v_new) w;
      if v_found > v_limit.max_pending then
        raise exception 'tenant % has % jobs waiting, and % more would be over its max_pending of %: nothing was enqueued; let workers catch up, or raise the limit',
          v_slug, v_found - v_new, v_new, v_limit.max_pending
          using errcode = 'HW005';
      end if;
    end if;
    if v_limit.max_bytes is not null then
      perform headway.check_byte_quota(v_tenant, v_bytes);
    end if;
    if v_limit.max_group is not null then
      select g.id
        into v_of
        from (select distinct j.group_id as id
                from headway.jobs j
               where j.id = any (p_ids) and j.tenant_id = v_tenant and j.group_id is not null) g
       where (select count(*)
                from (select from headway.jobs m where m.group_id = g.id limit v_limit.max_group + 1) m) > v_limit.max_group
       order by g.id
       limit 1;
      if found then
        raise exception 'group % would have more members than tenant %''s max_group of %: nothing was enqueued',
          v_of, v_slug, v_limit.max_group
          using errcode = 'HW005';
      end if;
    end if;
    if v_limit.max_fan_out is not null then
      select w.id
        into v_of
        from (select j.parent_id as id, count(*) as many
                from headway.jobs j
               where j.id = any (p_ids) and j.tenant_id = v_tenant and j.parent_id is not null
               group by j.parent_id
              union all
              select p.parent_id,
                     (select count(*)
                        from (select from headway.edges f
                               where f.parent_id = p.parent_id and f.fence = 0
                               limit v_limit.max_fan_out + 1) f)
                from (select distinct e.parent_id
                        from headway.edges e
                       where e.child_id = any (p_ids) and e.tenant_id = v_tenant and e.fence = 0) p) w
       where w.many > v_limit.max_fan_out
       order by w.id
       limit 1;
      if found then
        raise exception 'job % would have more children or followers than tenant %''s max_fan_out of %: nothing was enqueued',
          v_of, v_slug, v_limit.max_fan_out
          using errcode = 'HW005';
      end if;
    end if;
  end loop;
end
$$;

-- Lock the quotas for events of those of these tenants that have one; gives them, null for none. A null id is p_own.
create function headway.lock_event_quotas(p_tenants uuid[], p_own uuid) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.limits l where l.max_events is not null or l.suspended;
  if not found then
    return null;
  end if;
  perform headway.refuse_suspended(coalesce(u.id, p_own)) from unnest(p_tenants) as u (id);
  return headway.lock_quotas(array(
    select distinct coalesce(u.id, p_own)
      from unnest(p_tenants) as u (id)
     where (headway.limits_of(coalesce(u.id, p_own))).max_events is not null));
end
$$;

-- Refuse a call whose new events (p_ids) give a tenant more pending ones than its max_events. Raises HW005.
create function headway.check_event_quotas(p_tenants uuid[], p_ids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
  v_most integer;
  v_new bigint;
  v_found bigint;
begin
  foreach v_tenant in array p_tenants loop
    select count(*) into v_new from headway.events e where e.id = any (p_ids) and e.tenant_id = v_tenant;
    continue when v_new = 0;
    v_most := (headway.limits_of(v_tenant)).max_events;
    select count(*)
      into v_found
      from (select from headway.events e
             where e.tenant_id = v_tenant and e.status = 'pending'
             limit v_most + v_new) w;
    if v_found > v_most then
      raise exception 'tenant % has % events to be handled, and % more would be over its max_events of %: nothing was emitted; let workers catch up, or raise the limit',
        coalesce((select t.slug from headway.tenants t where t.id = v_tenant), v_tenant::text),
        v_found - v_new, v_new, v_most
        using errcode = 'HW005';
    end if;
  end loop;
end
$$;

-- Refuse one more schedule or trigger than a tenant's max_schedules, before it is inserted. Raises HW005.
create function headway.check_schedule_quota(p_tenant uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_most integer := (headway.limits_of(p_tenant)).max_schedules;
  v_found bigint;
begin
  perform headway.refuse_suspended(p_tenant);
  if v_most is null then
    return;
  end if;
  perform headway.lock_quotas(array[p_tenant]);
  select count(*) into v_found from headway.triggers t where t.tenant_id = p_tenant;
  if v_found >= v_most then
    raise exception 'tenant % has % schedules and triggers, and 1 more would be over its max_schedules of %: nothing was made; delete some, or raise the limit',
      coalesce((select t.slug from headway.tenants t where t.id = p_tenant), p_tenant::text), v_found, v_most
      using errcode = 'HW005';
  end if;
end
$$;
