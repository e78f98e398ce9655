-- Events: an outbox. To emit is only an insert, so the transaction may be long and nobody waits for it. What follows
-- from an event is decided after its commit, by the worker that handles it (fires.sql).

-- Store events, all or none; an event whose id exists is left as it is. An array may be null, or shorter than p_ids.
-- Locks nothing that others wait for. Raises HW003; HW004 (a name that is missing, not valid, or begins with
-- "headway.", as only the engine's do; an id that another tenant's event has); HW007 (a reference to a secret: emitters
-- do not choose the payloads of jobs).
create function headway.emit_many(
  p_ids uuid[],
  p_names text[],
  p_payloads json[] default null,
  p_tenants uuid[] default null,
  p_slugs text[] default null,
  p_correlation_ids text[] default null,
  p_created_by text[] default null,
  p_trace_ids text[] default null,
  p_checked boolean default false
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := headway.now();
  v_own uuid := coalesce(headway.acting_tenant(null), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
  v_tenant uuid;
  v_slug text;
  v_name text;
  v_taken uuid;
  v_metered uuid[];
  v_known uuid[];
  v_new integer;
begin
  if cardinality(p_names) is distinct from cardinality(p_ids)
     or exists (
          select
            from unnest(p_names) as u (name)
           where (u.name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$') is not true) then
    raise exception 'an event name is missing or not valid: 1 to 128 letters, digits and . _ - : /. Nothing was emitted'
      using errcode = 'HW004';
  end if;
  select u.name into v_name from unnest(p_names) as u (name) where u.name like 'headway.%' limit 1;
  if found then
    raise exception 'event name "%" begins with "headway.", which only the engine''s own events do: nothing was emitted',
      v_name
      using errcode = 'HW004';
  end if;
  if not p_checked then
    perform headway.check_json('data of an event', u.payload, 1048576) from unnest(p_payloads) as u (payload);
  end if;
  if exists (select from unnest(p_payloads) as u (payload) where headway.refers_to_secret(u.payload)) then
    raise exception 'the data of an event holds a reference to a secret ("$secret"), which only payloads of jobs, templates and triggers may: nothing was emitted'
      using errcode = 'HW007';
  end if;
  if p_tenants is not null then
    for v_tenant, v_slug in
      select distinct t.id, coalesce(t.slug, t.id::text)
        from unnest(p_tenants, p_slugs) as t (id, slug)
       where t.id is not null
    loop
      perform headway.name_tenant(headway.acting_tenant(v_tenant), v_slug, v_now);
    end loop;
  end if;
  v_metered := headway.lock_event_quotas(coalesce(p_tenants, array[v_own]), v_own);
  if v_metered is not null then
    v_known := array(select e.id from headway.events e where e.id = any (p_ids));
  end if;
  -- in order of id, so that two calls with the same ids never deadlock
  insert into headway.events (id, tenant_id, name, payload, status, emitted_at, correlation_id, trace_id, created_by)
  select u.id, coalesce(u.tenant_id, v_own), u.name, coalesce(u.payload, 'null'), 'pending', v_now, u.correlation_id,
         u.trace_id, u.created_by
    from unnest(p_ids, p_tenants, p_names, p_payloads, p_correlation_ids, p_trace_ids, p_created_by)
         as u (id, tenant_id, name, payload, correlation_id, trace_id, created_by)
   order by u.id
  on conflict do nothing;
  get diagnostics v_new = row_count;
  if v_new < cardinality(p_ids) then
    select e.id
      into v_taken
      from unnest(p_ids, p_tenants) as u (id, tenant_id)
      join headway.events e on e.id = u.id
     where e.tenant_id <> coalesce(u.tenant_id, v_own)
     order by e.id
     limit 1;
    if found then
      raise exception 'event id % is taken: give a new event an id of its own', v_taken using errcode = 'HW004';
    end if;
  end if;
  if v_metered is not null and v_new > 0 then
    perform headway.check_event_quotas(v_metered, array(select unnest(p_ids) except select unnest(v_known)));
  end if;
end
$$;

-- Store one event; gives its id: select headway.emit('order.paid', '{"order_id": 7}'). Without a tenant: the session's
-- own, or the default one. Raises what emit_many raises.
create function headway.emit(
  name text, payload json default 'null', tenant uuid default null, correlation_id text default null
) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  v_id uuid := headway.uuid7();
begin
  perform headway.emit_many(array[v_id], array[name], array[payload], array[tenant], null, array[correlation_id]);
  return v_id;
end
$$;

-- Store the engine's own events: one for each of these jobs that is over, if an enabled trigger of its tenant is on it;
-- but not for a job that such a trigger made, which would trigger itself forever. The caller has the rows locked. One
-- probe where there is no such trigger.
create function headway.announce(p_ids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  perform from headway.triggers t where t.enabled and t.type = 'event' and t.event like 'headway.job.%' limit 1;
  if not found then
    return;
  end if;
  insert into headway.events (id, tenant_id, name, payload, status, emitted_at, correlation_id, trace_id, job_id)
  select headway.uuid7(), j.tenant_id, n.name,
         json_build_object(
           'job_id', j.id, 'kind', j.kind, 'queue', j.queue, 'status', j.status, 'error', split_part(j.error, e'\n', 1),
           'tries', j.tries, 'losses', j.losses, 'correlation_id', j.correlation_id, 'source', j.source,
           'trigger_id', j.trigger_id),
         'pending', p_now, j.correlation_id, coalesce(j.trace_id, replace(j.id::text, '-', '')), j.id
    from unnest(p_ids) as u (id)
    join headway.jobs j on j.id = u.id
    cross join lateral (select 'headway.job.' || j.status as name) n
   where (j.finished_at is not null) is true
     and (select 1
            from headway.triggers t
           where t.tenant_id = j.tenant_id and t.event in (n.name, 'headway.job.*')
             and t.enabled and t.type = 'event' and t.event like 'headway.job.%'
           limit 1) is not null
     and (j.trigger_id is null
          or (select 1
                from headway.triggers r
               where r.id = j.trigger_id and r.type = 'event' and r.event like 'headway.job.%'
               limit 1) is null);
end
$$;

-- Make failed events pending again, for the triggers whose fire failed: those fires are deleted. Gives the ids of those
-- that had failed, in call order. Locks the events in order of id. Audited. Raises HW003.
create function headway.retry_events(p_ids uuid[], p_tenant uuid default null, p_actor text default null)
returns setof uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_ids uuid[];
begin
  select array_agg(l.id)
    into v_ids
    from (select e.id
            from headway.events e
           where e.id = any (p_ids)
             and (v_tenant is null or e.tenant_id = v_tenant)
             and e.status = 'failed'
           order by e.id
             for update) l;
  if v_ids is null then
    return;
  end if;
  delete from headway.fires f where f.event_id = any (v_ids) and f.status = 'failed';
  with again as (
    update headway.events e
       set status = 'pending', handled_at = null, error = null
     where e.id = any (v_ids)
    returning e.id, e.tenant_id, e.name
  )
  insert into headway.audit (tenant_id, at, actor, action, detail)
  select a.tenant_id, v_now, p_actor, 'event.retried', a.name || ' ' || a.id
    from again a
   order by a.id;
  return query
    select u.id
      from (select u.id, min(u.ordinal) as ordinal
              from unnest(p_ids) with ordinality as u (id, ordinal)
             where u.id = any (v_ids)
             group by u.id) u
     order by u.ordinal;
end
$$;
