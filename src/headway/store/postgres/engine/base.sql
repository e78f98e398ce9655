-- The database's clock, as one function that tests can replace to hold it.
create function headway.now() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() $$;

-- A new UUIDv7, for rows that the database makes itself.
create function headway.uuid7() returns uuid
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
              from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

-- The name of a role of this database: headway_worker_ or headway_app_ and the database's name, or, where that is too
-- long, its hash.
create function headway.role_name(p_part text) returns name
language sql stable
as $$
  select ('headway_' || p_part || '_'
          || case
               when pg_catalog.octet_length(pg_catalog.current_database()) > 40 then pg_catalog.md5(pg_catalog.current_database())
               else pg_catalog.current_database()
             end)::name
$$;

-- Whether a payload holds a reference to a secret, however its key is escaped. Looked for in the text: inside of a string
-- the quotes of such a key would have backslashes before them.
create function headway.refers(p_payload json) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select (strpos(p_payload::text, '"$secret"') > 0 or strpos(p_payload::text, '\u00') > 0)
     and p_payload::text ~ ('(^|[^\\])"(\$|\\u0024)(s|\\u0073)(e|\\u0065)(c|\\u0063)(r|\\u0072)(e|\\u0065)(t|\\u0074)"\s*:')
$$;

-- Whether the caller may act for every tenant: the owner, and members of the worker's role where that exists.
-- For definer functions, inside which current_user is the owner; one expression, so that it is inlined there.
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

-- The tenant that the caller may act for: null (all) only for a trusted one that named none.
-- Raises HW003 when the caller has no tenant, or named another's.
create function headway.scope(p_tenant uuid) returns uuid
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

-- A text as an id, if it is written like one.
create function headway.as_id(p_text text) returns uuid
language sql immutable
as $$ select case when p_text ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then p_text::uuid end $$;

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

-- The key of an advisory lock. It depends on a secret of this database: any login may take any advisory lock, so a key
-- that others can compute would let them stop claims and schedules. In plpgsql, which keeps the plan: every claim asks.
create function headway.lock_key(p_what text) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select hashtextextended(p_what, i.secret) from headway.install i);
end
$$;

-- The lock that claims of a queue share and pause takes alone.
create function headway.queue_lock(p_queue text) returns bigint
language sql stable
as $$ select headway.lock_key('queue ' || p_queue) $$;

-- The gate of a limit's key: who decides about the key locks this row first.
create function headway.gate(p_key text) returns smallint
language sql immutable
as $$ select (1 + (pg_catalog.hashtext(p_key) & 1023))::smallint $$;

-- The gate of a queue that has a limit.
create function headway.queue_gate(p_queue text) returns smallint
language sql immutable
as $$ select (1025 + (pg_catalog.hashtext(p_queue) & 63))::smallint $$;

-- The keys of limits, as model/limit.py writes them; null where one of the parts is. No tenant's id and no kind has a |
-- in it, so that two keys are the same only where all their parts are.
create function headway.partition_key(p_tenant uuid, p_partition text) returns text
language sql immutable
as $$ select 'p:' || p_tenant || '|' || p_partition $$;

create function headway.concurrency_key(p_tenant uuid, p_kind text, p_key text) returns text
language sql immutable
as $$ select 'c:' || p_tenant || '|' || p_kind || '|' || p_key $$;

create function headway.kind_key(p_kind text) returns text
language sql immutable
as $$ select 'k:' || p_kind $$;

create function headway.tenant_key(p_tenant uuid) returns text
language sql immutable
as $$ select 't:' || p_tenant $$;

-- p_key null: the rate of the kind itself, which is every tenant's.
create function headway.rate_key(p_tenant uuid, p_kind text, p_key text) returns text
language sql immutable
as $$ select 'r:' || case when p_key is null then p_kind else p_tenant || '|' || p_kind || '|' || p_key end $$;

-- The keys that can limit a job.
create function headway.limit_keys(p_job headway.jobs) returns text[]
language sql immutable
as $$
  select pg_catalog.array_remove(array[
    headway.partition_key(p_job.tenant_id, p_job.partition),
    headway.concurrency_key(p_job.tenant_id, p_job.kind, p_job.concurrency_key),
    headway.kind_key(p_job.kind),
    headway.tenant_key(p_job.tenant_id),
    headway.rate_key(p_job.tenant_id, p_job.kind, p_job.rate_key)
  ], null)
$$;

-- Of these, the ones that a running job takes room of.
create function headway.taken_keys(p_job headway.jobs) returns text[]
language sql immutable
as $$
  select pg_catalog.array_remove(array[
    headway.partition_key(p_job.tenant_id, p_job.partition),
    headway.concurrency_key(p_job.tenant_id, p_job.kind, p_job.concurrency_key),
    case when p_job.limited then headway.kind_key(p_job.kind) end,
    case when p_job.limited then headway.tenant_key(p_job.tenant_id) end
  ], null)
$$;

-- So many rows at a time where there may be any number and others wait: the rest is left as an arrival.
create function headway.piece() returns integer
language sql immutable
as $$ select 500 $$;

-- A JSON array of texts; null for none.
create function headway.texts(p_list jsonb) returns text[]
language sql immutable strict
as $$ select pg_catalog.array_agg(t.text order by t.place)
        from pg_catalog.jsonb_array_elements_text(p_list) with ordinality as t (text, place) $$;

-- Where a machine is, as model/machine.py's Place. Put together as text: the state stays as it was written.
create function headway.place(
  p_version integer, p_step text, p_state json, p_awaiting text[], p_match_all boolean, p_joining integer, p_woken text,
  p_partition text, p_home_queue text, p_home_partition text, p_forked_from uuid, p_parent_id uuid, p_signals json
) returns text
language sql stable
as $$
  select '{' || pg_catalog.concat_ws(
    ',',
    '"version":' || p_version,
    '"step":' || pg_catalog.to_json(p_step),
    '"state":' || p_state,
    '"awaiting":' || pg_catalog.to_json(p_awaiting),
    case when p_match_all then '"match":"all"' end,
    '"joining":' || p_joining,
    '"woken":"' || p_woken || '"',
    '"partition":' || pg_catalog.to_json(p_partition),
    '"home_queue":' || pg_catalog.to_json(p_home_queue),
    '"home_partition":' || pg_catalog.to_json(p_home_partition),
    '"forked_from":"' || p_forked_from || '"',
    '"parent_id":"' || p_parent_id || '"',
    '"signals":' || p_signals
  ) || '}'
$$;

-- A signal as a claim brings it: model/signal.py's Received.
create function headway.received(p_id uuid, p_name text, p_payload json, p_sent_at timestamptz, p_dedup_key text)
returns json
language sql stable
as $$
  select pg_catalog.json_build_array(
    p_id, p_name, p_payload,
    -- an infinite one, as SQL may have written it, must not fail a claim
    case when isfinite(p_sent_at) then (extract(epoch from p_sent_at) * 1000000)::bigint else 0 end, p_dedup_key)
$$;
