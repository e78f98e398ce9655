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

-- The role that the HTTP server takes on for requests of tenants; null where there are no roles, or where this login may
-- not take it on. For the owner.
create function headway.wall_role() returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select r.rolname::text
    from headway.install i
    join pg_roles r on r.rolname = headway.role_name('app')
   where i.has_roles
     and pg_has_role(
           session_user, r.oid, case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end)
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

-- Whether the caller is the owner, or a member of it. For security definer functions, in which current_user is the owner.
create function headway.is_owner() returns boolean
language sql stable
as $$
  select pg_catalog.pg_has_role(
    coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user)::name, current_user, 'usage')
$$;

-- The actor that the audit gives to a session that acts for one tenant by its login (headway.grant_app with a tenant), whatever the
-- session says: login: and the login's name. Null for every other session.
create function headway.bound_login() returns text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select left('login:' || u.name, 255)
    from (values (1, session_user::text), (2, nullif(current_setting('role'), 'none'))) as u (n, name)
    join headway.tenant_roles m on m.role = to_regrole(quote_ident(u.name))
   order by u.n
   limit 1
$$;

-- Store the retention that others than the owner have to keep, in milliseconds by name. For the owner.
create function headway.set_usual_retention(p_retention jsonb) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$ update headway.install i set retention = p_retention where i.retention is distinct from p_retention $$;

-- The usual retentions: what the owner stored, or else Settings.retention_ms of config.py. An unknown name is kept forever.
create function headway.usual_retention(p_name text) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
    (select (i.retention ->> p_name)::bigint from headway.install i),
    86400000 * case p_name
      when 'succeeded' then 7
      when 'canceled' then 30
      when 'failed' then 30
      when 'dead' then 90
      when 'events' then 7
      when 'failed_events' then 30
      when 'fires' then 30
      when 'audit' then 365
      when 'stats_minutes' then 2
      when 'stats_hours' then 60
      when 'stats_days' then 730
      when 'errors' then 90
    end::bigint,
    3153600000000)
$$;

-- How long something of this name (a retention) is kept at least, in milliseconds: for the owner what it asks for; for any other
-- caller never less than the usual time, so that no worker's login erases what others did.
create function headway.kept_at_least(p_name text, p_ms bigint) returns bigint
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case when headway.is_owner() then p_ms else greatest(p_ms, headway.usual_retention(p_name)) end
$$;

-- The tenant to act for: for a trusted caller the one it names, or null for all; for any other caller its own.
-- Raises HW003 where the caller has no tenant, or names another one; HW008 where its tenant is suspended and it does
-- not only read.
create function headway.acting_tenant(p_tenant uuid, p_reads boolean default false) returns uuid
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
  v_suspended boolean;
begin
  if headway.trusted() then
    return p_tenant;
  end if;
  select t.id, t.suspended_at is not null into v_tenant, v_suspended from headway.tenants t where t.id = headway.tenant();
  if v_tenant is null then
    raise exception 'this session has no tenant: set headway.tenant_id, or map the login in headway.tenant_roles'
      using errcode = 'HW003';
  end if;
  if p_tenant is not null and p_tenant <> v_tenant then
    raise exception 'this session may act for tenant % only, not for %', v_tenant, p_tenant
      using errcode = 'HW003';
  end if;
  if v_suspended and not p_reads then
    perform headway.refuse_suspended(v_tenant);
  end if;
  return v_tenant;
end
$$;

-- Raises HW008 if the tenant is suspended.
create function headway.refuse_suspended(p_tenant uuid) returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_slug text;
begin
  select coalesce(t.slug, t.id::text) into v_slug from headway.tenants t where t.id = p_tenant and t.suspended_at is not null;
  if found then
    raise exception 'tenant % is suspended: nothing was written; headway tenants resume %', v_slug, v_slug
      using errcode = 'HW008';
  end if;
end
$$;
