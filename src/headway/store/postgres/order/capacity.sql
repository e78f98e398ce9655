-- Capacity: how many more jobs may start under a key.

-- What limits each of these jobs: a row for each of its keys that has a limit. dim is the sort of the key: 1 partition,
-- 2 concurrency key, 3 kind, 4 tenant, 5 rate.
create function headway.limits_on(p_ids uuid[])
returns table (
  ordinal bigint, id uuid, dim integer, key text, most integer, rate_count integer, rate_period_ms bigint, burst integer
)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select u.ordinal, j.id, d.dim, d.key, d.most, d.rate_count, d.rate_period_ms, d.burst
    from unnest(p_ids) with ordinality as u (id, ordinal)
    join headway.jobs j on j.id = u.id
    left join headway.limits k on k.scope = 'kind' and k.name = j.kind
    left join lateral (
      select l.max_running
        from headway.limits l
       where l.scope = 'tenant' and l.name in ('*', j.tenant_id::text)
       order by l.name desc
       limit 1
    ) t on true
    cross join lateral (values
      (1, headway.partition_key(j.tenant_id, j.partition), 1, null::integer, null::bigint, null::integer),
      (2, headway.concurrency_key(j.tenant_id, j.kind, j.concurrency_key), j.concurrency, null, null, null),
      (3, headway.kind_key(j.kind),
       coalesce(k.max_running, case when j.concurrency_key is null then j.concurrency end), null, null, null),
      (4, headway.tenant_key(j.tenant_id), t.max_running, null, null, null),
      (5, headway.rate_key(j.tenant_id, j.kind, j.rate_key),
       2147483647, -- no limit of running jobs
       case when j.rate_key is null then coalesce(k.rate_count, j.rate_count) else j.rate_count end,
       case when j.rate_key is null and k.rate_count is not null then k.rate_period_ms else j.rate_period_ms end,
       case when j.rate_key is null and k.rate_count is not null then k.rate_burst else j.rate_burst end)
    ) as d (dim, key, most, rate_count, rate_period_ms, burst)
   where d.key is not null
     and d.most is not null
     and (d.dim < 5 or d.rate_count is not null)
$$;

-- How many more may start under each of these keys now; p_ids has one job of each key. Called under the keys' gates, in
-- a statement after the one that locked them.
create function headway.capacities(
  p_ids uuid[], p_dims integer[], p_keys text[], p_most integer[], p_counts integer[], p_periods_ms bigint[],
  p_bursts integer[], p_now timestamptz
) returns table (key text, room double precision)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return query
    select u.key,
           case u.dim
             when 1 then 1 - (select count(*)
                                from headway.jobs j
                               where j.tenant_id = me.tenant_id and j.partition = me.partition
                                 and j.partition is not null and j.status = 'running')
             when 2 then u.most - (select count(*)
                                     from headway.jobs j
                                    where j.tenant_id = me.tenant_id and j.kind = me.kind
                                      and j.concurrency_key = me.concurrency_key
                                      and j.concurrency_key is not null and j.status = 'running')
             when 3 then u.most - (select count(*)
                                     from headway.jobs j
                                    where j.kind = me.kind and j.limited and j.status = 'running')
             when 4 then u.most - (select count(*)
                                     from headway.jobs j
                                    where j.tenant_id = me.tenant_id and j.limited and j.status = 'running')
             else coalesce(
                    (select headway.rate_room(b, u.count, u.period_ms, u.burst, p_now)
                       from headway.buckets b
                      where b.key = u.key),
                    u.burst, u.count)
           end::double precision
      from unnest(p_ids, p_dims, p_keys, p_most, p_counts, p_periods_ms, p_bursts)
           as u (id, dim, key, most, count, period_ms, burst)
      join headway.jobs me on me.id = u.id;
end
$$;

-- The same for one job and one of its keys; null if that does not limit it.
create function headway.capacity(p_id uuid, p_key text, p_now timestamptz) returns double precision
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select r.room
    from headway.limits_on(array[p_id]) d
    cross join lateral headway.capacities(
      array[d.id], array[d.dim], array[d.key], array[d.most], array[d.rate_count], array[d.rate_period_ms],
      array[d.burst], p_now) r
   where d.key = p_key
$$;
