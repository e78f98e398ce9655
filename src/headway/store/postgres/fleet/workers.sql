-- What a worker is told: whether it still has its lease, how many live workers have free slots on each of its
-- queues, and which of its jobs were asked to stop.
create function headway.beat(p_worker uuid, p_now timestamptz)
returns table (alive boolean, fleet jsonb, canceling_ids uuid[], canceling_fences integer[])
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from headway.workers w where w.id = p_worker),
         (select jsonb_object_agg(q.name, q.free)
            from (select k.name,
                         greatest(1, count(*) filter (where o.queues ? k.name and not k.name = any (o.busy))) as free
                    from headway.workers me
                    cross join lateral jsonb_object_keys(me.queues) as k (name)
                    cross join headway.workers o
                   where me.id = p_worker
                     and o.lease_expires_at > p_now
                   group by k.name) q),
         c.ids,
         c.fences
    from (select array_agg(j.id) as ids, array_agg(j.fence) as fences
            from headway.jobs j
           where j.worker_id = p_worker
             and j.status = 'running'
             and j.cancel_requested_at is not null
             and exists (select from headway.workers w where w.id = p_worker)) c
$$;

-- Add a worker with a fresh lease. Repeatable. p_late_ms is how long after a heartbeat the next one is late (null: half a
-- lease); see reap.
create function headway.register(
  p_id uuid,
  p_hostname text,
  p_pid integer,
  p_machine text,
  p_process_started text,
  p_version text,
  p_queues jsonb,
  p_kinds text[],
  p_concurrency integer,
  p_lease_ms bigint,
  p_metadata jsonb,
  p_late_ms bigint default null
) returns table (alive boolean, fleet jsonb, canceling_ids uuid[], canceling_fences integer[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
begin
  insert into headway.workers (
    id, hostname, pid, machine, process_started, version, queues, kinds, concurrency, lease_ms, late_ms,
    metadata, started_at, heartbeat_at, lease_expires_at, steady_since)
  values (
    p_id, p_hostname, p_pid, p_machine, p_process_started, p_version, p_queues, p_kinds, p_concurrency, p_lease_ms,
    coalesce(p_late_ms, p_lease_ms / 2), p_metadata, v_now, v_now, v_now + p_lease_ms * interval '1 millisecond', v_now)
  on conflict (id) do nothing;
  return query select * from headway.beat(p_id, v_now);
end
$$;

-- Renew a worker's lease, if it still has one: one row. A beat that comes late (the database, the machine or the worker stood
-- still, or the clock was set) begins its steady time anew.
create function headway.heartbeat(p_worker uuid, p_running integer, p_busy text[])
returns table (alive boolean, fleet jsonb, canceling_ids uuid[], canceling_fences integer[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  -- lock before asking for the time: an earlier beat may still hold the row, and what was true before that is stale
  perform from headway.workers w where w.id = p_worker for no key update;
  v_now := headway.now();
  update headway.workers w
     set heartbeat_at = v_now,
         lease_expires_at = v_now + w.lease_ms * interval '1 millisecond',
         steady_since = case
                          when v_now between w.heartbeat_at and w.heartbeat_at + w.late_ms * interval '1 millisecond'
                          then w.steady_since
                          else v_now
                        end,
         running = p_running,
         busy = p_busy
   where w.id = p_worker;
  return query select * from headway.beat(p_worker, v_now);
end
$$;

-- Note that a worker stops while it still has running jobs. They are lost when its lease or its process ends, but by no
-- fault of theirs: reaping them charges nothing.
create function headway.retire(p_worker uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.workers w set stopping = true where w.id = p_worker
$$;

-- Remove a worker that ends in good order.
create function headway.unregister(p_worker uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from headway.workers w where w.id = p_worker
$$;

-- Stop claims from a queue: waits for the claims under way, so that none commits once this has returned.
-- Waits for nobody longer than a while (55P03), and first for the queue's row: who holds that must not hold up claims,
-- which wait for who waits with their lock.
create function headway.pause(p_queue text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz := headway.now();
begin
  insert into headway.queues (name) values (p_queue) on conflict do nothing;
  perform from headway.queues q where q.name = p_queue for update;
  perform pg_advisory_xact_lock(headway.queue_lock(p_queue));
  insert into headway.queues as q (name, paused_at, paused_by)
  values (p_queue, v_now, p_actor)
  on conflict (name) do update
    set paused_at = v_now, paused_by = p_actor
    where q.paused_at is null;
  if found then
    insert into headway.audit (at, actor, action, detail) values (v_now, p_actor, 'pause', p_queue);
  end if;
end
$$;

-- Let claims of a queue go on.
create function headway.resume(p_queue text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update headway.queues q
     set paused_at = null, paused_by = null
   where q.name = p_queue
     and q.paused_at is not null;
  if found then
    insert into headway.audit (at, actor, action, detail) values (headway.now(), p_actor, 'resume', p_queue);
  end if;
end
$$;

-- What was set for queues: paused, fair, limited, reserved. Who paused or reserved one is told to nobody who asks for one
-- tenant, or acts for one.
create function headway.queue_settings(p_tenant uuid default null)
returns table (
  name text, paused_at timestamptz, paused_by text, fair boolean, max_running integer, reserved_by text,
  reserved_until timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select name, q.paused_at, case when w.whole then q.paused_by end, q.fair, l.max_running,
         case when w.whole then r.holder when r.holder is not null then 'somebody' end, r.expires_at
    from headway.queues q
    full join (select l.name, l.max_running from headway.limits l where l.scope = 'queue') l using (name)
    full join (select r.queue as name, r.holder, r.expires_at
                 from headway.reservations r
                where r.expires_at > headway.now()) r using (name)
    cross join (select p_tenant is null and headway.trusted() as whole) w
$$;

-- Which queues somebody works on: how many live workers, and the kinds they know.
create function headway.listening() returns table (queue text, workers integer, kinds text[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select q.name,
         count(distinct w.id)::integer,
         array_agg(distinct k.name) filter (where k.name is not null)
    from headway.workers w
    cross join lateral jsonb_object_keys(w.queues) as q (name)
    left join lateral unnest(w.kinds) as k (name) on true
   where w.lease_expires_at > headway.now()
   group by q.name
$$;
