-- Callers: who may act for which tenant.

-- The name of a role of this database: headway_worker_ or headway_app_ with the database's name, or, where that is over
-- 40 bytes (names have 63), its hash.
create function headway.role_name(p_part text) returns name
language sql stable
as $$
  select ('headway_' || p_part || '_'
          || case
               when pg_catalog.octet_length(pg_catalog.current_database()) > 40 then pg_catalog.md5(pg_catalog.current_database())
               else pg_catalog.current_database()
             end)::name
$$;

-- Whether the caller may act for every tenant: the owner, and members of the worker's role if it exists.
-- For security definer functions, in which current_user is the owner; one expression, so that it is inlined there.
create function headway.trusted() returns boolean
language sql stable
as $$
  select pg_catalog.pg_has_role(
           coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user)::name, current_user, 'usage')
      or coalesce(
           pg_catalog.pg_has_role(
             coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user)::name,
             pg_catalog.to_regrole(pg_catalog.quote_ident(headway.role_name('worker')))::oid, 'usage'),
           false)
$$;

-- The tenant to act for: for a trusted caller the one it names, or null for all; for any other caller its own.
-- Raises HW003 where the caller has no tenant, or names another one.
create function headway.acting_tenant(p_tenant uuid) returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  if headway.trusted() then
    return p_tenant;
  end if;
  v_tenant := (select t.id from headway.tenants t where t.id = headway.tenant());
  if v_tenant is null then
    raise exception 'this session has no tenant: set headway.tenant_id, or map the login in headway.tenant_roles'
      using errcode = 'HW003';
  end if;
  if p_tenant is not null and p_tenant <> v_tenant then
    raise exception 'this session may act for tenant % only, not for %', v_tenant, p_tenant
      using errcode = 'HW003';
  end if;
  return v_tenant;
end
$$;
