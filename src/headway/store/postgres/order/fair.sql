-- Fair queues: where jobs of two tenants wait, tenants take turns.
-- The index jobs_fair has the jobs that are marked (jobs.fair): those of every tenant but the default one from the start,
-- those of the default tenant from the first claim on that meets another tenant's in the queue. So an installation
-- without tenants, and a queue that only the default tenant uses, have nothing in it.

-- Let tenants of a queue take turns (the default), or not.
create function headway.set_fair(p_queue text, p_fair boolean, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_advisory_xact_lock(headway.setting_lock('queue ' || p_queue));
  insert into headway.queues (name, unfair)
  values (p_queue, not p_fair)
  on conflict (name) do update
    set unfair = excluded.unfair;
  insert into headway.audit (at, actor, action, detail)
  values (headway.now(), p_actor, case when p_fair then 'fair' else 'not fair' end, p_queue);
end
$$;

-- Whether a job that gets into this queue is marked. Where the transaction may not see yet that the queue is shared, it is
-- marked, too.
create function headway.is_marked(p_tenant uuid, p_queue text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select true
   where p_tenant <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
      or current_setting('transaction_isolation') <> 'read committed'
      or exists (select from headway.queues q where q.name = p_queue and q.fair)
$$;

-- A claim has met jobs of a tenant other than the default one: from its commit on, each enqueue marks its jobs. Waits for
-- nobody: if somebody else changes what is set for the queue, the next claim does it. The claim has the queue's lock, so
-- no pause or reservation makes the queue's row at the same time.
create function headway.share_queue(p_queue text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if pg_try_advisory_xact_lock(headway.setting_lock('queue ' || p_queue)) then
    insert into headway.queues as q (name, fair, fair_since)
    values (p_queue, true, pg_current_xact_id())
    on conflict (name) do update
      set fair = true, fair_since = excluded.fair_since
      where not q.fair;
  end if;
end
$$;

-- Mark the jobs of a shared queue that are not, 10,000 at a time, once every transaction of p_since or before is over:
-- they may have enqueued without knowing. True once all are marked. That is done twice, for a statement that began before
-- the queue was shared may have got its transaction's number afterwards.
create function headway.index_tenants(p_queue text, p_since xid8) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids uuid[];
begin
  -- one of the future is a transaction of another server, from which this database was restored
  if p_since < pg_snapshot_xmax(pg_current_snapshot()) and pg_snapshot_xmin(pg_current_snapshot()) <= p_since then
    return false;
  end if;
  perform
     from headway.queues q
    where q.name = p_queue and p_since in (q.fair_since, q.fair_again)
      for update skip locked;
  if not found then
    return false;
  end if;
  -- each by the index of its status
  v_ids := array(
    select u.id
      from ((select j.id
               from headway.jobs j
              where j.queue = p_queue and j.status = 'queued' and j.limited_by is null and j.fair is not true
              order by j.priority, j.position, j.id
              limit 10000)
            union all
            (select j.id
               from headway.jobs j
              where j.limited_by is not null and j.queue = p_queue and j.fair is not true
              order by j.limited_by
              limit 10000)
            union all
            (select j.id
               from headway.jobs j
              where j.status = 'scheduled' and j.queue = p_queue and j.fair is not true
              order by j.scheduled_for
              limit 10000)
            union all
            (select j.id
               from headway.jobs j
              where j.status = 'held' and j.queue = p_queue and j.fair is not true
              order by j.tenant_id, j.train
              limit 10000)
            union all
            (select j.id
               from headway.jobs j
              where j.status = 'waiting' and j.queue = p_queue and j.fair is not true
              order by j.deadline_at
              limit 10000)
            union all
            (select j.id
               from headway.jobs j
              where j.status = 'running' and j.queue = p_queue and j.fair is not true
              order by j.worker_id
              limit 10000)) u
     limit 10000);
  update headway.jobs j
     set fair = true
   where j.id = any (array(
           select m.id from headway.jobs m where m.id = any (v_ids) order by m.id for no key update skip locked));
  if cardinality(v_ids) > 0 then
    -- there may be more, or some were locked, or have left their status
    return false;
  end if;
  update headway.queues q
     set fair_again = case when q.fair_since is not null then pg_current_xact_id() end,
         fair_since = null
   where q.name = p_queue;
  return true;
end
$$;

-- Lock and give the candidates of a fair queue, tenant by tenant, beginning after the tenant that was served last.
-- Leaves out the jobs p_except, and those of the kinds and tenants p_changed.
create function headway.pick_fair(
  p_queue text, p_limit integer, p_now timestamptz, p_except uuid[], p_changed text[]
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
declare
  v_turn uuid;
  v_mine boolean;
  v_ids uuid[] := '{}';
  v_tenants uuid[];
  v_found uuid[];
begin
  select q.turn into v_turn from headway.queues q where q.name = p_queue for update skip locked;
  v_mine := found;
  if not v_mine then
    select q.turn into v_turn from headway.queues q where q.name = p_queue;
  end if;
  v_turn := coalesce(v_turn, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
  loop
    -- the tenants that have a job here, one probe each; those after the last one served come first
    with recursive ahead (tenant_id, n) as (
      select (select j.tenant_id
                from headway.jobs j
               where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                 and j.tenant_id > v_turn
               order by j.tenant_id
               limit 1), 1
      union all
      select (select j.tenant_id
                from headway.jobs j
               where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                 and j.tenant_id > a.tenant_id
               order by j.tenant_id
               limit 1), a.n + 1
        from ahead a
       where a.tenant_id is not null and a.n < p_limit
    ), behind (tenant_id, n) as (
      select (select j.tenant_id
                from headway.jobs j
               where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
               order by j.tenant_id
               limit 1), 1
      union all
      select (select j.tenant_id
                from headway.jobs j
               where j.queue = p_queue and j.fair and j.status = 'queued' and j.limited_by is null
                 and j.tenant_id > b.tenant_id
               order by j.tenant_id
               limit 1), b.n + 1
        from behind b
       where b.tenant_id is not null and b.n < p_limit
    )
    select array_agg(t.tenant_id order by t.half, t.tenant_id)
      into v_tenants
      from (select 1 as half, a.tenant_id from ahead a where a.tenant_id is not null
            union all
            select 2, b.tenant_id from behind b where b.tenant_id <= v_turn) t;
    exit when v_tenants is null;
    v_found := array(
      select l.id
        from (select c.id, c.ordinal, c.rank
                from (select t.ordinal, j.id,
                             row_number() over (partition by t.ordinal order by j.priority, j.position, j.id) as rank
                        from unnest(v_tenants) with ordinality as t (tenant_id, ordinal)
                        cross join lateral (
                          select j.id, j.priority, j.position
                            from headway.jobs j
                           where j.queue = p_queue and j.tenant_id = t.tenant_id and j.fair
                             and j.status = 'queued' and j.limited_by is null
                             and (j.expires_at is null or j.expires_at > p_now)
                             and j.id <> all (v_ids || p_except)
                             and (p_changed = '{}'
                                  or j.kind <> all (p_changed) and j.tenant_id::text <> all (p_changed))
                           order by j.priority, j.position, j.id
                           limit (p_limit - cardinality(v_ids) + cardinality(v_tenants) - 1) / cardinality(v_tenants)
                        ) j) c
               order by c.rank, c.ordinal
               limit p_limit - cardinality(v_ids)) c
        cross join lateral (
          select j.id
            from headway.jobs j
           where j.id = c.id and j.status = 'queued' and j.limited_by is null
             for update skip locked) l
       order by c.rank, c.ordinal);
    exit when cardinality(v_found) = 0;
    v_ids := v_ids || v_found;
    select j.tenant_id into v_turn from headway.jobs j where j.id = v_ids[cardinality(v_ids)];
    exit when cardinality(v_ids) >= p_limit;
  end loop;
  if v_mine and cardinality(v_ids) > 0 then
    update headway.queues q set turn = v_turn where q.name = p_queue;
  end if;
  return v_ids;
end
$$;
