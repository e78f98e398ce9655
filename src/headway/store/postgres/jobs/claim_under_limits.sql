-- Claims from a queue that has limits or is fair, or of jobs that have keys.

-- Start up to p_limit jobs, as far as their limits allow; gives them. Sets aside jobs whose key is full (limited_by),
-- so that the next claim does not find them again. p_most is the limit of the queue; p_only claims one job by its id.
-- p_kinds: only jobs of these kinds (pick_kinds). p_flows: flows, too. p_fair: tenants take turns; or with p_tenant, whose jobs alone are taken then: p_indexed of pick_tenant. p_changing: somebody changes a limit and has not committed, so jobs that it is about are left out.
create function headway.claim_under_limits(
  p_worker uuid, p_queue text, p_limit integer, p_now timestamptz, p_fair boolean, p_most integer,
  p_only uuid default null, p_changing boolean default false, p_tenant uuid default null, p_kinds text[] default null,
  p_flows boolean default true
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
-- arrays are joined with each other here, and the claim around this has switched hash joins off
set enable_hashjoin = on
as $$
declare
  v_taken uuid[] := '{}';
  v_ids uuid[];
  v_go uuid[];
  v_asked integer;
  v_aside integer;
  -- d_: a row for each candidate and key; k_: a row for each key
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
  v_bytes bigint[];  -- of each candidate
  v_room bigint := headway.claim_bytes();
  v_at integer;
  v_busy uuid[] := '{}';  -- jobs whose unique key somebody's open transaction has, and flows that it may not take
  v_flows uuid[];
  v_changed text[] := '{}';  -- kinds, and tenants as texts, whose limit somebody's open transaction changes
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
  -- ten rounds pass over about a thousand jobs that their limits keep back; the next claim goes on
  for v_round in 1 .. 10 loop
    v_asked := p_limit - cardinality(v_taken);
    exit when v_asked <= 0;
    if p_only is not null then
      exit when p_only = any (v_busy);
      v_ids := array[p_only];
    elsif p_kinds is not null then
      v_ids := headway.pick_kinds(
        p_queue, p_kinds, p_tenant, p_fair, case when v_round = 1 then v_asked else greatest(v_asked, 100) end, p_now, v_busy,
        v_changed, p_flows);
    elsif p_tenant is not null then
      v_ids := headway.pick_tenant(
        p_queue, p_tenant, p_fair, case when v_round = 1 then v_asked else greatest(v_asked, 100) end, p_now, v_busy,
        v_changed, p_flows);
    elsif p_fair then
      v_ids := headway.pick_fair(p_queue, v_asked, p_now, v_busy, v_changed);
    else
      v_ids := array(
        select j.id
          from headway.jobs j
         where j.queue = p_queue
           and j.status = 'queued'
           and j.limited_by is null
           and (j.expires_at is null or j.expires_at > p_now)
           and j.id <> all (v_busy)
           and (v_changed = '{}' or j.kind <> all (v_changed) and j.tenant_id::text <> all (v_changed))
           and (p_flows or j.step is distinct from '$flow')
         order by j.priority, j.position, j.id
         -- a worker with few slots must get past many jobs that their limits keep back
         limit case when v_round = 1 then v_asked else greatest(v_asked, 100) end
           for update skip locked);
    end if;
    exit when cardinality(v_ids) = 0;
    if not p_flows and p_fair and p_tenant is null and p_kinds is null then
      v_flows := array(select j.id from unnest(v_ids) as u (id) join headway.jobs j on j.id = u.id where j.step = '$flow');
      if cardinality(v_flows) > 0 then
        v_busy := v_busy || v_flows;
        v_ids := array(
          select u.id from unnest(v_ids) with ordinality as u (id, ordinal) where u.id <> all (v_flows) order by u.ordinal);
        continue when cardinality(v_ids) = 0;
      end if;
    end if;
    if p_changing then
      v_changed := v_changed || headway.changing_limits(v_ids);
      v_ids := array(
        select j.id
          from unnest(v_ids) with ordinality as u (id, ordinal)
          join headway.jobs j on j.id = u.id
         where j.kind <> all (v_changed) and j.tenant_id::text <> all (v_changed)
         order by u.ordinal);
      continue when cardinality(v_ids) = 0;
    end if;
    -- as many as this claim has bytes left for, but at least one in all
    select array_agg(s.id order by s.ordinal), array_agg(s.bytes order by s.ordinal)
      into v_ids, v_bytes
      from (select c.id, c.ordinal, c.bytes, sum(c.bytes) over (order by c.ordinal) as total
              from (select j.id, u.ordinal,
                           headway.text_bytes(j.payload) + coalesce(headway.text_bytes(j.state), 0)
                           + case when exists (select from headway.signals limit 1)
                                  then coalesce(headway.inbox_bytes(j.id), 0)
                                  else 0
                             end as bytes
                      from unnest(v_ids) with ordinality as u (id, ordinal)
                      join headway.jobs j on j.id = u.id) c) s
     where s.total <= v_room
        or s.ordinal = 1 and cardinality(v_taken) = 0;
    exit when v_ids is null;

    select array_agg(d.id order by d.ordinal, d.dim), array_agg(d.dim order by d.ordinal, d.dim),
           array_agg(d.key order by d.ordinal, d.dim), array_agg(d.most order by d.ordinal, d.dim),
           array_agg(d.rate_count order by d.ordinal, d.dim), array_agg(d.rate_period_ms order by d.ordinal, d.dim),
           array_agg(d.burst order by d.ordinal, d.dim)
      into d_ids, d_dims, d_keys, d_mosts, d_counts, d_periods, d_bursts
      from headway.limits_on(v_ids) d;
    v_gates := array(select distinct headway.gate(k) from unnest(d_keys) k);
    exit when cardinality(headway.lock_gates(v_gates)) < cardinality(v_gates);

    -- a new snapshot: the last holders of the gates have committed
    select array_agg(r.key), array_agg(r.room), array_agg(f.count), array_agg(f.period_ms), array_agg(f.burst)
      into k_keys, k_rooms, k_counts, k_periods, k_bursts
      from (select array_agg(u.id) as ids, array_agg(u.dim) as dims, array_agg(u.key) as keys, array_agg(u.most) as mosts,
                   array_agg(u.count) as counts, array_agg(u.period_ms) as periods, array_agg(u.burst) as bursts
              from (select distinct on (u.key) u.*
                      from unnest(d_ids, d_dims, d_keys, d_mosts, d_counts, d_periods, d_bursts)
                           with ordinality as u (id, dim, key, most, count, period_ms, burst, ordinal)
                     order by u.key, u.ordinal) u) a
      cross join lateral headway.capacities(a.ids, a.dims, a.keys, a.mosts, a.counts, a.periods, a.bursts, p_now)
        with ordinality as r (key, room, ordinal)
      cross join lateral (
        select a.counts[r.ordinal] as count, a.periods[r.ordinal] as period_ms, a.bursts[r.ordinal] as burst) f;

    -- in order, each job that has capacity under all its keys; one that has not does not block the next
    d_keys_at := array(
      select k.ordinal
        from unnest(d_keys) with ordinality as d (key, ordinal)
        join unnest(k_keys) with ordinality as k (key, ordinal) on k.key = d.key
       order by d.ordinal);
    k_left := array(select floor(r.room) from unnest(k_rooms) with ordinality as r (room, ordinal) order by r.ordinal);
    v_go := '{}';
    v_to := 1;
    v_at := 0;
    foreach v_id in array v_ids loop
      exit when cardinality(v_go) >= v_asked;
      v_at := v_at + 1;
      v_from := v_to;
      v_fits := true;
      while d_ids[v_to] = v_id loop
        v_fits := v_fits and k_left[d_keys_at[v_to]] >= 1;
        v_to := v_to + 1;
      end loop;
      if v_fits then
        v_go := v_go || v_id;
        v_room := v_room - v_bytes[v_at];
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
    -- set aside the jobs that are left over and have a key that is full now
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
      -- no settle gives a rate its capacity back, only time does: promote brings these jobs back
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

    -- a job set aside under one key may have used the admission of another key that has capacity: admit another job
    -- there
    v_keys := array(
      select distinct d.key
        from unnest(d_ids, d_keys) as d (id, key)
        join headway.jobs j on j.id = d.id
        join unnest(k_keys, k_left) as k (key, rest) on k.key = d.key
       where (j.limited_by is not null and j.limited_by <> d.key) is true
         and k.rest >= 1
         and (select 1 from headway.jobs w where w.limited_by = d.key limit 1) is not null);
    if cardinality(v_keys) > 0 then
      perform headway.try_admit(v_keys);
    end if;
  end loop;
  return v_taken;
end
$$;

-- Set jobs running that a claim has locked. Does not wait (55P03): another transaction may have a unique key whose
-- scope some of them enter by running, and this one must not wait for it with gates locked.
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

-- Those of these jobs that cannot start because somebody's open transaction has their unique key. Starts each, and
-- rolls back.
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
