-- Reserve a queue, if nobody else has it, or renew that: waits for the claims under way, so that none commits once this
-- has returned. Gives the reservation that stands: this one, or the other's.
create function headway.reserve(p_queue text, p_id uuid, p_holder text, p_expires_ms bigint)
returns table (queue text, id uuid, holder text, since timestamptz, expires_at timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
declare
  v_now timestamptz;
begin
  -- first the row, which somebody may hold: claims wait for who waits with their lock
  perform from headway.reservations r where r.queue = p_queue for update;
  perform pg_advisory_xact_lock(headway.queue_lock(p_queue));
  perform set_config('lock_timeout', '250ms', true);
  v_now := headway.now();
  -- a claim asks for the reservation only where the queue has a row
  insert into headway.queues (name) values (p_queue) on conflict do nothing;
  insert into headway.reservations as r (queue, id, since, expires_at, holder)
  values (p_queue, p_id, v_now, v_now + p_expires_ms * interval '1 millisecond', p_holder)
  on conflict on constraint reservations_pkey do update
    set id = excluded.id,
        since = case when r.id = excluded.id and r.expires_at > v_now then r.since else excluded.since end,
        expires_at = excluded.expires_at,
        holder = excluded.holder
    where r.id = excluded.id or r.expires_at <= v_now;
  return query
    select r.queue, r.id, r.holder, r.since, r.expires_at from headway.reservations r where r.queue = p_queue;
end
$$;

-- Give a reservation back; false if it is no longer this one's.
create function headway.unreserve(p_queue text, p_id uuid) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from headway.reservations r where r.queue = p_queue and r.id = p_id;
  return found;
end
$$;
