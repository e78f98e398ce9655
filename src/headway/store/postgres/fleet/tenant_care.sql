-- What operators do to tenants: create, rename, suspend, resume, delete.

-- Create a tenant of this name. A repeat with the same id changes nothing. Audited. Raises HW001 (another tenant has or
-- had the name), HW004 (it is not valid).
create function headway.create_tenant(p_id uuid, p_slug text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_is_new boolean;
begin
  begin
    insert into headway.tenants (id, slug, created_at) values (p_id, p_slug, headway.now()) on conflict do nothing;
    v_is_new := found;
  exception when sqlstate 'HW004' then
    perform headway.refuse_retired(p_slug, sqlerrm);
    raise;
  end;
  if v_is_new then
    insert into headway.audit (tenant_id, at, actor, action, detail)
    values (p_id, headway.now(), p_actor, 'tenant.created', p_slug);
  elsif not exists (select from headway.tenants t where t.id = p_id and t.slug = p_slug) then
    raise exception 'tenant name "%" is another tenant''s: nothing was written', p_slug using errcode = 'HW001';
  end if;
end
$$;

-- Raise HW001 with this message if a tenant had this name.
create function headway.refuse_retired(p_slug text, p_message text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from headway.retired_slugs r where r.slug = p_slug) then
    raise exception '%', p_message using errcode = 'HW001';
  end if;
end
$$;

-- Lock a tenant's row; gives its name, or its id. Raises HW006.
create function headway.lock_tenant(p_tenant uuid) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text;
begin
  select coalesce(t.slug, t.id::text) into v_name from headway.tenants t where t.id = p_tenant for update;
  if not found then
    raise exception 'there is no tenant %: headway tenants list', p_tenant using errcode = 'HW006';
  end if;
  return v_name;
end
$$;

-- Give a tenant another name; nobody can have the old one again. Audited. Raises HW001 (another tenant
-- has or had the name), HW003 (the default tenant), HW006.
create function headway.rename_tenant(p_tenant uuid, p_slug text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := headway.lock_tenant(p_tenant);
begin
  if v_name = p_slug then
    return;
  end if;
  if v_name = 'default' then
    raise exception 'the default tenant keeps its name, and cannot be deleted' using errcode = 'HW003';
  end if;
  begin
    update headway.tenants t set slug = p_slug where t.id = p_tenant;
  exception
    when unique_violation then
      raise exception 'tenant name "%" is another tenant''s: nothing was written', p_slug using errcode = 'HW001';
    when sqlstate 'HW004' then
      perform headway.refuse_retired(p_slug, sqlerrm);
      raise;
  end;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (p_tenant, headway.now(), p_actor, 'tenant.renamed', v_name || ' to ' || p_slug);
end
$$;

-- Set the zone that a tenant's new schedules start with; null: the application's. Audited if it changes. Raises HW006.
create function headway.set_tenant_zone(p_tenant uuid, p_tz text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_name text := headway.lock_tenant(p_tenant);
  v_old text := (select t.tz from headway.tenants t where t.id = p_tenant);
begin
  update headway.tenants t set tz = p_tz where t.id = p_tenant and t.tz is distinct from p_tz;
  if found then
    insert into headway.audit (tenant_id, at, actor, action, detail, changes)
    values (p_tenant, headway.now(), p_actor, 'tenant.changed', v_name || ': tz ' || coalesce(p_tz, 'none'),
            headway.values_changed(json_build_object('tz', v_old), json_build_object('tz', p_tz), '{"tz": 0}'));
  end if;
end
$$;

-- Suspend a tenant. It is a limit of the tenant that lets none of its jobs start, so claims cost what they cost with
-- any limit, and nothing where nobody is suspended. Waits for the claims under way, as set_limit does: once this has
-- returned, none commits. Running jobs go on. Audited. Raises HW006.
create function headway.suspend_tenant(p_tenant uuid, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_name text := headway.lock_tenant(p_tenant);
begin
  if exists (select from headway.tenants t where t.id = p_tenant and t.suspended_at is not null) then
    return;
  end if;
  perform headway.lock_limit('tenant', p_tenant::text);
  update headway.tenants t
     set suspended_at = headway.now(),
         suspended_by = p_actor,
         resumed_max_running = (
           select l.max_running from headway.limits l where l.scope = 'tenant' and l.name = p_tenant::text)
   where t.id = p_tenant;
  insert into headway.limits (scope, name, max_running, suspended)
  values ('tenant', p_tenant::text, 0, true)
  on conflict (scope, name) do update
    set max_running = 0, suspended = true;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (p_tenant, headway.now(), p_actor, 'tenant.suspended', v_name);
end
$$;

-- Resume a suspended tenant, with the limits that it had. Many jobs come back in pieces: claims go on with the rest.
-- Audited. Raises HW006.
create function headway.resume_tenant(p_tenant uuid, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_name text := headway.lock_tenant(p_tenant);
begin
  if exists (select from headway.tenants t where t.id = p_tenant and t.suspended_at is null) then
    return;
  end if;
  perform headway.lock_limit('tenant', p_tenant::text);
  update headway.limits l
     set max_running = t.resumed_max_running,
         suspended = false
    from headway.tenants t
   where t.id = p_tenant
     and l.scope = 'tenant'
     and l.name = p_tenant::text;
  delete from headway.limits l
   where l.scope = 'tenant'
     and l.name = p_tenant::text
     and num_nonnulls(l.max_running, l.max_pending, l.max_bytes, l.max_events, l.max_schedules, l.max_group,
                      l.max_fan_out) = 0;
  update headway.tenants t
     set suspended_at = null,
         suspended_by = null,
         resumed_max_running = null
   where t.id = p_tenant;
  perform headway.readmit_tenants(array[p_tenant]);
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (p_tenant, headway.now(), p_actor, 'tenant.resumed', v_name);
end
$$;

-- How many rows of each table a tenant has.
create function headway.tenant_rows(p_tenant uuid) returns table (name text, rows bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select * from (values
    ('jobs', (select count(*) from headway.jobs o where o.tenant_id = p_tenant)),
    ('attempts', (select count(*) from headway.attempts o where o.tenant_id = p_tenant)),
    ('flow_journal', (select count(*) from headway.flow_journal o where o.tenant_id = p_tenant)),
    ('artifacts', (select count(*) from headway.artifacts o where o.tenant_id = p_tenant)),
    ('events', (select count(*) from headway.events o where o.tenant_id = p_tenant)),
    ('fires', (select count(*) from headway.fires o where o.tenant_id = p_tenant)),
    ('triggers', (select count(*) from headway.triggers o where o.tenant_id = p_tenant)),
    ('templates', (select count(*) from headway.templates o where o.tenant_id = p_tenant)),
    ('connectors', (select count(*) from headway.connector_configs o where o.tenant_id = p_tenant)),
    ('groups', (select count(*) from headway.groups o where o.tenant_id = p_tenant)),
    ('signals', (select count(*) from headway.signals o where o.tenant_id = p_tenant)),
    ('keys', (select count(*) from headway.api_keys o where o.tenant_id = p_tenant))
  ) as counted (name, rows)
$$;

-- Delete up to p_limit jobs of a tenant and up to as many rows of each other table; the tenant itself with the last of
-- them. Its audit stays. Suspends it first, so that nothing new comes. Gives whether all of it is gone. Audited at the end. Raises HW003
-- (the default tenant; jobs that run), HW006.
create function headway.delete_tenant(p_tenant uuid, p_limit integer, p_actor text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_name text := headway.lock_tenant(p_tenant);
  v_running bigint;
  v_ids uuid[];
  v_count integer;
  v_table text;
  v_more boolean;
begin
  if v_name = 'default' then
    raise exception 'the default tenant keeps its name, and cannot be deleted' using errcode = 'HW003';
  end if;
  perform headway.suspend_tenant(p_tenant, p_actor);
  -- a new statement: it sees the claims that suspend_tenant waited for
  select count(*) into v_running from headway.jobs j where j.tenant_id = p_tenant and j.status = 'running';
  if v_running > 0 then
    raise exception 'tenant % has % running jobs: nothing was deleted; suspend it, and cancel them or wait for their end',
      v_name, v_running
      using errcode = 'HW003';
  end if;
  v_ids := array(select j.id from headway.jobs j where j.tenant_id = p_tenant order by j.id limit p_limit for update);
  delete from headway.attempts a where a.job_id = any (v_ids);
  delete from headway.signals s where s.job_id = any (v_ids);
  delete from headway.flow_journal f where f.job_id = any (v_ids);
  perform headway.delete_artifacts(v_ids);
  delete from headway.edges e where e.parent_id = any (v_ids) or e.child_id = any (v_ids);
  delete from headway.jobs j where j.id = any (v_ids);
  v_more := cardinality(v_ids) = p_limit;
  -- or a fold that has read the tenant's deltas would store its numbers afterwards
  perform pg_advisory_xact_lock(headway.lock_key('stats'));
  perform pg_advisory_xact_lock(headway.lock_key('errors'));
  -- what is left without its job, and what no job has
  foreach v_table in array array['attempts', 'signals', 'flow_journal', 'edges', 'job_tags', 'fires', 'events', 'triggers', 'templates',
                                 'connector_configs', 'groups', 'holds', 'arrivals', 'requests', 'unique_windows', 'job_lists',
                                 'stat_deltas', 'stats', 'error_deltas', 'errors', 'job_errors'] loop
    exit when v_more;
    execute format(
      'delete from headway.%1$I o where o.ctid = any (array(select c.ctid from headway.%1$I c where c.tenant_id = $1 limit $2))',
      v_table) using p_tenant, p_limit;
    get diagnostics v_count = row_count;
    v_more := v_count = p_limit;
  end loop;
  if v_more then
    return false;
  end if;
  delete from headway.sessions s using headway.api_keys k where k.tenant_id = p_tenant and s.key_id = k.id;
  delete from headway.api_keys k where k.tenant_id = p_tenant;
  delete from headway.tenant_roles m where m.tenant_id = p_tenant;
  delete from headway.limits l where l.scope = 'tenant' and l.name = p_tenant::text;
  delete from headway.tenants t where t.id = p_tenant;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (p_tenant, headway.now(), p_actor, 'tenant.deleted', v_name || ' (' || p_tenant || ')');
  return true;
end
$$;
