-- Heartbeats that name the claims which a worker still has: for workers that may lose an answer, or forget what they had claimed.

-- Renew the lease of a worker that names the claims that it still has: with p_complete all of them; else only if it runs nothing
-- beside these. Gives no row if the worker is not registered (any more). Else its lease; those of its claims that were
-- asked to stop; those given that it does not run (any more); and, with p_complete, those that it claimed before its
-- last heartbeat and does not name: it has forgotten them, or never learned of them. With p_tenant, jobs of other tenants
-- are not its own.
create function headway.heartbeat_claims(
  p_worker uuid, p_ids uuid[], p_fences integer[], p_complete boolean, p_tenant uuid default null)
returns table (
  lease_expires_at timestamptz, canceling_ids uuid[], canceling_fences integer[], lost_ids uuid[], lost_fences integer[],
  forgotten_ids uuid[], forgotten_fences integer[], forgotten_deliveries text[])
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz;
  v_before timestamptz;
  v_running integer;
  v_named integer;
begin
  -- lock before reading the clock, as heartbeat does
  select w.heartbeat_at, w.lease_expires_at
    into v_before, lease_expires_at
    from headway.workers w
   where w.id = p_worker
     for no key update;
  if not found then
    return;
  end if;
  v_now := headway.now();
  select count(*), count(u.id),
         array_agg(j.id) filter (where j.cancel_requested_at is not null),
         array_agg(j.fence) filter (where j.cancel_requested_at is not null),
         array_agg(j.id) filter (where f.forgotten),
         array_agg(j.fence) filter (where f.forgotten),
         array_agg(j.delivery) filter (where f.forgotten)
    into v_running, v_named, canceling_ids, canceling_fences, forgotten_ids, forgotten_fences, forgotten_deliveries
    from headway.jobs j
    left join unnest(p_ids, p_fences) as u (id, fence) on u.id = j.id and u.fence = j.fence
    cross join lateral (
      select p_complete and u.id is null and j.attempt_started_at < v_before and j.committed is null as forgotten) f
   where j.worker_id = p_worker
     and j.status = 'running'
     and (p_tenant is null or j.tenant_id = p_tenant);
  select array_agg(u.id), array_agg(u.fence)
    into lost_ids, lost_fences
    from unnest(p_ids, p_fences) as u (id, fence)
   where not exists (
           select
             from headway.jobs j
            where j.id = u.id and j.fence = u.fence and j.worker_id = p_worker and (j.status = 'running') is true
              and (p_tenant is null or j.tenant_id = p_tenant));
  if p_complete or v_named = v_running then
    update headway.workers w
       set heartbeat_at = v_now,
           lease_expires_at = v_now + w.lease_ms * interval '1 millisecond',
           running = v_named
     where w.id = p_worker
    returning w.lease_expires_at into lease_expires_at;
  end if;
  return next;
end
$$;
