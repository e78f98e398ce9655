-- API keys. Nobody may read the table: these functions are the only way to it, and none gives a secret.

create type headway.api_key as (
  id text, name text, role text, mode text, tenant_id uuid, queues text[], kinds text[], created_at timestamptz,
  created_by text, expires_at timestamptz, last_used_at timestamptz, revoked_at timestamptz, revoked_by text);

create function headway.read_key(k headway.api_keys) returns headway.api_key
language sql immutable
as $$
  select (k.id, k.name, k.role, k.mode, k.tenant_id, k.queues, k.kinds, k.created_at, k.created_by, k.expires_at,
          k.last_used_at, k.revoked_at, k.revoked_by)::headway.api_key
$$;

-- Store a key; repeated, it is the same one. The caller has checked it (model/access.py). Raises HW003 for a key of
-- another tenant than the caller's, HW004 where another key has its id.
create function headway.create_key(
  p_id text, p_secret_hash bytea, p_name text, p_role text, p_mode text, p_tenant uuid, p_queues text[], p_kinds text[],
  p_expires_at timestamptz, p_actor text, p_detail text)
returns setof headway.api_key
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
begin
  -- a key without a tenant is for all of them: only a trusted caller can be without one
  perform headway.acting_tenant(coalesce(p_tenant, '00000000-0000-0000-0000-000000000000'));
  insert into headway.api_keys (
    id, secret_hash, name, role, mode, tenant_id, queues, kinds, expires_at, created_at, created_by)
  values (p_id, p_secret_hash, p_name, p_role, p_mode, p_tenant, p_queues, p_kinds, p_expires_at, v_now, p_actor)
  on conflict (id) do nothing;
  if found then
    insert into headway.audit (at, tenant_id, actor, action, detail)
    values (v_now, p_tenant, p_actor, 'key.created', p_detail);
  elsif not exists (select
                      from headway.api_keys k
                     where k.id = p_id and k.secret_hash = p_secret_hash and k.tenant_id is not distinct from p_tenant) then
    raise exception 'key id % is taken: give a new key an id of its own', p_id using errcode = 'HW004';
  end if;
  return query select (headway.read_key(k)).* from headway.api_keys k where k.id = p_id;
end
$$;

-- The keys of a tenant, or all of them, oldest first.
create function headway.list_keys(p_tenant uuid) returns setof headway.api_key
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select (headway.read_key(k)).*
    from headway.api_keys k
   cross join headway.acting_tenant(p_tenant, true) as a (tenant_id)
   where a.tenant_id is null or k.tenant_id = a.tenant_id
   order by k.created_at, k.id
$$;

-- A key with the hash of its secret, for the server that compares it.
create function headway.find_key(p_id text, out key headway.api_key, out secret_hash bytea) returns setof record
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select headway.read_key(k), k.secret_hash from headway.api_keys k where k.id = p_id
$$;

-- Revoke a key, forever; gives nothing where (the tenant has) no such key.
create function headway.revoke_key(p_id text, p_tenant uuid, p_actor text) returns setof headway.api_key
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
begin
  with revoked as (
    update headway.api_keys k
       set revoked_at = v_now, revoked_by = p_actor
     where k.id = p_id
       and (v_tenant is null or k.tenant_id = v_tenant)
       and k.revoked_at is null
    returning k.id, k.tenant_id, k.name
  )
  insert into headway.audit (at, tenant_id, actor, action, detail)
  select v_now, r.tenant_id, p_actor, 'key.revoked', r.id || ' (' || r.name || ')' from revoked r;
  return query
    select (headway.read_key(k)).*
      from headway.api_keys k
     where k.id = p_id
       and (v_tenant is null or k.tenant_id = v_tenant);
end
$$;

-- Note when keys were last used.
create function headway.touch_keys(p_ids text[], p_used timestamptz[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.api_keys k
     set last_used_at = u.at
    from unnest(p_ids, p_used) as u (id, at)
   where k.id = u.id
     and (k.last_used_at is null or k.last_used_at < u.at)
$$;
