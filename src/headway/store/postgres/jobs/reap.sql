-- End the executions of workers that are gone: their lease is over, they are not registered, or p_gone names them; and those
-- that are running under nobody, as no verb leaves them. Skips rows that somebody holds, and what somebody's open
-- transaction is in the way of: the next round has them. What cannot be ended is given with its fault, and stops nobody
-- else's end. Removes those workers once nothing runs under them.
-- p_by is the worker that asks. A database that stood still could not hear heartbeats, so leases that ran out meanwhile say
-- nothing: who has not beaten in time itself, for one whole lease, takes nobody but p_gone. Null: the clock decides.
create function headway.reap(p_gone uuid[], p_limit integer, p_by uuid default null)
returns table (job_id uuid, fence integer, kind text, worker_id uuid, next text, fault text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '250ms'
-- one plan for ever, by the index of what is running and by primary key
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_now timestamptz := headway.now();
  v_over timestamptz := '-infinity'; -- leases that ended by then are over
  v_dead uuid[];
  v_ids uuid[];
  v_id uuid;
  v_left uuid[] := '{}';
  v_more boolean;
begin
  if p_by is null or exists (
       select
         from headway.workers w
        where w.id = p_by
          and v_now between w.heartbeat_at and w.heartbeat_at + w.late_ms * interval '1 millisecond'
          and v_now >= w.steady_since + w.lease_ms * interval '1 millisecond') then
    v_over := v_now;
  end if;
  -- a skip scan over the workers that run something, not over what they run
  with recursive busy (id) as (
    (select j.worker_id from headway.jobs j where j.status = 'running' order by j.worker_id limit 1)
    union all
    select (select j.worker_id
              from headway.jobs j
             where j.status = 'running' and j.worker_id > b.id
             order by j.worker_id
             limit 1)
      from busy b
     where b.id is not null
  )
  select array_agg(b.id)
    into v_dead
    from busy b
   where b.id is not null
     and (b.id = any (p_gone)
          or not exists (select from headway.workers w where w.id = b.id and w.lease_expires_at > v_over));
  perform from headway.jobs j where j.status = 'running' and j.worker_id is null limit 1;
  v_more := found or v_dead is not null;
  while v_more loop
    -- two looks, each by the index of what is running, and no further than the limit
    v_ids := array(
      select j.id
        from headway.jobs j
       where j.worker_id = any (v_dead)
         and j.status = 'running'
         and j.id <> all (v_left)
       limit p_limit
         for update skip locked);
    v_ids := v_ids || array(
      select j.id
        from headway.jobs j
       where j.worker_id is null
         and j.status = 'running'
         and j.id <> all (v_left)
       limit p_limit - cardinality(v_ids)
         for update skip locked);
    v_more := false;
    begin
      return query select * from headway.lose(v_ids, v_now);
    exception when others then
      perform set_config('lock_timeout', '2ms', true);
      foreach v_id in array v_ids loop
        begin
          return query select * from headway.lose(array[v_id], v_now);
        exception when others then
          v_left := v_left || v_id;
          if sqlstate not in ('55P03', '40P01') then
            return query
              select j.id, j.fence, j.kind, j.worker_id, null::text, sqlerrm from headway.jobs j where j.id = v_id;
          end if;
        end;
      end loop;
      -- those that cannot be ended now do not keep the others out of the limit
      v_more := cardinality(v_ids) = p_limit and cardinality(v_left) < 10 * p_limit;
    end;
  end loop;

  delete from headway.workers w
   where w.id in (
     select o.id
       from headway.workers o
      where (o.lease_expires_at <= v_over or o.id = any (p_gone))
        and not exists (select from headway.jobs j where j.worker_id = o.id and j.status = 'running')
        for update skip locked);
end
$$;

-- End these executions, whose rows are locked, as lost with their workers. Charges a loss, unless the worker was stopping;
-- waits with wide jitter, which parts a job that kills its workers from the neighbours it took along.
create function headway.lose(p_ids uuid[], p_now timestamptz)
returns table (job_id uuid, fence integer, kind text, worker_id uuid, next text, fault text)
language sql
set search_path = pg_catalog, pg_temp
as $$
  with lost as materialized (
    select j.id, j.fence, j.kind, j.worker_id, j.delivery, j.max_attempts, j.max_losses, j.tries,
           j.cancel_requested_at,
           case when w.stopping then 0 else 1 end as loss,
           j.losses + case when w.stopping then 0 else 1 end as losses,
           least(2 * j.backoff_base_ms * 2 ^ least(j.losses, 40), j.backoff_cap_ms) * random() as delay_ms,
           coalesce('lost with its worker ' || coalesce(w.hostname || ':' || w.pid, j.worker_id::text),
                    'it was running without a worker') as error
      from headway.jobs j
      left join headway.workers w on w.id = j.worker_id
     where j.id = any (p_ids)
  ), judged as (
    select l.*,
           case
             when l.cancel_requested_at is not null then 'canceled'
             when l.loss > 0 and l.losses >= l.max_losses then 'dead'
             when l.loss > 0 and l.delivery = 'at_most_once' and l.tries + l.losses >= l.max_attempts then 'dead'
             when l.delivery = 'at_most_once' then 'failed'
             else 'scheduled'
           end as verdict
      from lost l
  ), batch as (
    select array_agg(g.id order by g.id) as ids,
           array_agg(g.fence order by g.id) as fences,
           array_agg('lost'::text order by g.id) as statuses,
           array_agg(g.verdict order by g.id) as tos,
           array_agg(g.loss order by g.id) as losses,
           array_agg(greatest(g.delay_ms, 1)::bigint order by g.id) as delays,
           array_agg(case when g.verdict = 'dead'
                          then g.error || ', ' || g.losses || ' times now: it may be what kills them'
                          else g.error end order by g.id) as errors
      from judged g
  )
  select e.id, e.fence, g.kind, g.worker_id, e.next, null::text
    from batch b
    cross join lateral headway.end_attempts(
      b.ids, b.fences, b.statuses, b.tos, null, b.losses, b.delays, null, b.errors, null, null, null) r
    cross join lateral unnest(r.ids, r.fences, r.nexts) as e (id, fence, next)
    join judged g on g.id = e.id
   where b.ids is not null
$$;

-- Queue the scheduled jobs that are due, in order of their time, and the machines whose await has timed out, and end what
-- expired. Finding nothing, it writes nothing. Skips rows that others hold.
create function headway.promote(p_limit integer)
returns table (queued integer, expired integer, next_due_ms bigint, coupled integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
-- a user's open transaction may hold a unique key that a job needs here: the others do not wait for it
set lock_timeout = '250ms'
as $$
declare
  v_now timestamptz := headway.now();
  v_ids uuid[];
  v_places bigint[];
  v_late uuid;
  v_over uuid[];
  v_busy uuid[] := '{}';  -- what somebody's open transaction is in the way of
  v_before integer;
begin
  -- a claim at the same moment passes by what this has locked: its worker is told to look again
  coupled := headway.couple();
  begin
    perform headway.refill(v_now);
  exception when others then
    perform headway.put_back(sqlstate, sqlerrm);
  end;
  queued := 0;
  expired := 0;
  for v_late in
    select j.id
      from headway.jobs j
     where j.expires_at <= v_now
       and j.expires_at is not null
       and j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
       and (j.status <> 'running' or j.cancel_requested_at is null)
     order by j.expires_at
     limit p_limit
       for update skip locked
  loop
    begin
      if headway.end_early(v_late, 'expired', v_now) = 'canceled' then
        v_over := v_over || v_late;
      end if;
      expired := expired + 1;
    exception when others then
      perform headway.put_back(sqlstate, v_late || ' cannot expire: ' || sqlerrm);
    end;
  end loop;

  loop
    select array_agg(d.id), array_agg(d.place)
      into v_ids, v_places
      from (
        select o.id, coalesce(o.position, nextval('headway.position')) as place
          from (
            select j.id, j.position
              from headway.jobs j
             where j.status = 'scheduled'
               and j.scheduled_for <= v_now
               and j.id <> all (v_busy)
             order by j.scheduled_for, j.id
             limit p_limit
               for update skip locked
          ) o
      ) d;
    exit when v_ids is null;
    v_before := cardinality(v_busy);
    begin
      update headway.jobs j
         set status = 'queued', queued_at = v_now, position = u.place
        from unnest(v_ids, v_places) as u (id, place)
       where j.id = u.id;
      queued := queued + cardinality(v_ids);
    exception when others then
      perform set_config('lock_timeout', '2ms', true);
      for i in 1 .. cardinality(v_ids) loop
        begin
          update headway.jobs j
             set status = 'queued', queued_at = v_now, position = v_places[i]
           where j.id = v_ids[i];
          queued := queued + 1;
        exception
          when unique_violation then
            v_over := v_over || headway.supersede(v_ids[i], v_now);
          when others then
            -- whether its key is taken is not known yet: the next round asks again
            v_busy := v_busy || v_ids[i];
            perform headway.put_back(sqlstate, v_ids[i] || ' cannot be queued: ' || sqlerrm);
        end;
      end loop;
    end;
    -- those in whose way somebody is do not keep the others out of the limit
    exit when cardinality(v_busy) not between v_before + 1 and 1000;
  end loop;

  v_busy := '{}';
  loop
    select array_agg(d.id)
      into v_ids
      from (select j.id
              from headway.jobs j
             where j.status = 'waiting'
               and j.deadline_at <= v_now
               and j.id <> all (v_busy)
             order by j.deadline_at
             limit p_limit
               for update skip locked) d;
    exit when v_ids is null;
    v_before := cardinality(v_busy);
    begin
      perform headway.unpark(v_ids, 'timeout', v_now);
      queued := queued + cardinality(v_ids);
    exception when others then
      perform set_config('lock_timeout', '2ms', true);
      foreach v_late in array v_ids loop
        begin
          perform headway.unpark(array[v_late], 'timeout', v_now);
          queued := queued + 1;
        exception
          when unique_violation then
            v_over := v_over || headway.supersede(v_late, v_now);
          when others then
            v_busy := v_busy || v_late;
            perform headway.put_back(sqlstate, v_late || ' cannot be woken: ' || sqlerrm);
        end;
      end loop;
    end;
    exit when cardinality(v_busy) not between v_before + 1 and 1000;
  end loop;

  if v_over is not null then
    perform headway.follow(v_over, v_now, false);
  end if;

  -- within bounds first: an infinite one, where checks were off, cannot be reckoned with
  select (extract(epoch from greatest(least(min(t.at), v_now + interval '1 year'), v_now) - v_now) * 1000)::bigint
    into next_due_ms
    from ((select j.scheduled_for
             from headway.jobs j
            where j.status = 'scheduled'
            order by j.scheduled_for, j.id
            limit 1)
          union all
          (select j.deadline_at
             from headway.jobs j
            where j.status = 'waiting' and j.deadline_at is not null
            order by j.deadline_at
            limit 1)
          union all
          (select b.wake_at from headway.buckets b where b.wake_at is not null order by b.wake_at limit 1)) as t (at)
  having count(*) > 0;
  if next_due_ms = 0 and queued + expired < p_limit then
    -- somebody's open transaction is in the way of what is due
    next_due_ms := 250;
  end if;
  return next;
end
$$;

-- Delete up to p_limit jobs that ended in p_status longer ago, oldest first, with their attempts and signals. A child
-- stays until the machine that waits for it has seen it. Skips what somebody holds; what cannot be deleted stays, with a
-- warning in the server's log.
create function headway.prune(p_status text, p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set lock_timeout = '1s'
as $$
declare
  v_before timestamptz := headway.now() - p_older_than_ms * interval '1 millisecond';
  v_ids uuid[];
  v_id uuid;
  v_count integer;
begin
  v_ids := array(
    select j.id
      from headway.jobs j
     where j.status = p_status
       and j.finished_at < v_before
       and j.finished_at is not null
       -- "distinct from", which the planner takes for nearly always true, and so stays on the index of ends
       and (select 1
              from headway.edges e
              join headway.jobs m on m.id = e.child_id
             where e.parent_id = j.id and e.fence = m.joining and m.finished_at is null
             limit 1) is distinct from 1
     order by j.finished_at
     limit p_limit
       for update skip locked);
  begin
    perform headway.forget(v_ids, p_status);
    return cardinality(v_ids);
  exception when others then
    null;
  end;
  perform set_config('lock_timeout', '2ms', true);
  v_count := 0;
  foreach v_id in array v_ids loop
    begin
      perform headway.forget(array[v_id], p_status);
      v_count := v_count + 1;
    exception
      when others then
        perform headway.put_back(sqlstate, v_id || ' cannot be pruned: ' || sqlerrm);
    end;
  end loop;
  return v_count;
end
$$;

-- Delete these jobs, whose rows are locked, with all that was theirs.
create function headway.forget(p_ids uuid[], p_status text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_joined uuid[];
  v_groups uuid[];
begin
  with old as materialized (
    select j.id, j.group_id, exists (select from headway.edges e where e.parent_id = j.id)
                             or exists (select from headway.edges e where e.child_id = j.id) as joined
      from headway.jobs j
     where j.id = any (p_ids)
  ), history as (
    delete from headway.attempts a
     using old o
     where a.job_id = o.id
  ), inbox as (
    delete from headway.signals s
     using old o
     where s.job_id = o.id
  ), gone as (
    delete from headway.jobs j
     using old o
     where j.id = o.id
  )
  select array_agg(o.id) filter (where o.joined), array_agg(distinct o.group_id) filter (where o.group_id is not null)
    into v_joined, v_groups
    from old o;
  if v_joined is not null then
    -- who still waits learns now how it ended
    with told as (
      update headway.edges e
         set state = case p_status when 'succeeded' then 'done' else 'failed' end
       where e.parent_id = any (v_joined)
         and e.state = 'pending'
      returning e.child_id, e.tenant_id
    )
    insert into headway.arrivals (tenant_id, jobs)
    select t.tenant_id, array_agg(distinct t.child_id) from told t group by t.tenant_id;
    delete from headway.edges e where e.child_id = any (v_joined);
    delete from headway.edges e where e.parent_id = any (v_joined) and (e.state = 'done' or e.fence > 0);
  end if;
  perform from headway.groups limit 1;
  if found then
    delete from headway.groups g
     where (g.id = any (v_groups) or g.callback_id = any (p_ids))
       and not exists (select from headway.jobs j where j.group_id = g.id)
       and not exists (select from headway.jobs j where j.id = g.callback_id);
  end if;
end
$$;

-- Delete up to p_limit of the oldest entries of the audit, those that are older; gives how many.
create function headway.prune_audit(p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count integer;
begin
  -- entries come in order of time: none but the first need a look
  delete from headway.audit a
   where a.id in (select o.id from headway.audit o order by o.id limit p_limit for update skip locked)
     and a.at < headway.now() - p_older_than_ms * interval '1 millisecond';
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
