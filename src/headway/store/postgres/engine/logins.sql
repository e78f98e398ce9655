-- Logins: grant them the role of a worker, or of an application.

-- Let a login run jobs of every tenant. For the owner, after headway migrate --roles. Raises HW003 if there are no
-- roles.
create function headway.grant_worker(p_login name) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if not (select i.has_roles from headway.install i) then
    raise exception 'this database has no roles yet: run headway migrate --roles' using errcode = 'HW003';
  end if;
  execute format('grant %I to %I', headway.role_name('worker'), p_login);
end
$$;

-- Let a login act for one tenant: the one named here, whatever its session sets; or without a name, the one that its
-- session sets. For the owner, after headway migrate --roles. Raises HW002 for an unknown tenant, HW003 if there are no
-- roles.
create function headway.grant_app(p_login name, p_tenant text default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  if not (select i.has_roles from headway.install i) then
    raise exception 'this database has no roles yet: run headway migrate --roles' using errcode = 'HW003';
  end if;
  if p_tenant is not null then
    select t.id into v_tenant from headway.tenants t where t.slug = p_tenant;
    if not found then
      raise exception 'there is no tenant %', p_tenant using errcode = 'HW002';
    end if;
    insert into headway.tenant_roles (role, tenant_id)
    values (to_regrole(quote_ident(p_login)), v_tenant)
    on conflict (role) do update set tenant_id = excluded.tenant_id;
  end if;
  execute format('grant %I to %I', headway.role_name('app'), p_login);
end
$$;
