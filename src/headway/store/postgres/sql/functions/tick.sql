-- End the executions of workers that are gone: their lease is over, they are not registered, or p_gone names them.
-- Charges a loss; waits with wide jitter, which parts a job that kills its workers from the neighbours it took along.
-- Skips rows that a settle holds. Removes those workers once nothing runs under them.
create function headway.reap(p_gone uuid[], p_limit integer)
returns table (job_id uuid, fence integer, kind text, worker_id uuid, next text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_dead uuid[];
begin
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
          or not exists (select from headway.workers w where w.id = b.id and w.lease_expires_at > v_now));

  if v_dead is not null then
    return query
      with lost as materialized (
        select j.id, j.fence, j.kind, j.worker_id, j.delivery, j.max_attempts, j.max_losses, j.tries,
               j.cancel_requested_at,
               j.losses + 1 as losses,
               least(j.backoff_base_ms * 2 ^ least(j.losses, 40), j.backoff_cap_ms) * random() * 2 as delay_ms,
               'lost with its worker ' || coalesce(w.hostname || ':' || w.pid, j.worker_id::text) as error
          from headway.jobs j
          left join headway.workers w on w.id = j.worker_id
         where j.worker_id = any (v_dead)
           and j.status = 'running'
         order by j.id
         limit p_limit
           for update of j skip locked
      ), judged as (
        select l.*,
               case
                 when l.cancel_requested_at is not null then 'canceled'
                 when l.losses >= l.max_losses then 'dead'
                 when l.delivery = 'at_most_once' and l.tries + l.losses >= l.max_attempts then 'dead'
                 when l.delivery = 'at_most_once' then 'failed'
                 else 'scheduled'
               end as verdict
          from lost l
      ), batch as (
        select array_agg(g.id order by g.id) as ids,
               array_agg(g.fence order by g.id) as fences,
               array_agg('lost'::text order by g.id) as statuses,
               array_agg(g.verdict order by g.id) as tos,
               array_agg(1 order by g.id) as losses,
               array_agg(greatest(g.delay_ms, 1)::bigint order by g.id) as delays,
               array_agg(case when g.verdict = 'dead'
                              then g.error || ', ' || g.losses || ' times now: it may be what kills them'
                              else g.error end order by g.id) as errors
          from judged g
      )
      select e.id, e.fence, g.kind, g.worker_id, e.next
        from batch b
        cross join lateral headway.end_attempts(
          b.ids, b.fences, b.statuses, b.tos, null, b.losses, b.delays, null, b.errors, null, null, null) e
        join judged g on g.id = e.id
       where b.ids is not null;
  end if;

  delete from headway.workers w
   where (w.lease_expires_at <= v_now or w.id = any (p_gone))
     and not exists (select from headway.jobs j where j.worker_id = w.id and j.status = 'running');
end
$$;

-- Queue the scheduled jobs that are due, in order of their time, and end what expired. Finding nothing, it writes
-- nothing. Skips rows that others hold.
create function headway.promote(p_limit integer)
returns table (queued integer, expired integer, next_due_ms bigint)
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
begin
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
    perform headway.end_early(v_late, 'expired', v_now);
    expired := expired + 1;
  end loop;

  select array_agg(d.id), array_agg(d.place)
    into v_ids, v_places
    from (
      select o.id, coalesce(o.position, nextval('headway.position')) as place
        from (
          select j.id, j.position
            from headway.jobs j
           where j.status = 'scheduled'
             and j.scheduled_for <= v_now
           order by j.scheduled_for, j.id
           limit p_limit
             for update skip locked
        ) o
    ) d;
  if v_ids is not null then
    begin
      update headway.jobs j
         set status = 'queued', queued_at = v_now, position = u.place
        from unnest(v_ids, v_places) as u (id, place)
       where j.id = u.id;
      queued := cardinality(v_ids);
    exception when unique_violation or lock_not_available then
      for i in 1 .. cardinality(v_ids) loop
        begin
          update headway.jobs j
             set status = 'queued', queued_at = v_now, position = v_places[i]
           where j.id = v_ids[i];
          queued := queued + 1;
        exception
          when unique_violation then
            perform headway.supersede(v_ids[i], v_now);
          when lock_not_available then
            null; -- whether the key is taken is not known yet: the next round asks again
        end;
      end loop;
    end;
  end if;

  select greatest(0, extract(epoch from j.scheduled_for - v_now) * 1000)::bigint
    into next_due_ms
    from headway.jobs j
   where j.status = 'scheduled'
   order by j.scheduled_for, j.id
   limit 1;
  return next;
end
$$;

-- Delete up to p_limit jobs that ended in p_status longer ago, oldest first, with their attempts.
create function headway.prune(p_status text, p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_before timestamptz := headway.now() - p_older_than_ms * interval '1 millisecond';
  v_count integer;
begin
  with old as materialized (
    select j.id
      from headway.jobs j
     where j.status = p_status
       and j.finished_at < v_before
       and j.finished_at is not null
     order by j.finished_at
     limit p_limit
       for update skip locked
  ), history as (
    delete from headway.attempts a
     using old o
     where a.job_id = o.id
  ), gone as (
    delete from headway.jobs j
     using old o
     where j.id = o.id
    returning 1
  )
  select count(*) into v_count from gone;
  return v_count;
end
$$;
