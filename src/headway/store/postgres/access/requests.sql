-- Requests by the key that their sender chose (Idempotency-Key).

-- Begin a request: gives nothing if it is new, else what was stored of it. A second request with the same key waits here
-- for the first one's transaction. One that is older than p_kept_ms is forgotten.
create function headway.begin_request(
  p_tenant uuid, p_key_id text, p_route text, p_key text, p_body_hash bytea, p_kept_ms bigint)
returns table (body_hash bytea, answer text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_now timestamptz := headway.now();
begin
  insert into headway.requests as r (tenant_id, key_id, route, key, body_hash, created_at)
  values (v_tenant, p_key_id, p_route, p_key, p_body_hash, v_now)
  on conflict (tenant_id, key_id, route, key) do update
     set body_hash = excluded.body_hash, answer = null, created_at = excluded.created_at
   where r.created_at <= v_now - p_kept_ms * interval '1 millisecond';
  if found then
    return;
  end if;
  return query
    select r.body_hash, r.answer
      from headway.requests r
     where r.tenant_id = v_tenant and r.key_id = p_key_id and r.route = p_route and r.key = p_key;
end
$$;

-- Keep what a request created.
create function headway.finish_request(p_tenant uuid, p_key_id text, p_route text, p_key text, p_answer text)
returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.requests r
     set answer = p_answer
   where r.tenant_id = headway.acting_tenant(p_tenant)
     and r.key_id = p_key_id
     and r.route = p_route
     and r.key = p_key
     and r.answer is null
$$;

-- Forget requests that are older than p_kept_ms, a day (KEPT_MS of model/request.py) unless the owner says so; gives how many.
create function headway.prune_requests(p_kept_ms bigint, p_limit integer) returns bigint
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from headway.requests r
     where (r.tenant_id, r.key_id, r.route, r.key) in (
             select o.tenant_id, o.key_id, o.route, o.key
               from headway.requests o
              where o.created_at <= headway.now() - case when headway.is_owner() then p_kept_ms else greatest(p_kept_ms, 86400000) end * interval '1 millisecond'
              order by o.created_at
              limit p_limit
                for update skip locked)
    returning 1
  )
  select count(*) from gone
$$;
