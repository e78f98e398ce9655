-- Lists of jobs for bulk actions: only the API key that made one sees it, in the same tenant.

-- Keep a list; repeated, it is the same one.
create function headway.keep_list(p_token uuid, p_tenant uuid, p_key_id text, p_action json, p_ids uuid[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.job_lists (token, tenant_id, key_id, action, ids, created_at)
  values (p_token, headway.acting_tenant(p_tenant), p_key_id, p_action, p_ids, headway.now())
  on conflict (token) do nothing
$$;

-- The action, how many jobs there are and how many have been acted on, and the next p_limit of them; nothing if
-- the list is unknown or older than p_kept_ms.
create function headway.read_list(p_token uuid, p_tenant uuid, p_key_id text, p_kept_ms bigint, p_limit integer)
returns table (action json, total integer, "position" integer, ids uuid[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select l.action, cardinality(l.ids), l.position, l.ids[l.position + 1 : l.position + p_limit]
    from headway.job_lists l
   where l.token = p_token
     and l.tenant_id is not distinct from headway.acting_tenant(p_tenant)
     and l.key_id = p_key_id
     and l.created_at > headway.now() - p_kept_ms * interval '1 millisecond'
$$;

-- Note how many jobs of a list have been acted on.
create function headway.advance_list(p_token uuid, p_tenant uuid, p_key_id text, p_position integer) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.job_lists l
     set position = greatest(l.position, p_position)
   where l.token = p_token
     and l.tenant_id is not distinct from headway.acting_tenant(p_tenant)
     and l.key_id = p_key_id
$$;

-- Forget lists that are older than p_kept_ms, ten minutes (KEPT_MS of model/job_list.py) unless the owner says so; gives how many.
create function headway.prune_lists(p_kept_ms bigint) returns bigint
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from headway.job_lists l
     where l.created_at <= headway.now() - case when headway.is_owner() then p_kept_ms else greatest(p_kept_ms, 600000) end * interval '1 millisecond'
    returning 1
  )
  select count(*) from gone
$$;
