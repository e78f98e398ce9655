-- Promote: queue what is due, and cancel what expired.

-- Queue the scheduled jobs that are due, in order of their time, and the machines whose Await timed out; cancel jobs
-- that expired. Writes nothing where nothing is due. Skips rows that others have locked.
create function headway.promote(p_limit integer)
returns table (queued integer, expired integer, next_due_ms bigint, arrived integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
-- a user's open transaction may hold a unique key that a job enters here: the other jobs do not wait for it
set lock_timeout = '250ms'
as $$
declare
  v_now timestamptz := headway.now();
  v_ids uuid[];
  v_positions bigint[];
  v_late uuid;
  v_over uuid[];
  v_busy uuid[] := '{}';  -- blocked by somebody's open transaction
  v_before integer;
begin
  -- a claim at the same moment skips what this has locked: the answer tells the worker to claim again
  arrived := headway.process_arrivals();
  begin
    perform headway.refill(v_now);
  exception when others then
    perform headway.warn_of(sqlstate, sqlerrm);
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
       and (j.step is distinct from '$flow' or not headway.is_asked(j.id))
     order by j.expires_at
     limit p_limit
       for update skip locked
  loop
    begin
      if headway.cancel_job(v_late, 'expired', v_now) = 'canceled' then
        v_over := v_over || v_late;
      end if;
      expired := expired + 1;
    exception when others then
      perform headway.warn_of(sqlstate, v_late || ' cannot expire: ' || sqlerrm);
    end;
  end loop;

  loop
    select array_agg(d.id), array_agg(d.position)
      into v_ids, v_positions
      from (
        select o.id, coalesce(o.position, nextval('headway.position')) as position
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
         set status = 'queued', queued_at = v_now, position = u.position
        from unnest(v_ids, v_positions) as u (id, position)
       where j.id = u.id;
      queued := queued + cardinality(v_ids);
    exception when others then
      -- one by one from here on: many may be blocked, and each waits
      perform set_config('lock_timeout', '2ms', true);
      for i in 1 .. cardinality(v_ids) loop
        begin
          update headway.jobs j
             set status = 'queued', queued_at = v_now, position = v_positions[i]
           where j.id = v_ids[i];
          queued := queued + 1;
        exception
          when unique_violation then
            v_over := v_over || headway.supersede(v_ids[i], v_now);
          when others then
            -- whether its key is taken is not known yet: the next round tries again
            v_busy := v_busy || v_ids[i];
            perform headway.warn_of(sqlstate, v_ids[i] || ' cannot be queued: ' || sqlerrm);
        end;
      end loop;
    end;
    -- blocked jobs must not use up the limit: go on, until a round blocks none or 1,000 are
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
      perform headway.wake(v_ids, 'timeout', v_now);
      queued := queued + cardinality(v_ids);
    exception when others then
      -- one by one from here on: many may be blocked, and each waits
      perform set_config('lock_timeout', '2ms', true);
      foreach v_late in array v_ids loop
        begin
          perform headway.wake(array[v_late], 'timeout', v_now);
          queued := queued + 1;
        exception
          when unique_violation then
            v_over := v_over || headway.supersede(v_late, v_now);
          when others then
            v_busy := v_busy || v_late;
            perform headway.warn_of(sqlstate, v_late || ' cannot be woken: ' || sqlerrm);
        end;
      end loop;
    end;
    exit when cardinality(v_busy) not between v_before + 1 and 1000;
  end loop;

  if v_over is not null then
    perform headway.follow_later(v_over, v_now);
  end if;

  -- bounded before the subtraction: a row may have an infinite time, if somebody disabled the checks
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
    -- what is due is blocked by somebody's open transaction: try again in a quarter of a second
    next_due_ms := 250;
  end if;
  return next;
end
$$;
