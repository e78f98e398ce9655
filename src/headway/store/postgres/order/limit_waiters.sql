-- Jobs set aside until a limit has capacity (limited_by), where claims do not see them.

-- Bring back jobs that were set aside: for each key as many of every queue as the key is named. Keys whose gate it
-- cannot lock are left as an arrival.
create function headway.admit(p_keys text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gates smallint[] := array(select distinct headway.gate(k) from unnest(p_keys) k);
begin
  perform headway.admit_under(p_keys, v_gates, headway.lock_gates(v_gates));
end
$$;

-- The same without waiting for a gate.
create function headway.try_admit(p_keys text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gates smallint[] := array(select distinct headway.gate(k) from unnest(p_keys) k);
begin
  perform headway.admit_under(p_keys, v_gates, headway.try_lock_gates(v_gates));
end
$$;

-- Bring back jobs under those of the keys' gates that are locked.
create function headway.admit_under(p_keys text[], p_gates smallint[], p_locked smallint[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if cardinality(p_locked) < cardinality(p_gates) then
    insert into headway.arrivals (keys)
    select array_agg(k) from unnest(p_keys) k where headway.gate(k) <> all (p_locked);
    p_keys := array(select k from unnest(p_keys) k where headway.gate(k) = any (p_locked));
  end if;
  with recursive wanted as (
    select k.key, count(*) as n
      from unnest(p_keys) as k (key)
     where (select 1 from headway.jobs j where j.limited_by = k.key limit 1) is not null
     group by k.key
  ), lane (key, n, queue) as (
    -- the queues that have some, one probe each
    select w.key, w.n,
           (select j.queue from headway.jobs j where j.limited_by = w.key order by j.queue limit 1)
      from wanted w
    union all
    select l.key, l.n,
           (select j.queue from headway.jobs j where j.limited_by = l.key and j.queue > l.queue order by j.queue limit 1)
      from lane l
     where l.queue is not null
  ), first as materialized (
    select l.key, f.id
      from lane l
      cross join lateral (
        select j.id
          from headway.jobs j
         where j.limited_by = l.key and j.queue = l.queue
         order by j.priority, j.position, j.id
         limit l.n
      ) f
     where l.queue is not null
  ), locked as materialized (
    -- lateral: forces a lookup by id, whatever the statistics say
    select l.id
      from first f
      cross join lateral (
        select j.id from headway.jobs j where j.id = f.id and j.limited_by is not null for update skip locked) l
  ), back as (
    update headway.jobs j
       set limited_by = null
      from locked l
     where j.id = l.id
    returning j.id
  )
  insert into headway.arrivals (keys)
  select array_agg(f.key)
    from first f
   where f.id not in (select b.id from back b)
  having count(*) > 0;
end
$$;

-- Before a queued job ends or changes: leave an arrival for jobs that were set aside under its keys, which its claim
-- would have brought back.
create function headway.offer_keys(p_id uuid) returns void
language sql
set search_path = pg_catalog, pg_temp
-- called for each of many jobs: no sequential scan, even where the table was never analyzed
set enable_seqscan = off
set jit = off
as $$
  insert into headway.arrivals (tenant_id, keys)
  select j.tenant_id, array_agg(k)
    from headway.jobs j
    cross join lateral unnest(headway.limit_keys(j)) k
   where j.id = p_id
     and j.status = 'queued'
     and j.limited_by is null
     and exists (select from headway.jobs w where w.limited_by = k)
   group by j.tenant_id
$$;

-- How many jobs of a tenant may run at once: its own limit, or the one of every tenant; null: any number.
create function headway.most_of_tenant(p_tenant uuid) returns integer
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select l.max_running
    from headway.limits l
   where l.scope = 'tenant'
     and l.name in ('*', p_tenant::text)
   order by l.name = '*'
   limit 1
$$;

-- Bring back the jobs that were set aside under these tenants' limits, a piece at a time; the rest, and what somebody has
-- locked, is left as an arrival. Where a limit leaves room for no more than a piece, that many of every queue: the end of
-- each job that runs admits another. Locks no gate, because it may be part of a long transaction.
create function headway.readmit_tenants(p_tenants uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
  v_room integer;
begin
  foreach v_tenant in array p_tenants loop
    v_room := headway.most_of_tenant(v_tenant) - (
      select count(*) from headway.jobs j where j.tenant_id = v_tenant and j.limited and j.status = 'running');
    if v_room <= headway.piece() then
      insert into headway.arrivals (tenant_id, keys)
      select v_tenant, array_fill('t:' || v_tenant, array[v_room])
       where v_room > 0
         and exists (select from headway.jobs j where j.limited_by = 't:' || v_tenant);
      continue;
    end if;
    update headway.jobs j
       set limited_by = null
     where j.id = any (array(
             select a.id
               from headway.jobs a
              where a.limited_by = 't:' || v_tenant
              order by a.queue, a.priority, a.position, a.id
              limit headway.piece()
                for update skip locked));
    perform from headway.jobs j where j.limited_by = 't:' || v_tenant limit 1;
    if found then
      insert into headway.arrivals (tenant_id, resumed) values (v_tenant, array[v_tenant]);
      perform headway.note_rest();
    end if;
  end loop;
end
$$;
