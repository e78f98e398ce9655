-- Queues: paused or not, and what was set for them.

-- Pause a queue. Waits for the claims under way: once this has returned, none commits. Waits at most five seconds
-- (55P03), for the queue's row before the lock: if somebody has the row, this would wait with the lock that claims
-- need.
create function headway.pause(p_queue text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz := headway.now();
begin
  perform pg_advisory_xact_lock(headway.setting_lock('queue ' || p_queue));
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

-- Resume a paused queue.
create function headway.resume(p_queue text, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pg_advisory_xact_lock(headway.setting_lock('queue ' || p_queue));
  update headway.queues q
     set paused_at = null, paused_by = null
   where q.name = p_queue
     and q.paused_at is not null;
  if found then
    insert into headway.audit (at, actor, action, detail) values (headway.now(), p_actor, 'resume', p_queue);
  end if;
end
$$;

-- Pause every queue that has unfinished jobs, a worker or a setting, in order of their names; gives those that were open.
-- Waits as `pause` does, for each of them; until the transaction ends, nothing is claimed from those it has reached.
create function headway.pause_all(p_actor text default null) returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
begin
  for v_queue in
    select n.name
      from (select j.queue as name
              from headway.jobs j
             where j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
            union
            select s.name from headway.queue_settings() s
            union
            select l.queue from headway.listening() l) n
     where not exists (select from headway.queues q where q.name = n.name and q.paused_at is not null)
     order by n.name collate "C"
  loop
    perform headway.pause(v_queue, p_actor);
    return next v_queue;
  end loop;
end
$$;

-- Resume every paused queue, in order of their names; gives them.
create function headway.resume_all(p_actor text default null) returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text;
begin
  for v_queue in select q.name from headway.queues q where q.paused_at is not null order by q.name collate "C" loop
    perform headway.resume(v_queue, p_actor);
    return next v_queue;
  end loop;
end
$$;

-- How long finished jobs of a queue are kept: an object of milliseconds by status. Null: as long as the default says.
create function headway.set_retention(p_queue text, p_retention jsonb, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_old jsonb;
begin
  perform pg_advisory_xact_lock(headway.setting_lock('queue ' || p_queue));
  select q.retention into v_old from headway.queues q where q.name = p_queue;
  insert into headway.queues (name, retention)
  values (p_queue, p_retention)
  on conflict (name) do update
    set retention = excluded.retention;
  insert into headway.audit (at, actor, action, changes, detail)
  values (headway.now(), p_actor, 'retention',
          headway.values_changed(
            json_build_object('retention', v_old), json_build_object('retention', p_retention), '{"retention": 0}'),
          p_queue || ': ' || coalesce(
            (select string_agg(s.name || ' ' || (p_retention ->> s.name) || ' ms', ', ' order by s.n)
               from unnest(array['succeeded', 'failed', 'dead', 'canceled']) with ordinality as s (name, n)
              where p_retention ? s.name),
            'default'));
end
$$;

-- What was set for queues: paused, fair, limited, reserved, retention. A caller that asks for one tenant, or acts for
-- one, is not told who paused or reserved a queue.
create function headway.queue_settings(p_tenant uuid default null)
returns table (
  name text, paused_at timestamptz, paused_by text, fair boolean, max_running integer, reserved_by text,
  reserved_until timestamptz, retention jsonb)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select name, q.paused_at, case when w.whole then q.paused_by end, q.unfair is not true, l.max_running,
         case when w.whole then r.holder when r.holder is not null then 'somebody' end, r.expires_at,
         q.retention
    -- without the rows that only say that several tenants use the queue
    from (select *
            from headway.queues q
           where not q.fair or q.unfair or q.paused_at is not null or q.retention is not null) q
    full join (select l.name, l.max_running from headway.limits l where l.scope = 'queue') l using (name)
    full join (select r.queue as name, r.holder, r.expires_at
                 from headway.reservations r
                where r.expires_at > headway.now()) r using (name)
    cross join (select p_tenant is null and headway.trusted() as whole) w
$$;

-- The queues that live workers claim from: how many workers, and the kinds they know. With a tenant without the workers
-- over HTTP of others, whose queues and kinds are their own business.
create function headway.listening(p_tenant uuid default null) returns table (queue text, workers integer, kinds text[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  with served as (
    select q.name, w.kinds, count(*) as workers
      from (select headway.acting_tenant(p_tenant, p_reads => true)::text as id) t
      cross join headway.workers w
      cross join lateral jsonb_object_keys(w.queues) as q (name)
     where w.lease_expires_at > headway.now()
       and (t.id is null or coalesce(w.metadata ->> 'tenant', t.id) = t.id)
     group by q.name, w.kinds
  )
  select n.name,
         sum(n.workers)::integer,
         -- nearly always all workers of a queue know the same ones
         case when count(*) = 1 then min(n.kinds)
              else (select array_agg(distinct k.name)
                      from served s
                      cross join lateral unnest(s.kinds) as k (name)
                     where s.name = n.name)
         end
    from served n
   group by n.name
$$;
