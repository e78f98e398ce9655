-- Machines that wait, and what wakes them.

-- Wake those of these machines, which got signals, that have what they wait for. A machine whose row somebody has
-- locked may be parking, and may not have seen the signal: it is left as an arrival. One that does not wait checks its
-- inbox when it parks.
create function headway.deliver(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_locked uuid[];
begin
  select array_agg(l.id)
    into v_locked
    from unnest(p_ids) as u (id)
    cross join lateral (select j.id from headway.jobs j where j.id = u.id for update skip locked) l;
  insert into headway.arrivals (signaled)
  select array_agg(a.id)
    from (select u.id
            from unnest(p_ids) as u (id)
           where exists (select from headway.jobs j where j.id = u.id)
          except select l.id from unnest(v_locked) as l (id)) a
  having count(*) > 0;
  if v_locked is not null then
    perform headway.wake_satisfied(v_locked, p_now);
  end if;
end
$$;

-- Wake those of these machines, whose rows are locked, that have the signals they wait for. Runs in a statement after
-- the lock, which sees every signal committed before.
create function headway.wake_satisfied(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_ready uuid[];
  v_one uuid;
begin
  select array_agg(j.id)
    into v_ready
    from unnest(p_ids) as u (id)
    join headway.jobs j on j.id = u.id
   where (j.status = 'waiting' and j.awaiting is not null) is true
     and headway.satisfied(j);
  if v_ready is null then
    return;
  end if;
  begin
    perform headway.wake(v_ready, 'signal', p_now);
  exception when unique_violation or lock_not_available then
    foreach v_one in array v_ready loop
      begin
        perform headway.wake(array[v_one], 'signal', p_now);
      exception
        when unique_violation then
          perform headway.supersede(v_one, p_now);
          perform headway.follow_later(array[v_one], p_now);
        when lock_not_available then
          insert into headway.arrivals (signaled) values (array[v_one]);
      end;
    end loop;
  end;
end
$$;

-- Whether a machine has the signals it waits for; the same rule as `satisfied` in model/signal.py.
create function headway.satisfied(p_job headway.jobs) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select case
           when p_job.match_all
             then (select count(distinct s.name)
                     from headway.signals s
                    where s.job_id = p_job.id and s.fence is null and s.name = any (p_job.awaiting))
                  = (select count(distinct n) from unnest(p_job.awaiting) n)
           else (select 1
                   from headway.signals s
                  where s.job_id = p_job.id and s.fence is null and s.name = any (p_job.awaiting)
                  limit 1) is not null
         end
$$;

-- Whether a machine is where it waits for signals or children: the Await or Spawn of its last step was not answered yet.
-- A flow never is: what it waits for is found out by running it. Inlined.
create function headway.is_parked(p_job headway.jobs) returns boolean
language sql immutable
as $$
  select p_job.woken is null and (p_job.awaiting is not null or p_job.joining is not null)
         and p_job.step is distinct from '$flow'
$$;

-- Where a held job goes that may go: a machine that was canceled while it waited, and then retried, waits again.
-- Inlined.
create function headway.released_to(p_job headway.jobs, p_now timestamptz) returns text
language sql immutable
as $$
  select case
           when headway.is_parked(p_job) then 'waiting'
           when p_job.scheduled_for > p_now then 'scheduled'
           else 'queued'
         end
$$;

-- Machines wait again, with the deadline that they had: for children that were retried meanwhile, too. What they wait for
-- may be there already, so each leaves an arrival.
create function headway.wait_again(p_ids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  update headway.edges e
     set state = 'pending'
    from headway.jobs m, headway.jobs c
   where m.id = any (p_ids)
     and e.child_id = m.id
     and e.fence = m.joining
     and e.state in ('done', 'failed')
     and c.id = e.parent_id
     and c.finished_at is null;
  insert into headway.arrivals (tenant_id, signaled, jobs)
  select m.tenant_id, array_agg(m.id), array_agg(m.id) filter (where m.pending)
    from headway.jobs m
   where m.id = any (p_ids)
   group by m.tenant_id;
end
$$;

-- Queue machines, whose rows are locked, that wait no longer; p_woken says why: signal or timeout.
create function headway.wake(p_ids uuid[], p_woken text, p_now timestamptz) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  update headway.jobs j
     set status = 'queued', woken = p_woken, queued_at = p_now, deadline_at = null, pending = null
   where j.id = any (p_ids)
     and (j.status = 'waiting') is true
$$;
