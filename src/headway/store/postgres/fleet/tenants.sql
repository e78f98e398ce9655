-- Tenants: names and ids.

-- The tenants of these names, with their ids; an id is a name, too. With p_create, names that are new become tenants, for a
-- caller that may act for all of them: call it in a transaction of its own, for others who name the same tenant wait for its
-- end. A login that is mapped to one tenant finds only that one. Raises HW004 for a name that is not valid, or was used before.
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
    v_own := (select m.tenant_id
                from headway.tenant_roles m
               where m.role in (to_regrole(quote_ident(session_user)),
                                to_regrole(quote_ident(nullif(current_setting('role'), 'none'))))
               order by m.role = to_regrole(quote_ident(session_user)) desc
               limit 1);
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

-- See that a tenant has its row. The caller may act for it: only one that may act for every tenant gets this far with an id
-- that is new. Waits for nobody who adds the same tenant at the same moment: that transaction adds the row, or the next
-- call does. Raises HW004 where the name is another tenant's.
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
