-- Workers and their leases.

-- The answer to a heartbeat: whether the worker still has its lease, how many live workers have free slots on each of
-- its queues, and which of its jobs were asked to stop, and what an operator set for it.
create function headway.beat(p_worker uuid, p_now timestamptz)
returns table (alive boolean, fleet jsonb, canceling_ids uuid[], canceling_fences integer[], wanted json)
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
                     and o.metadata ->> 'key' is null -- over HTTP: the server polls for it, and counts itself
                   group by k.name) q),
         c.ids,
         c.fences,
         (select w.wanted from headway.workers w where w.id = p_worker)
    from (select array_agg(j.id) as ids, array_agg(j.fence) as fences
            from headway.jobs j
           where j.worker_id = p_worker
             and j.status = 'running'
             and j.cancel_requested_at is not null
             and exists (select from headway.workers w where w.id = p_worker)) c
$$;

-- Add a worker with a fresh lease. A repeat changes nothing. A heartbeat more than p_late_ms after the one before is
-- late (default: half a lease); see reap. Raises HW002 for the id of a worker that has left, or that was another's.
create function headway.register(
  p_id uuid,
  p_hostname text,
  p_pid integer default 0,
  p_machine text default null,
  p_process_started text default null,
  p_version text default '',
  p_queues jsonb default '{}',
  p_kinds text[] default '{}',
  p_concurrency integer default 1,
  p_lease_ms bigint default 60000,
  p_metadata jsonb default '{}',
  p_late_ms bigint default null
) returns table (alive boolean, fleet jsonb, canceling_ids uuid[], canceling_fences integer[], wanted json)
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
  -- a look after the insert, which waits for whoever removes that worker
  perform
     from headway.gone_workers g
    where g.id = p_id and (g.has_left or g.owner <> headway.owner_of(p_metadata));
  if found then
    raise exception 'worker % is gone, and its id is not used again: register under a new one', p_id
      using errcode = 'HW002';
  end if;
  return query select * from headway.beat(p_id, v_now);
end
$$;

-- Renew a worker's lease, if it still has one. A late heartbeat (the database, the machine or the worker stood still,
-- or the clock was set) restarts steady_since. p_queues and p_concurrency are given where they have changed.
create function headway.heartbeat(
  p_worker uuid, p_running integer default 0, p_busy text[] default '{}', p_queues jsonb default null, p_concurrency integer default null
)
returns table (alive boolean, fleet jsonb, canceling_ids uuid[], canceling_fences integer[], wanted json)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  -- lock before reading the clock: an earlier heartbeat may still have the row, and a time from before it would be
  -- stale
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
         busy = p_busy,
         queues = coalesce(p_queues, w.queues),
         concurrency = coalesce(p_concurrency, w.concurrency)
   where w.id = p_worker;
  return query select * from headway.beat(p_worker, v_now);
end
$$;

-- Note that a worker stops while it still has running jobs. When they are reaped, no loss is charged: it is not their
-- fault.
create function headway.retire(p_worker uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.workers w set stopping = true where w.id = p_worker
$$;

-- Whom a worker belongs to: a key over HTTP, and that key's tenant; nobody, if it uses the database itself.
create function headway.owner_of(p_metadata jsonb) returns text
language sql immutable
as $$
  select coalesce(p_metadata ->> 'key', '') || ' ' || coalesce(p_metadata ->> 'tenant', '')
$$;

-- Remove these workers, and remember their ids for a day. p_left: they signed off.
create function headway.remove_workers(p_ids uuid[], p_left boolean) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  with removed as (
    delete from headway.workers w where w.id = any (p_ids) returning w.id, w.metadata
  )
  insert into headway.gone_workers (id, owner, has_left, gone_at)
  select r.id, headway.owner_of(r.metadata), p_left, headway.now()
    from removed r
  on conflict (id) do update set has_left = excluded.has_left, gone_at = excluded.gone_at;
  delete from headway.gone_workers g
   where g.id in (
     select o.id
       from headway.gone_workers o
      where o.gone_at < headway.now() - interval '1 day'
      order by o.gone_at
      limit 100
        for update skip locked);
$$;

-- Remove a worker that stops in good order.
create function headway.unregister(p_worker uuid) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  select headway.remove_workers(array[p_worker], true)
$$;

-- Set what a live worker serves instead of what it was started with: an object of entries, total and order, each of which
-- replaces what was set before. The worker learns of it at its next heartbeat. Raises HW006 for one that is not there.
create function headway.set_worker(p_worker uuid, p_wanted json, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  update headway.workers w
     set wanted = (select json_object_agg(f.key, f.value)
                     from (select b.key, b.value
                             from json_each(w.wanted) b
                            where p_wanted -> b.key is null
                           union all
                           select n.key, n.value from json_each(p_wanted) n) f)
   where w.id = p_worker;
  if not found then
    raise exception 'there is no worker % (any more): nothing was changed; headway workers lists them', p_worker
      using errcode = 'HW006';
  end if;
  insert into headway.audit (at, actor, action, detail)
  values (headway.now(), p_actor, 'worker.set', p_worker || ': ' || p_wanted);
end
$$;

-- The queues that there are: those with jobs to claim, of kinds that have a definition, with a setting, or with a live
-- worker. A skip scan over jobs_claim, instead of a scan over all queued jobs.
create function headway.queue_names() returns table (name text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  with recursive queued (name) as (
    (select j.queue
       from headway.jobs j
      where j.status = 'queued' and j.limited_by is null
      order by j.queue
      limit 1)
    union all
    select (select j.queue
              from headway.jobs j
             where j.status = 'queued' and j.limited_by is null and j.queue > q.name
             order by j.queue
             limit 1)
      from queued q
     where q.name is not null
  )
  select q.name from queued q where q.name is not null
  union
  select d.queue from headway.definitions d
  union
  select q.name from headway.queues q
  union
  select l.name from headway.limits l where l.scope = 'queue'
  union
  select k.name
    from headway.workers w
    cross join lateral jsonb_object_keys(w.queues) as k (name)
   where w.lease_expires_at > headway.now()
$$;
