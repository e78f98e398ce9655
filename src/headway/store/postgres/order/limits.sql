-- Limits. What counts is counted from running rows, so nothing can leak. Who decides about a key (a claim that counts, a
-- settle that frees) locks the key's gate first and looks in the next statement. Gates are locked in order of number, a
-- transaction waits for them once, and whoever holds one waits for nothing else: so there are no circles.

-- Lock the gates of these numbers; gives those that it got. Waits only if this transaction has none yet, and p_wait.
create function headway.lock_gates(p_gates smallint[], p_wait boolean default true) returns smallint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_wait and current_setting('headway.gated', true) is distinct from 'on' then
    perform set_config('headway.gated', 'on', true);
    perform from headway.gates g where g.n = any (p_gates) order by g.n for update;
    return p_gates;
  end if;
  perform set_config('headway.gated', 'on', true);
  return array(select g.n from headway.gates g where g.n = any (p_gates) order by g.n for update skip locked);
end
$$;

-- Make room known: as many jobs aside as each key is named, in each queue that has some, may be claimed again.
create function headway.let_in(p_keys text[], p_wait boolean default true) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gates smallint[] := array(select distinct headway.gate(k) from unnest(p_keys) k);
  v_got smallint[] := headway.lock_gates(v_gates, p_wait);
begin
  if cardinality(v_got) < cardinality(v_gates) then
    insert into headway.arrivals (keys)
    select array_agg(k) from unnest(p_keys) k where headway.gate(k) <> all (v_got);
    p_keys := array(select k from unnest(p_keys) k where headway.gate(k) = any (v_got));
  end if;
  with recursive wanted as (
    select k.key, count(*) as n
      from unnest(p_keys) as k (key)
     where (select 1 from headway.jobs j where j.limited_by = k.key limit 1) is not null
     group by k.key
  ), lane (key, n, queue) as (
    -- the queues that have some, each by one probe
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
    -- lateral: by id and in no other way, whatever the statistics say
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

-- What limits each of these jobs: one row for each key that it has, in the order p, c, k, t, r (1 to 5).
create function headway.demands(p_ids uuid[])
returns table (
  place bigint, id uuid, dim integer, key text, most integer, rate_count integer, rate_period_ms bigint, burst integer
)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select u.place, j.id, d.dim, d.key, d.most, d.rate_count, d.rate_period_ms, d.burst
    from unnest(p_ids) with ordinality as u (id, place)
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
       2147483647,
       case when j.rate_key is null then coalesce(k.rate_count, j.rate_count) else j.rate_count end,
       case when j.rate_key is null and k.rate_count is not null then k.rate_period_ms else j.rate_period_ms end,
       case when j.rate_key is null and k.rate_count is not null then k.rate_burst else j.rate_burst end)
    ) as d (dim, key, most, rate_count, rate_period_ms, burst)
   where d.key is not null
     and d.most is not null
     and (d.dim < 5 or d.rate_count is not null)
$$;

-- How many more may start under each of these keys now, asked for one of its jobs. Under the keys' gates, and in a
-- statement after that.
create function headway.rooms(
  p_ids uuid[], p_dims integer[], p_keys text[], p_most integer[], p_counts integer[], p_periods_ms bigint[],
  p_bursts integer[], p_now timestamptz
) returns table (key text, room double precision)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
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
create function headway.room(p_id uuid, p_key text, p_now timestamptz) returns double precision
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select r.room
    from headway.demands(array[p_id]) d
    cross join lateral headway.rooms(
      array[d.id], array[d.dim], array[d.key], array[d.most], array[d.rate_count], array[d.rate_period_ms],
      array[d.burst], p_now) r
   where d.key = p_key
$$;

-- The claim of a queue that has limits or is fair, or of jobs that carry keys: gives what it set running.
-- What is blocked by a full key is put aside, so that the next claim does not meet it again.
create function headway.claim_limited(
  p_worker uuid, p_queue text, p_limit integer, p_now timestamptz, p_fair boolean, p_most integer, p_only uuid default null
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
-- arrays are joined with each other here
set enable_hashjoin = on
as $$
declare
  v_taken uuid[] := '{}';
  v_ids uuid[];
  v_go uuid[];
  v_asked integer;
  v_aside integer;
  -- what the candidates ask for, and what there is of each key
  d_ids uuid[];
  d_dims integer[];
  d_keys text[];
  d_mosts integer[];
  d_counts integer[];
  d_periods bigint[];
  d_bursts integer[];
  k_keys text[];
  k_rooms double precision[];
  k_counts integer[];
  k_periods bigint[];
  k_bursts integer[];
  k_left double precision[];
  d_keys_at integer[];
  v_id uuid;
  v_from integer;
  v_to integer;
  v_fits boolean;
  v_keys text[];
  v_gates smallint[];
  v_limited uuid[];
  v_busy uuid[] := '{}';  -- whose unique key somebody's open transaction has
begin
  if p_most is not null then
    if current_setting('headway.gated', true) is distinct from 'on' then
      perform from headway.gates g where g.n = headway.queue_gate(p_queue) for update;
    else
      perform from headway.gates g where g.n = headway.queue_gate(p_queue) for update skip locked;
      if not found then
        return v_taken;
      end if;
    end if;
    select least(p_limit, p_most - count(*))
      into p_limit
      from headway.jobs j
     where j.queue = p_queue and j.limited and j.status = 'running';
  end if;
  for v_round in 1 .. 10 loop
    v_asked := p_limit - cardinality(v_taken);
    exit when v_asked <= 0;
    if p_only is not null then
      exit when p_only = any (v_busy);
      v_ids := array[p_only];
    elsif p_fair then
      v_ids := headway.pick_fair(p_queue, v_asked, p_now, v_busy);
    else
      v_ids := array(
        select j.id
          from headway.jobs j
         where j.queue = p_queue
           and j.status = 'queued'
           and j.limited_by is null
           and (j.expires_at is null or j.expires_at > p_now)
           and j.id <> all (v_busy)
         order by j.priority, j.position, j.id
         -- a worker with few slots must get past many that are limited out
         limit case when v_round = 1 then v_asked else greatest(v_asked, 100) end
           for update skip locked);
    end if;
    exit when cardinality(v_ids) = 0;

    select array_agg(d.id order by d.place, d.dim), array_agg(d.dim order by d.place, d.dim),
           array_agg(d.key order by d.place, d.dim), array_agg(d.most order by d.place, d.dim),
           array_agg(d.rate_count order by d.place, d.dim), array_agg(d.rate_period_ms order by d.place, d.dim),
           array_agg(d.burst order by d.place, d.dim)
      into d_ids, d_dims, d_keys, d_mosts, d_counts, d_periods, d_bursts
      from headway.demands(v_ids) d;
    v_gates := array(select distinct headway.gate(k) from unnest(d_keys) k);
    exit when cardinality(headway.lock_gates(v_gates)) < cardinality(v_gates);

    -- a new snapshot: who had a gate before has committed
    select array_agg(r.key), array_agg(r.room), array_agg(f.count), array_agg(f.period_ms), array_agg(f.burst)
      into k_keys, k_rooms, k_counts, k_periods, k_bursts
      from (select array_agg(u.id) as ids, array_agg(u.dim) as dims, array_agg(u.key) as keys, array_agg(u.most) as mosts,
                   array_agg(u.count) as counts, array_agg(u.period_ms) as periods, array_agg(u.burst) as bursts
              from (select distinct on (u.key) u.*
                      from unnest(d_ids, d_dims, d_keys, d_mosts, d_counts, d_periods, d_bursts)
                           with ordinality as u (id, dim, key, most, count, period_ms, burst, place)
                     order by u.key, u.place) u) a
      cross join lateral headway.rooms(a.ids, a.dims, a.keys, a.mosts, a.counts, a.periods, a.bursts, p_now)
        with ordinality as r (key, room, place)
      cross join lateral (
        select a.counts[r.place] as count, a.periods[r.place] as period_ms, a.bursts[r.place] as burst) f;

    -- in order, each that has room under all its keys; one that has not stands in nobody's way
    d_keys_at := array(
      select k.place
        from unnest(d_keys) with ordinality as d (key, place)
        join unnest(k_keys) with ordinality as k (key, place) on k.key = d.key
       order by d.place);
    k_left := array(select floor(r.room) from unnest(k_rooms) with ordinality as r (room, place) order by r.place);
    v_go := '{}';
    v_to := 1;
    foreach v_id in array v_ids loop
      exit when cardinality(v_go) >= v_asked;
      v_from := v_to;
      v_fits := true;
      while d_ids[v_to] = v_id loop
        v_fits := v_fits and k_left[d_keys_at[v_to]] >= 1;
        v_to := v_to + 1;
      end loop;
      if v_fits then
        v_go := v_go || v_id;
        for i in v_from .. v_to - 1 loop
          k_left[d_keys_at[i]] := k_left[d_keys_at[i]] - 1;
        end loop;
      end if;
    end loop;

    v_limited := array(select d.id from unnest(d_ids, d_dims) as d (id, dim) where d.dim in (3, 4));
    begin
      perform headway.start(v_go, p_worker, p_now, p_most is not null, v_limited);
    exception
      when unique_violation then
        if headway.supersede_entering(v_go, p_now) = 0 then
          raise;
        end if;
        continue;
      when lock_not_available then
        v_busy := v_busy || headway.busy_keys(v_go, p_worker, p_now);
        continue;
    end;
    v_taken := v_taken || v_go;

    insert into headway.buckets (key, at, tokens, starts, counts, full_at)
    select k.key, s.at, s.tokens, s.starts, s.counts, s.full_at
      from unnest(k_keys, k_rooms, k_left, k_counts, k_periods, k_bursts)
           as k (key, room, rest, rate_count, period_ms, burst)
      left join headway.buckets b on b.key = k.key
      cross join lateral headway.rate_started(
        b, (floor(k.room) - k.rest)::integer, k.rate_count, k.period_ms, k.burst, p_now) s
     where k.rate_count is not null
       and k.rest < floor(k.room)
    on conflict (key) do update
      set at = excluded.at, tokens = excluded.tokens, starts = excluded.starts, counts = excluded.counts,
          full_at = excluded.full_at;

    exit when p_only is not null;
    -- aside goes what is left over and has a key that is full now
    with left_over as (
      select distinct on (d.id) d.id, d.key
        from unnest(d_ids, d_dims, d_keys) as d (id, dim, key)
        join unnest(k_keys, k_left) as k (key, rest) on k.key = d.key
        left join unnest(v_go) as g (id) on g.id = d.id
       where g.id is null
         and k.rest < 1
       order by d.id, d.dim
    ), aside as (
      update headway.jobs j
         set limited_by = l.key
        from left_over l
       where j.id = l.id
      returning j.limited_by as key
    ), woken as (
      -- a start comes back with time, and by nobody's settle
      update headway.buckets b
         set wake_at = headway.rate_next(b, k.rate_count, k.period_ms, k.burst, p_now)
        from (select distinct a.key from aside a) a
        join unnest(k_keys, k_counts, k_periods, k_bursts) as k (key, rate_count, period_ms, burst) on k.key = a.key
       where k.rate_count is not null
         and b.key = a.key
         and b.wake_at is null
    )
    select count(*) into v_aside from aside;
    exit when v_aside = 0;

    -- one that was put aside under a key stands for its other keys no longer: if these have room, another comes forward
    v_keys := array(
      select distinct d.key
        from unnest(d_ids, d_keys) as d (id, key)
        join headway.jobs j on j.id = d.id
        join unnest(k_keys, k_left) as k (key, rest) on k.key = d.key
       where (j.limited_by is not null and j.limited_by <> d.key) is true
         and k.rest >= 1
         and (select 1 from headway.jobs w where w.limited_by = d.key limit 1) is not null);
    if cardinality(v_keys) > 0 then
      perform headway.let_in(v_keys, false);
    end if;
  end loop;
  return v_taken;
end
$$;

-- Set jobs running that a claim has locked. Waits for nobody: the one thing that another may have is a unique key whose
-- scope some of them enter by this, and who waited for it would do so with the gates of its limits (55P03).
create function headway.start(
  p_ids uuid[], p_worker uuid, p_now timestamptz, p_counted boolean, p_limited uuid[]
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set lock_timeout = '10ms'
as $$
begin
  update headway.jobs j
     set status = 'running',
         fence = j.fence + 1,
         worker_id = p_worker,
         attempt_started_at = p_now,
         started_at = coalesce(j.started_at, p_now),
         limited = nullif(p_counted or j.id = any (p_limited), false),
         limited_by = null,
         progress = null,
         progress_note = null,
         log_tail = null,
         log_end = null
   where j.id = any (p_ids);
end
$$;

-- Those of these jobs that cannot be started now, since somebody's open transaction has their unique key. Tries each and
-- takes it back.
create function headway.busy_keys(p_ids uuid[], p_worker uuid, p_now timestamptz) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
  v_busy uuid[] := '{}';
begin
  for v_id in
    select j.id
      from headway.jobs j
     where j.id = any (p_ids)
       and j.unique_key is not null
       and 'running' = any (j.unique_scope)
       and not 'queued' = any (j.unique_scope)
  loop
    begin
      perform headway.start(array[v_id], p_worker, p_now, false, '{}');
      raise exception using errcode = 'transaction_rollback';
    exception
      when lock_not_available then
        v_busy := v_busy || v_id;
      when unique_violation or transaction_rollback then
        null;
    end;
  end loop;
  return v_busy;
end
$$;

-- Candidates of a fair queue, locked: from tenant to tenant, beginning after the one that was served last.
create function headway.pick_fair(p_queue text, p_limit integer, p_now timestamptz, p_except uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
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
    -- the tenants that have something, each by one probe; those after the turn first
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
        from (select c.id, c.place, c.rank
                from (select t.place, j.id,
                             row_number() over (partition by t.place order by j.priority, j.position, j.id) as rank
                        from unnest(v_tenants) with ordinality as t (tenant_id, place)
                        cross join lateral (
                          select j.id, j.priority, j.position
                            from headway.jobs j
                           where j.queue = p_queue and j.tenant_id = t.tenant_id and j.fair
                             and j.status = 'queued' and j.limited_by is null
                             and (j.expires_at is null or j.expires_at > p_now)
                             and j.id <> all (v_ids || p_except)
                           order by j.priority, j.position, j.id
                           limit (p_limit - cardinality(v_ids) + cardinality(v_tenants) - 1) / cardinality(v_tenants)
                        ) j) c
               order by c.rank, c.place
               limit p_limit - cardinality(v_ids)) c
        cross join lateral (
          select j.id
            from headway.jobs j
           where j.id = c.id and j.status = 'queued' and j.limited_by is null
             for update skip locked) l
       order by c.rank, c.place);
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

-- Of these jobs, end those that would enter a unique scope by running and find it taken; gives how many.
create function headway.supersede_entering(p_ids uuid[], p_now timestamptz) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
begin
  with entering as (
    select j.id,
           headway.holder(j) as holder,
           first_value(j.id) over (
             partition by j.tenant_id, j.kind, j.unique_key order by j.priority, j.position, j.id) as first
      from headway.jobs j
     where j.id = any (p_ids)
       and j.unique_key is not null
       and 'running' = any (j.unique_scope)
       and not 'queued' = any (j.unique_scope)
  )
  select array_agg(headway.supersede(e.id, p_now, coalesce(e.holder, e.first)))
    into v_ended
    from entering e
   where e.holder is not null
      or e.first <> e.id;
  if v_ended is null then
    return 0;
  end if;
  perform headway.follow(v_ended, p_now, false);
  return cardinality(v_ended);
end
$$;

-- Set, or with nothing but nulls remove, the limit of a queue, kind or tenant, for the very next claim: waits for the
-- claims under way. First for the limit's row, without the lock that all claims share; with that lock, for the rows of
-- running jobs, for a moment each (55P03): nothing is written then.
create function headway.set_limit(
  p_scope text,
  p_name text,
  p_max_running integer default null,
  p_rate_count integer default null,
  p_rate_period_ms bigint default null,
  p_rate_burst integer default null,
  p_max_pending integer default null,
  p_actor text default null,
  p_max_bytes bigint default null,
  p_max_events integer default null,
  p_max_schedules integer default null,
  p_max_group integer default null,
  p_max_fan_out integer default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz := headway.now();
begin
  perform from headway.limits l where l.scope = p_scope and l.name = p_name for update;
  perform pg_advisory_xact_lock(headway.limits_lock());
  perform set_config('lock_timeout', '250ms', true);
  if num_nonnulls(p_max_running, p_rate_count, p_max_pending, p_max_bytes, p_max_events, p_max_schedules, p_max_group,
                  p_max_fan_out) = 0
  then
    delete from headway.limits l where l.scope = p_scope and l.name = p_name;
  else
    insert into headway.limits (
      scope, name, max_running, rate_count, rate_period_ms, rate_burst, max_pending, max_bytes, max_events,
      max_schedules, max_group, max_fan_out)
    values (
      p_scope, p_name, p_max_running, p_rate_count, p_rate_period_ms, p_rate_burst, p_max_pending, p_max_bytes,
      p_max_events, p_max_schedules, p_max_group, p_max_fan_out)
    on conflict (scope, name) do update
      set max_running = excluded.max_running, rate_count = excluded.rate_count,
          rate_period_ms = excluded.rate_period_ms, rate_burst = excluded.rate_burst, max_pending = excluded.max_pending,
          max_bytes = excluded.max_bytes, max_events = excluded.max_events, max_schedules = excluded.max_schedules,
          max_group = excluded.max_group, max_fan_out = excluded.max_fan_out;
  end if;
  -- what runs already counts from now on
  if p_max_running is not null then
    update headway.jobs j
       set limited = true
     where j.status = 'running'
       and j.limited is not true
       and case p_scope
             when 'queue' then j.queue = p_name
             when 'kind' then j.kind = p_name
             else p_name = '*' or j.tenant_id::text = p_name
           end;
  end if;
  if (p_max_pending is not null or p_max_bytes is not null) and p_name <> '*' then
    update headway.jobs j
       set metered = true
     where j.id in (select m.id
                      from headway.jobs m
                     where m.tenant_id::text = p_name
                       and m.status in ('queued', 'scheduled', 'held', 'waiting')
                     -- as many as the limit needs to know of
                     limit case when p_max_bytes is null then p_max_pending else 100000 end);
  end if;
  -- what waited asks again
  update headway.jobs j
     set limited_by = null
   where j.limited_by is not null
     and (p_scope = 'kind' and j.limited_by in (headway.kind_key(p_name), headway.rate_key(null, p_name, null))
          or p_scope = 'tenant' and (j.limited_by = 't:' || p_name or p_name = '*' and j.limited_by like 't:%'));
  update headway.buckets b set wake_at = null where p_scope = 'kind' and b.key = headway.rate_key(null, p_name, null);
  insert into headway.audit (at, actor, action, detail)
  values (v_now, p_actor, 'limit',
          p_scope || ' ' || p_name || ': '
          || coalesce(concat_ws(', ', 'max_running ' || p_max_running,
                                'rate ' || p_rate_count || ' in ' || p_rate_period_ms || ' ms',
                                'burst ' || p_rate_burst, 'max_pending ' || p_max_pending,
                                'max_bytes ' || p_max_bytes, 'max_events ' || p_max_events,
                                'max_schedules ' || p_max_schedules, 'max_group ' || p_max_group,
                                'max_fan_out ' || p_max_fan_out), 'none'));
end
$$;

-- The lock that all claims share and a change of limits takes alone.
create function headway.limits_lock() returns bigint
language sql stable
as $$ select headway.lock_key('limits') $$;

-- Let a queue take tenants in turn, or not.
create function headway.set_fair(p_queue text, p_fair boolean, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into headway.queues as q (name, fair, fair_since)
  values (p_queue, p_fair, case when p_fair then pg_current_xact_id() end)
  on conflict (name) do update
    set fair = excluded.fair,
        fair_since = case when q.fair and excluded.fair then q.fair_since else excluded.fair_since end;
  insert into headway.audit (at, actor, action, detail)
  values (headway.now(), p_actor, case when p_fair then 'fair' else 'not fair' end, p_queue);
end
$$;

-- A queue was made fair: mark its unfinished jobs, once nobody is left who may have enqueued without knowing.
-- True if the queue can be served fairly.
create function headway.ready_fair(p_queue text, p_since xid8) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if pg_snapshot_xmin(pg_current_snapshot()) <= p_since then
    return false;
  end if;
  perform from headway.queues q where q.name = p_queue and q.fair_since = p_since for update skip locked;
  if not found then
    return false;
  end if;
  update headway.jobs j
     set fair = true
   where j.queue = p_queue
     and j.fair is not true
     and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running');
  update headway.queues q set fair_since = null where q.name = p_queue;
  return true;
end
$$;

-- How many jobs run under a limit's key, and how many wait for it (up to 10,000): of the tenant, or of the session's own.
create function headway.usage(p_key text, p_tenant uuid default null, out running bigint, out waiting bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_parts text[] := regexp_match(p_key, '^.:([^|]*)(?:\|(.*))?$');
  v_tenant uuid := headway.scope(p_tenant);
begin
  -- another tenant's key is not this session's business
  perform headway.scope(case when left(p_key, 1) in ('t', 'p', 'c') then v_parts[1]::uuid end);
  case left(p_key, 1)
    when 'p' then
      select count(*) into running
        from headway.jobs j
       where j.tenant_id = v_parts[1]::uuid and j.partition = v_parts[2] and j.partition is not null
         and j.status = 'running';
    when 'c' then
      select count(*) into running
        from headway.jobs j
       where j.tenant_id = v_parts[1]::uuid and j.kind = split_part(v_parts[2], '|', 1)
         and j.concurrency_key = substr(v_parts[2], length(split_part(v_parts[2], '|', 1)) + 2)
         and j.concurrency_key is not null and j.status = 'running';
    when 'k' then
      select count(*) into running
        from headway.jobs j
       where j.kind = substr(p_key, 3) and j.limited and j.status = 'running'
         and (v_tenant is null or j.tenant_id = v_tenant);
    when 't' then
      select count(*) into running
        from headway.jobs j where j.tenant_id = substr(p_key, 3)::uuid and j.limited and j.status = 'running';
    else
      running := 0;
  end case;
  select count(*) into waiting
    from (select
            from headway.jobs j
           where j.limited_by = p_key and (v_tenant is null or j.tenant_id = v_tenant)
           limit 10000) w;
end
$$;
