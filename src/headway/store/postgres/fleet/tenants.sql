-- Tenants: names and ids.

-- The tenants of these names, with their ids; an id counts as a name, too. With p_create, a trusted caller makes
-- tenants of new names; call it in a transaction of its own: others who name the same tenant wait until it ends. A
-- session that has a tenant, and is not trusted, finds only that one. Raises HW004 for a name that is not valid, or that a tenant
-- had before.
create function headway.tenants_named(p_names text[], p_create boolean default false)
returns table (name text, id uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_own uuid;
begin
  if p_create and headway.trusted() then
    insert into headway.tenants (id, slug, created_at)
    select coalesce(u.id, gen_random_uuid()), case when u.id is null then u.name end, headway.now()
      from (select distinct n.name, headway.as_id(n.name) as id from unnest(p_names) as n (name)) u
     where not exists (select from headway.tenants t where t.slug = u.name)
       and not exists (select from headway.tenants t where t.id = u.id)
     order by u.name
    on conflict do nothing;
  elsif not headway.trusted() then
    v_own := headway.tenant();
  end if;
  return query
    select u.name, coalesce(s.id, i.id)
      from unnest(p_names) as u (name)
      left join headway.tenants s on s.slug = u.name
      left join headway.tenants i on i.id = headway.as_id(u.name)
     where coalesce(s.id, i.id) = coalesce(v_own, s.id, i.id);
exception when check_violation then
  raise exception 'a tenant''s name is not valid: use up to 63 lower-case letters, digits, ''.'', ''_'' and ''-'', beginning with a letter or digit, and nothing that is written like an id'
    using errcode = 'HW004';
end
$$;

-- Make sure that a tenant has a row. The caller may act for it: with a new id, only a trusted caller gets this far.
-- Does not wait where another transaction is adding the same tenant: that one adds the row, or the next call does.
-- Raises HW004 where the name is another tenant's.
create function headway.name_tenant(p_tenant uuid, p_slug text, p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from headway.tenants t where t.id = p_tenant) then
    return;
  end if;
  if not pg_try_advisory_xact_lock(headway.lock_key('tenant ' || p_tenant)) then
    return;
  end if;
  insert into headway.tenants (id, slug, created_at)
  values (p_tenant, nullif(p_slug, p_tenant::text), p_now)
  on conflict do nothing;
  if not found and exists (select from headway.tenants t where t.slug = p_slug and t.id <> p_tenant) then
    raise exception 'tenant name "%" is another tenant''s: nothing was written', p_slug using errcode = 'HW004';
  end if;
end
$$;

-- Up to p_limit tenants that have arrivals, due schedules or pending events. Each is found by one probe, from a random
-- start, so that no tenant always comes first; none of p_without. Probes 10,000 tenants at most, which bounds the time where many have
-- nothing due.
create function headway.tenants_in_turn(
  p_with text, p_limit integer, p_now timestamptz, p_without uuid[] default '{}'
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_first uuid := gen_random_uuid();
  v_last uuid := v_first;
  v_tenant uuid;
  v_has_work boolean;
  v_wrapped boolean := false;
  v_tenants uuid[] := '{}';
begin
  for i in 1 .. 10000 loop
    case p_with
      when 'arrivals' then
        select a.tenant_id, true
          into v_tenant, v_has_work
          from headway.arrivals a
         where a.tenant_id > v_last
         order by a.tenant_id
         limit 1;
      when 'schedules' then
        select t.tenant_id, t.next_fire_at <= p_now
          into v_tenant, v_has_work
          from headway.triggers t
         where t.enabled and t.type = 'schedule' and t.next_fire_at is not null and t.tenant_id > v_last
         order by t.tenant_id, t.next_fire_at
         limit 1;
      when 'events' then
        select e.tenant_id, true
          into v_tenant, v_has_work
          from headway.events e
         where e.status = 'pending' and e.tenant_id > v_last
         order by e.tenant_id
         limit 1;
    end case;
    if v_tenant is null or v_wrapped and v_tenant > v_first then
      exit when v_wrapped;
      v_wrapped := true;
      v_last := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    if v_has_work and v_tenant <> all (p_without) then
      v_tenants := v_tenants || v_tenant;
      exit when cardinality(v_tenants) >= p_limit;
    end if;
    v_last := v_tenant;
  end loop;
  return v_tenants;
end
$$;
