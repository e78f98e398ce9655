-- Reservations: a queue kept for one holder.

-- Reserve a queue if nobody else has it, or renew the reservation. Waits for the claims under way: once this has
-- returned, none commits. Gives the reservation in force: this one, or somebody else's. Audited, with the holder as the
-- actor.
create function headway.reserve(
  p_queue text, p_id uuid, p_holder text, p_expires_ms bigint, p_actor text default null
)
returns table (queue text, id uuid, holder text, since timestamptz, expires_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz;
  v_last headway.reservations;
begin
  -- the row before the lock: if somebody has the row, this would wait with the lock that claims need
  perform from headway.reservations r where r.queue = p_queue for update;
  perform pg_advisory_xact_lock(headway.queue_lock(p_queue));
  perform set_config('lock_timeout', '250ms', true);
  v_now := headway.now();
  -- a claim checks reservations only where the queue has a row
  insert into headway.queues (name) values (p_queue) on conflict do nothing;
  perform headway.expire_reservations(v_now, p_queue);
  select r.* into v_last from headway.reservations r where r.queue = p_queue;
  insert into headway.reservations as r (queue, id, since, expires_at, holder)
  values (p_queue, p_id, v_now, v_now + p_expires_ms * interval '1 millisecond', p_holder)
  on conflict on constraint reservations_pkey do update
    set id = excluded.id,
        expires_at = excluded.expires_at,
        holder = excluded.holder
    where r.id = excluded.id;
  if v_last.id is null then
    insert into headway.audit (at, actor, action, detail) values (v_now, coalesce(p_actor, p_holder), 'reserve', p_queue);
  end if;
  return query
    select r.queue, r.id, r.holder, r.since, r.expires_at from headway.reservations r where r.queue = p_queue;
end
$$;

-- Delete the expired reservations of one queue or all, and audit it; skips rows that others have locked.
create function headway.expire_reservations(p_now timestamptz, p_queue text default null) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  with old as materialized (
    select r.queue
      from headway.reservations r
     where r.expires_at <= p_now
       and (p_queue is null or r.queue = p_queue)
       for update skip locked
  ), gone as (
    delete from headway.reservations r
     using old o
     where r.queue = o.queue
    returning r.queue, r.holder
  )
  insert into headway.audit (at, actor, action, detail)
  select p_now, g.holder, 'reservation.expired', g.queue from gone g;
$$;

-- Give a reservation back; false if it is not in force any more.
create function headway.unreserve(p_queue text, p_id uuid, p_actor text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_holder text;
begin
  perform headway.expire_reservations(v_now, p_queue);
  delete from headway.reservations r where r.queue = p_queue and r.id = p_id returning r.holder into v_holder;
  if not found then
    return false;
  end if;
  insert into headway.audit (at, actor, action, detail) values (v_now, coalesce(p_actor, v_holder), 'unreserve', p_queue);
  return true;
end
$$;
