-- Arrivals: work that has to wait for a commit. A transaction that enqueues, cancels or ends something inserts a row;
-- once it has committed, the first step of the next claim (process_arrivals) processes that row.

-- Process what arrived. One caller at a time; it never waits, and costs one probe when nothing arrived. Where more
-- arrived than p_limit, tenants take turns. Gives how many arrivals it took.
create function headway.process_arrivals(p_limit integer default 500) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
-- arrays are joined with each other here, and the claim around this has switched hash joins off
set enable_hashjoin = on
set lock_timeout = '50ms' -- a claim waits for this
as $$
declare
  v_taken integer := 0;
  v_round integer;
  v_until timestamptz := clock_timestamp() + interval '50 milliseconds';
begin
  perform from headway.arrivals limit 1;
  if not found then
    return 0;
  end if;
  -- gate 0: one transaction processes arrivals at a time
  perform from headway.gates g where g.n = 0 for update skip locked;
  if not found then
    return 0;
  end if;
  -- what one round queues or ends may set more free; what somebody has locked is left for the next claim
  for i in 1 .. 5 loop
    v_round := headway.process_round(p_limit);
    v_taken := v_taken + v_round;
    -- a claim waits for this, so it ends after 50 ms; but not before the third round, so that a chain settled just now
    -- moves on even where the first round of a session takes long. Of what is done in pieces, the next claims do more
    exit when v_round = 0
           or clock_timestamp() > v_until and (i >= 3 or current_setting('headway.rest_left', true) = 'on');
  end loop;
  return v_taken;
end
$$;

-- Note, until this transaction ends, that one piece of something large was done and its rest left as an arrival.
create function headway.note_rest() returns void
language sql
set search_path = pg_catalog, pg_temp
as $$ select set_config('headway.rest_left', 'on', true) $$;

-- One round of process_arrivals, under gate 0.
create function headway.process_round(p_limit integer) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  -- only the holder of gate 0 deletes arrivals, and nobody updates one: ctids stay valid
  v_rows tid[] := array(select a.ctid from headway.arrivals a limit p_limit);
  v_taken integer;
  v_tenants uuid[];
  v_trains text[];
  v_jobs uuid[];
  v_ended uuid[];
  v_keys text[];
  v_groups uuid[];
  v_signaled uuid[];
  v_orphaned uuid[];
  v_revived uuid[];
  v_stopping uuid[];
  v_resumed uuid[];
  v_clearing record;
begin
  if cardinality(v_rows) = p_limit then
    v_rows := headway.arrivals_in_turn(p_limit);
  end if;
  v_rows := headway.arrivals_of_a_piece(v_rows);
  with taken as materialized (
    delete from headway.arrivals a
     where a.ctid = any (array(select o.ctid from headway.arrivals o where o.ctid = any (v_rows) for update skip locked))
    returning a.tenant_id, a.trains, a.jobs, a.ended, a.keys, a.groups, a.signaled, a.orphaned, a.revived,
              a.stopping, a.resumed
  )
  select (select count(*) from taken),
         t.tenants, t.trains,
         -- the first id of every arrival first: an arrival of one job does not wait behind one of thousands
         (select array_agg(d.id order by d.n)
            from (select u.id, min(u.n) as n
                    from taken k, unnest(k.jobs) with ordinality as u (id, n)
                   group by u.id) d),
         (select array_agg(d.id order by d.n)
            from (select u.id, min(u.n) as n
                    from taken k, unnest(k.ended) with ordinality as u (id, n)
                   group by u.id) d),
         (select array_agg(u) from taken k, unnest(k.keys) u),
         (select array_agg(distinct u) from taken k, unnest(k.groups) u),
         (select array_agg(d.id order by d.n)
            from (select u.id, min(u.n) as n
                    from taken k, unnest(k.signaled) with ordinality as u (id, n)
                   group by u.id) d),
         (select array_agg(distinct u) from taken k, unnest(k.orphaned) u),
         (select array_agg(distinct u) from taken k, unnest(k.revived) u),
         (select array_agg(distinct u) from taken k, unnest(k.stopping) u),
         (select array_agg(distinct u) from taken k, unnest(k.resumed) u)
    into v_taken, v_tenants, v_trains, v_jobs, v_ended, v_keys, v_groups, v_signaled, v_orphaned, v_revived, v_stopping,
         v_resumed
    from (select array_agg(w.tenant_id order by w.tenant_id, w.train) as tenants,
                 array_agg(w.train order by w.tenant_id, w.train) as trains
            from (select distinct k.tenant_id, u.train from taken k, unnest(k.trains) as u (train)) w) t;

  if greatest(cardinality(v_jobs), cardinality(v_ended), cardinality(v_signaled)) > headway.piece() then
    -- in pieces, of which later rounds read no more than they process
    insert into headway.arrivals (jobs, ended, signaled)
    select nullif(v_jobs[n : n + headway.piece() - 1], '{}'), nullif(v_ended[n : n + headway.piece() - 1], '{}'),
           nullif(v_signaled[n : n + headway.piece() - 1], '{}')
      from generate_series(
        headway.piece() + 1, greatest(cardinality(v_jobs), cardinality(v_ended), cardinality(v_signaled)),
        headway.piece()) as n;
    perform headway.note_rest();
    v_jobs := v_jobs[: headway.piece()];
    v_ended := v_ended[: headway.piece()];
    v_signaled := v_signaled[: headway.piece()];
  end if;

  -- one bad row must not stop everybody's claims: what would wait, or fails, is put back as an arrival
  perform headway.process_each('groups', v_groups, v_now), headway.process_each('stopping', v_stopping, v_now),
          headway.process_each('orphaned', v_orphaned, v_now), headway.process_each('revived', v_revived, v_now),
          headway.process_each('signaled', v_signaled, v_now), headway.process_each('jobs', v_jobs, v_now),
          headway.process_each('ended', v_ended, v_now), headway.process_each('resumed', v_resumed, v_now);
  if v_keys is not null then
    begin
      perform headway.try_admit(v_keys);
    exception when others then
      perform headway.warn_of(sqlstate, sqlerrm);
      insert into headway.arrivals (keys) values (v_keys);
    end;
  end if;
  if v_trains is null then
    return v_taken;
  end if;

  for v_clearing in
    select o.tenant_id, o.train
      from unnest(v_tenants, v_trains) as w (tenant_id, train)
      join headway.holds o on o.tenant_id = w.tenant_id and o.train = w.train and o.clear_to is not null
  loop
    begin
      perform headway.clear_some(v_clearing.tenant_id, v_clearing.train, v_now);
    exception when others then
      perform headway.warn_of(sqlstate, sqlerrm);
      insert into headway.arrivals (tenant_id, trains) values (v_clearing.tenant_id, array[v_clearing.train]);
    end;
  end loop;

  -- a locomotive that can be locked is not ending now: its settle will see these cars. Only other trains may start
  with train as (
    select *
      from unnest(v_tenants, v_trains) as w (tenant_id, train)
     where (select 1
              from headway.jobs h
             where h.tenant_id = w.tenant_id and h.train = w.train and h.train is not null and h.status = 'held'
             limit 1) is not null
  ), still as materialized (
    select l.tenant_id, l.train
      from train t
      cross join lateral (
        select j.tenant_id, j.train
          from headway.jobs j
         where j.tenant_id = t.tenant_id and j.train = t.train and j.train is not null
           and j.status in ('queued', 'running', 'scheduled', 'waiting')
           for share skip locked) l
  )
  select array_agg(t.tenant_id order by t.tenant_id, t.train), array_agg(t.train order by t.tenant_id, t.train)
    into v_tenants, v_trains
    from train t
   where (t.tenant_id, t.train) not in (select s.tenant_id, s.train from still s);
  if v_trains is not null then
    perform headway.release_first_cars_each(v_tenants, v_trains, v_now);
  end if;
  return v_taken;
end
$$;

-- Up to p_limit arrivals (a few more where many tenants share them), each tenant's oldest.
create function headway.arrivals_in_turn(p_limit integer) returns tid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenants uuid[] := headway.tenants_in_turn('arrivals', p_limit, null);
begin
  return array(
    select s.ctid
      from unnest(v_tenants) as o (tenant_id)
      cross join lateral (
        select a.ctid
          from headway.arrivals a
         where a.tenant_id = o.tenant_id
         order by a.id
         limit (p_limit + cardinality(v_tenants) - 1) / cardinality(v_tenants)
           for update skip locked) s);
end
$$;

-- Those of these arrivals that make up about one piece: the oldest, and the smallest before the large ones, so that an
-- arrival of one job does not wait behind one of thousands.
create function headway.arrivals_of_a_piece(p_rows tid[]) returns tid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select array_agg(w.ctid)
    from (select s.ctid, s.id = min(s.id) over () as oldest, sum(s.size) over (order by s.size, s.id) - s.size as before
            from (select a.ctid, a.id,
                         coalesce(cardinality(a.jobs), 0) + coalesce(cardinality(a.ended), 0)
                           + coalesce(cardinality(a.signaled), 0) as size
                    from headway.arrivals a
                   where a.ctid = any (p_rows)) s) w
   where w.oldest
      or w.before < headway.piece()
$$;

-- Process arrivals of one sort: groups to be stopped (groups), and to be stopped further (stopping); machines that
-- ended before their children (orphaned); jobs that run again and whose end had canceled others (revived); machines
-- that got signals (signaled); new jobs that wait for others (jobs); jobs that ended and that others may wait for
-- (ended); tenants whose jobs come back (resumed).
create function headway.process_arrived(p_what text, p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  case p_what
    when 'groups' then perform headway.stop_groups(p_ids, null, p_now);
    when 'stopping' then perform headway.stop_groups(null, p_ids, p_now);
    when 'orphaned' then perform headway.stop_children(p_ids, p_now);
    when 'revived' then perform headway.revive(p_ids, p_now, null, false);
    when 'signaled' then perform headway.deliver(p_ids, p_now);
    when 'jobs' then perform headway.join_jobs(p_ids, null, p_now);
    when 'resumed' then perform headway.readmit_tenants(p_ids);
    else perform headway.join_jobs(null, p_ids, p_now);
  end case;
end
$$;

-- The same, one by one where it fails for all of them; those that fail alone are put back.
create function headway.process_each(p_what text, p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_id uuid;
  v_left uuid[];
begin
  if p_ids is null then
    return;
  end if;
  begin
    perform headway.process_arrived(p_what, p_ids, p_now);
    return;
  exception when others then
    null;
  end;
  foreach v_id in array p_ids loop
    begin
      perform headway.process_arrived(p_what, array[v_id], p_now);
    exception when others then
      perform headway.warn_of(sqlstate, p_what || ' ' || v_id || ': ' || sqlerrm);
      v_left := v_left || v_id;
    end;
  end loop;
  insert into headway.arrivals (groups, stopping, orphaned, revived, signaled, jobs, ended, resumed)
  select case p_what when 'groups' then v_left end, case p_what when 'stopping' then v_left end,
         case p_what when 'orphaned' then v_left end, case p_what when 'revived' then v_left end,
         case p_what when 'signaled' then v_left end, case p_what when 'jobs' then v_left end,
         case p_what when 'ended' then v_left end, case p_what when 'resumed' then v_left end
   where v_left is not null;
end
$$;

-- Write to the server's log why a row could not be processed, unless a lock was in the way.
create function headway.warn_of(p_state text, p_message text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_state not in ('55P03', '40P01') then
    raise warning 'headway: a row could not be processed and is left for the next round: % %', p_state, p_message;
  end if;
end
$$;
