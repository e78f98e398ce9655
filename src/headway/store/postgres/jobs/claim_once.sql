-- Claims that can be repeated: for workers whose answers travel over a network.

-- Claim up to p_limit jobs of some queues, but no flows, the first queue first; of one tenant, if p_tenant is given, and of some kinds,
-- if p_kinds is given, as pick_kinds finds them. A repeated p_claim
-- gives those of its jobs that the worker still runs, and claims nothing: an answer that was lost loses nothing. Renews
-- the lease of a worker that runs nothing. What was claimed is remembered for ten minutes.
-- Locks the worker's row, so its claims come one after another. Raises HW002 for a worker that is not registered.
create function headway.claim_once(
  p_worker uuid, p_claim text, p_queues text[], p_limit integer, p_tenant uuid default null, p_kinds text[] default null
) returns setof headway.claimed_job
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz;
  v_lease timestamptz;
  v_lease_ms bigint;
  v_ids uuid[] := '{}';
  v_fences integer[] := '{}';
  v_queue text;
  v_job headway.claimed_job;
begin
  select w.lease_expires_at, w.lease_ms
    into v_lease, v_lease_ms
    from headway.workers w
   where w.id = p_worker
     for no key update;
  if not found then
    raise exception 'worker % is not registered (any more): its lease ran out and it was reaped; register again under a new id', p_worker
      using errcode = 'HW002';
  end if;
  select c.ids, c.fences
    into v_ids, v_fences
    from headway.worker_claims c
   where c.worker_id = p_worker and c.claim_id = p_claim;
  if found then
    return query
      select c.*
        from headway.claims(array(
               select j.id
                 from unnest(v_ids, v_fences) with ordinality as u (id, fence, ordinal)
                 join headway.jobs j on j.id = u.id and j.fence = u.fence
                where j.status = 'running' and j.worker_id = p_worker and (p_tenant is null or j.tenant_id = p_tenant)
                order by u.ordinal)) c;
    return;
  end if;
  v_ids := '{}';
  v_fences := '{}';
  v_now := headway.now();
  -- a worker that runs jobs renews its lease by naming them: else those that it forgot would stay running
  if v_lease < v_now + v_lease_ms * interval '0.5 milliseconds'
     and not exists (select from headway.jobs j where j.worker_id = p_worker and j.status = 'running') then
    update headway.workers w
       set heartbeat_at = v_now, lease_expires_at = v_now + v_lease_ms * interval '1 millisecond', running = 0
     where w.id = p_worker;
  end if;
  foreach v_queue in array p_queues loop
    exit when cardinality(v_ids) >= p_limit;
    for v_job in select * from headway.claim(p_worker, v_queue, p_limit - cardinality(v_ids), p_tenant, p_kinds, false) loop
      v_ids := v_ids || v_job.id;
      v_fences := v_fences || v_job.fence;
      return next v_job;
    end loop;
  end loop;
  if cardinality(v_ids) > 0 then
    insert into headway.worker_claims (worker_id, claim_id, claimed_at, ids, fences)
    values (p_worker, p_claim, v_now, v_ids, v_fences);
    delete from headway.worker_claims c
     where (c.worker_id, c.claim_id) in (
       select o.worker_id, o.claim_id
         from headway.worker_claims o
        where o.claimed_at < v_now - interval '10 minutes'
        order by o.claimed_at
        limit 10
          for update skip locked);
  end if;
end
$$;

-- Lock and give the candidates of one tenant, by the index of tenants. p_indexed: it has all jobs of the queue; null: it
-- lacks at most what an older version enqueued, which is looked for among the first 1,000 jobs; false: it lacks more, and
-- the queue is read in its order, until the next claims have completed the index.
create function headway.pick_tenant(
  p_queue text, p_tenant uuid, p_indexed boolean, p_limit integer, p_now timestamptz, p_except uuid[], p_changed text[],
  p_flows boolean default true
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
declare
  v_ids uuid[];
begin
  if p_tenant::text = any (p_changed) then
    return '{}';
  end if;
  if p_indexed is distinct from false then
    v_ids := array(
      select j.id
        from headway.jobs j
       where j.queue = p_queue
         and j.fair
         and j.status = 'queued'
         and j.limited_by is null
         and j.tenant_id = p_tenant
         and (j.expires_at is null or j.expires_at > p_now)
         and j.id <> all (p_except)
         and j.kind <> all (p_changed)
         and (p_flows or j.step is distinct from '$flow')
       order by j.priority, j.position, j.id
       limit p_limit
         for update skip locked);
    if p_indexed or cardinality(v_ids) > 0 then
      return v_ids;
    end if;
  else
    return array(
      select j.id
        from headway.jobs j
       where j.queue = p_queue
         and j.status = 'queued'
         and j.limited_by is null
         and j.tenant_id = p_tenant
         and (j.expires_at is null or j.expires_at > p_now)
         and j.id <> all (p_except)
         and j.kind <> all (p_changed)
         and (p_flows or j.step is distinct from '$flow')
       order by j.priority, j.position, j.id
       limit p_limit
         for update skip locked);
  end if;
  return array(
    select j.id
      from (select k.id, k.tenant_id, k.priority, k.position
              from headway.jobs k
             where k.queue = p_queue and k.status = 'queued' and k.limited_by is null
             order by k.priority, k.position, k.id
             limit 1000) k
      join headway.jobs j on j.id = k.id
     where k.tenant_id = p_tenant
       and j.status = 'queued'
       and j.limited_by is null
       and (j.expires_at is null or j.expires_at > p_now)
       and j.id <> all (p_except)
       and j.kind <> all (p_changed)
       and (p_flows or j.step is distinct from '$flow')
     order by k.priority, k.position, k.id
     limit p_limit
       for update of j skip locked);
end
$$;

-- Lock and give the candidates of some kinds, of one tenant or of all. The first jobs are looked at, whatever their kinds: 10,000
-- of one tenant; or, where tenants take turns, 1,000 of each of up to 100 tenants, beginning after the one that was served
-- last. The others stay as they are. p_fair: p_indexed of pick_tenant, or without p_tenant, whether tenants take turns.
create function headway.pick_kinds(
  p_queue text, p_kinds text[], p_tenant uuid, p_fair boolean, p_limit integer, p_now timestamptz, p_except uuid[],
  p_changed text[], p_flows boolean default true
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_turn uuid;
  v_tenants uuid[] := array_remove(array[p_tenant], null);
  v_ids uuid[] := '{}';
begin
  if p_tenant is null and p_fair then
    select q.turn into v_turn from headway.queues q where q.name = p_queue;
    v_turn := coalesce(v_turn, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    with recursive ring (tenant_id, behind, n) as (
      select v_turn, false, 0
      union all
      select t.tenant_id, t.behind, r.n + 1
        from ring r
        cross join lateral (
          select o.tenant_id, o.behind
            from ((select j.tenant_id, r.behind
                     from headway.jobs j
                    where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                      and j.tenant_id > r.tenant_id
                    order by j.tenant_id
                    limit 1)
                  union all
                  (select j.tenant_id, true
                     from headway.jobs j
                    where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                      and not r.behind
                    order by j.tenant_id
                    limit 1)) o
           where not o.behind or o.tenant_id <= v_turn
           limit 1) t
       where r.n < 100
    )
    select array_agg(r.tenant_id order by r.n) filter (where r.n > 0) into v_tenants from ring r;
  end if;
  if p_fair is distinct from false then
    v_ids := array(
      select l.id
        from (select t.ordinal, f.id,
                     row_number() over (partition by t.ordinal order by f.priority, f.position, f.id) as rank
                from unnest(v_tenants) with ordinality as t (tenant_id, ordinal)
                cross join lateral (
                  select k.id, k.priority, k.position
                    from (select j.id, j.priority, j.position, j.kind, j.expires_at, j.step
                            from headway.jobs j
                           where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                             and j.tenant_id = t.tenant_id
                           order by j.priority, j.position, j.id
                           limit case when p_tenant is null then 1000 else 10000 end) k
                   where k.kind = any (p_kinds)
                     and (k.expires_at is null or k.expires_at > p_now)
                     and k.id <> all (p_except)
                     and k.kind <> all (p_changed)
                     and (p_flows or k.step is distinct from '$flow')
                   order by k.priority, k.position, k.id
                   limit p_limit) f
               where t.tenant_id::text <> all (p_changed)
               order by rank, t.ordinal
               limit p_limit) c
        cross join lateral (
          select j.id
            from headway.jobs j
           where j.id = c.id and j.status = 'queued' and j.limited_by is null
             for update skip locked) l
       order by c.rank, c.ordinal);
    if p_tenant is null then
      select j.tenant_id into v_turn from headway.jobs j where j.id = v_ids[cardinality(v_ids)];
      v_turn := coalesce(v_turn, v_tenants[cardinality(v_tenants)]);
      perform from headway.queues q where q.name = p_queue for update skip locked;
      if found then
        update headway.queues q set turn = v_turn where q.name = p_queue;
      end if;
    end if;
  end if;
  if cardinality(v_ids) > 0 or p_fair then
    return v_ids;
  end if;
  return array(
    select j.id
      from (select k.id, k.tenant_id, k.kind, k.priority, k.position
              from headway.jobs k
             where k.queue = p_queue and k.status = 'queued' and k.limited_by is null
             order by k.priority, k.position, k.id
             limit 10000) k
      join headway.jobs j on j.id = k.id
     where k.kind = any (p_kinds)
       and (p_tenant is null or k.tenant_id = p_tenant)
       and j.status = 'queued'
       and j.limited_by is null
       and (j.expires_at is null or j.expires_at > p_now)
       and j.id <> all (p_except)
       and k.kind <> all (p_changed)
       and k.tenant_id::text <> all (p_changed)
       and (p_flows or j.step is distinct from '$flow')
     order by k.priority, k.position, k.id
     limit p_limit
       for update of j skip locked);
end
$$;
