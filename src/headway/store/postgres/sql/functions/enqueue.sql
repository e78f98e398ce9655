-- Insert a batch of jobs, all or none, in call order. An array may be null, or shorter than p_ids: what is missing
-- has its default. Gives one row for each job that is not simply new and queued: its place in the call (from 1),
-- the job that stands for it, that job's status, and whether this call made it.
-- Locks nothing that others wait for; waits only for another transaction's uncommitted equal key.
-- Raises HW001 (a unique key is taken and on_conflict is raise; detail: that job's id), HW003, HW004.
create function headway.enqueue_many(
  p_ids uuid[],
  p_kinds text[],
  p_tenants uuid[] default null,
  p_slugs text[] default null,
  p_queues text[] default null,
  p_payloads json[] default null,
  p_priorities smallint[] default null,
  p_delays_ms bigint[] default null,
  p_scheduled_for timestamptz[] default null,
  p_expires_at timestamptz[] default null,
  p_max_attempts integer[] default null,
  p_max_losses integer[] default null,
  p_backoff_base_ms bigint[] default null,
  p_backoff_cap_ms bigint[] default null,
  p_timeouts_ms bigint[] default null,
  p_deliveries text[] default null,
  p_idempotency_keys text[] default null,
  p_unique_keys text[] default null,
  p_unique_scopes text[] default null,
  p_on_conflicts text[] default null,
  p_correlation_ids text[] default null,
  p_trace_ids text[] default null,
  p_sources text[] default null,
  p_source_refs text[] default null,
  p_created_by text[] default null,
  p_metas json[] default null
) returns table (place bigint, id uuid, status text, created boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := headway.now();
  v_own uuid := coalesce(headway.scope(null), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
  v_tenant uuid;
  v_slug text;
  v_inserted bigint;
  v_repeats boolean := true;
begin
  if p_tenants is not null then
    for v_tenant, v_slug in
      select distinct coalesce(t.id, v_own), coalesce(t.slug, t.id::text)
        from unnest(p_tenants, p_slugs) as t (id, slug)
    loop
      perform headway.name_tenant(headway.scope(v_tenant), v_slug, v_now);
    end loop;
  end if;
  perform
     from (select distinct unnest(p_kinds || p_queues)) as n (name)
    where n.name !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$';
  if found or array_position(p_kinds, null) is not null or cardinality(p_kinds) is distinct from cardinality(p_ids) then
    raise exception 'a kind or queue name is missing or not valid: 1 to 128 letters, digits and . _ - : /'
      using errcode = 'HW004';
  end if;

  if p_unique_keys is not null or p_idempotency_keys is not null then
    select count(k.u) <> count(distinct k.u) or count(k.i) <> count(distinct k.i)
      into v_repeats
      from unnest(p_unique_keys, p_idempotency_keys) as k (u, i);
  end if;
  -- positions follow the order of the call; the rows go in by their keys, so that two batches that wait for each
  -- other's keys never do so in a circle; but where a key comes twice in a batch, the first to call has it
  insert into headway.jobs (
    id, tenant_id, kind, queue, payload, priority, status, scheduled_for, queued_at, position,
    expires_at, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms,
    delivery, idempotency_key, unique_key, unique_scope, correlation_id, trace_id,
    source, source_ref, created_by, meta, created_at)
  select g.id, g.tenant_id, g.kind, g.queue, g.payload, g.priority,
         case when g.position is null then 'scheduled' else 'queued' end,
         g.due,
         case when g.position is null then null else v_now end,
         g.position,
         g.expires_at, g.max_attempts, g.max_losses, g.backoff_base_ms, g.backoff_cap_ms, g.timeout_ms,
         g.delivery, g.idempotency_key, g.unique_key, g.unique_scope, g.correlation_id, g.trace_id,
         g.source, g.source_ref, g.created_by, g.meta, v_now
    from (
      select u.id, coalesce(u.tenant_id, v_own) as tenant_id, u.kind, coalesce(u.queue, 'default') as queue,
             coalesce(u.payload, '{}') as payload, coalesce(u.priority, 100) as priority,
             d.due,
             case when d.due > v_now then null else nextval('headway.position') end as position,
             u.expires_at, coalesce(u.max_attempts, 5) as max_attempts,
             coalesce(u.max_losses, u.max_attempts, 5) as max_losses,
             coalesce(u.backoff_base_ms, 1000) as backoff_base_ms,
             coalesce(u.backoff_cap_ms, 3600000) as backoff_cap_ms, u.timeout_ms,
             coalesce(u.delivery, 'at_least_once') as delivery, u.idempotency_key, u.unique_key,
             case when u.unique_key is not null
                  then coalesce(string_to_array(u.unique_scope, ','), '{queued,scheduled,held,running,waiting}')
             end as unique_scope,
             u.correlation_id, u.trace_id, coalesce(u.source, 'manual') as source, u.source_ref, u.created_by, u.meta,
             u.place
        from unnest(
               p_ids, p_tenants, p_kinds, p_queues, p_payloads, p_priorities, p_delays_ms, p_scheduled_for,
               p_expires_at, p_max_attempts, p_max_losses, p_backoff_base_ms, p_backoff_cap_ms, p_timeouts_ms,
               p_deliveries, p_idempotency_keys, p_unique_keys, p_unique_scopes, p_correlation_ids, p_trace_ids,
               p_sources, p_source_refs, p_created_by, p_metas)
             with ordinality as u (
               id, tenant_id, kind, queue, payload, priority, delay_ms, scheduled_for,
               expires_at, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms,
               delivery, idempotency_key, unique_key, unique_scope, correlation_id, trace_id,
               source, source_ref, created_by, meta, place)
        cross join lateral (
          select coalesce(u.scheduled_for, v_now + u.delay_ms * interval '1 millisecond') as due
        ) d
    ) g
   order by case when v_repeats then null else g.unique_key end,
            case when v_repeats then null else g.idempotency_key end,
            g.place
  on conflict do nothing;
  get diagnostics v_inserted = row_count;

  if v_inserted = cardinality(p_ids) then
    -- the usual case: everything is new; only what waits for its time needs a word
    if p_delays_ms is not null or p_scheduled_for is not null then
      return query
        select u.place, u.id, 'scheduled', true
          from unnest(p_ids, p_delays_ms, p_scheduled_for) with ordinality as u (id, delay_ms, due, place)
         where coalesce(u.due, v_now + u.delay_ms * interval '1 millisecond') > v_now;
    end if;
    return;
  end if;
  return query
    select * from headway.enqueued(v_own, p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_on_conflicts);
end
$$;

-- What stands for each job of a batch that met existing ones: itself by id, else its idempotency key's or unique
-- key's holder. A new statement, so that a holder committed meanwhile is seen.
-- Raises HW001 where on_conflict is raise, and 40001 where the holder has gone again: try the call again.
create function headway.enqueued(
  p_own uuid,
  p_ids uuid[],
  p_tenants uuid[],
  p_kinds text[],
  p_idempotency_keys text[],
  p_unique_keys text[],
  p_on_conflicts text[]
) returns table (place bigint, id uuid, status text, created boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found record;
begin
  for v_found in
    select u.place, u.id as asked, u.kind, u.idempotency_key, u.unique_key, u.on_conflict,
           coalesce(own.id, same.id, holder.id) as id,
           coalesce(own.status, same.status, holder.status) as status,
           own.id is null and same.id is null as by_unique_key
      from unnest(p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_on_conflicts)
           with ordinality as u (id, tenant_id, kind, idempotency_key, unique_key, on_conflict, place)
      cross join lateral (select coalesce(u.tenant_id, p_own) as owner) o
      left join lateral (
        select j.id, j.status from headway.jobs j where j.id = u.id and j.tenant_id = o.owner limit 1
      ) own on true
      left join lateral (
        select j.id, j.status
          from headway.jobs j
         where j.tenant_id = o.owner and j.kind = u.kind and j.idempotency_key = u.idempotency_key
         limit 1
      ) same on own.id is null
      left join lateral (
        select j.id, j.status
          from headway.jobs j
         where j.tenant_id = o.owner and j.kind = u.kind and j.unique_key = u.unique_key
           and j.unique_key is not null and j.status = any (j.unique_scope)
         limit 1
      ) holder on own.id is null and same.id is null
     order by u.place
  loop
    if v_found.id is null and v_found.idempotency_key is null and v_found.unique_key is null then
      raise exception 'job id % is taken: give a new job an id of its own', v_found.asked
        using errcode = 'HW004';
    end if;
    if v_found.id is null then
      raise exception 'a job that held the key of this one has just ended: try again'
        using errcode = '40001';
    end if;
    if v_found.by_unique_key and v_found.on_conflict = 'raise' then
      raise exception 'unique key "%" of kind % is taken by job % (%): nothing was enqueued; on_conflict=''return'' gives that job instead',
        v_found.unique_key, v_found.kind, v_found.id, v_found.status
        using errcode = 'HW001', detail = v_found.id::text;
    end if;
    place := v_found.place;
    id := v_found.id;
    status := v_found.status;
    created := v_found.id is not distinct from v_found.asked;
    if not created or status <> 'queued' then
      return next;
    end if;
  end loop;
end
$$;

-- Insert one job; every option by name: select * from headway.enqueue('welcome', '{"user_id": 7}', delay => '5 min').
-- The same as enqueue_many for a batch of one, without the price of two dozen arrays. Raises HW001, HW003, HW004.
create function headway.enqueue(
  kind text,
  payload json default '{}',
  queue text default 'default',
  tenant uuid default null,
  slug text default null,
  id uuid default null,
  priority integer default 100,
  delay interval default null,
  scheduled_for timestamptz default null,
  expires_at timestamptz default null,
  max_attempts integer default 5,
  max_losses integer default null,
  backoff_base interval default '1 second',
  backoff_cap interval default '1 hour',
  timeout interval default null,
  delivery text default 'at_least_once',
  idempotency_key text default null,
  unique_key text default null,
  unique_scope text[] default '{queued,scheduled,held,running,waiting}',
  on_conflict text default 'return',
  correlation_id text default null,
  trace_id text default null,
  source text default 'manual',
  source_ref text default null,
  created_by text default null,
  meta json default null
) returns table (job_id uuid, job_status text, created boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
-- one statement where it can be: every further expression is made ready anew in every transaction
begin
  if tenant is not null then
    perform headway.name_tenant(headway.scope(tenant), coalesce(slug, tenant::text), headway.now());
  end if;
  insert into headway.jobs (
    id, tenant_id, kind, queue, payload, priority, status, scheduled_for, queued_at, position,
    expires_at, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms,
    delivery, idempotency_key, unique_key, unique_scope, correlation_id, trace_id,
    source, source_ref, created_by, meta, created_at)
  select coalesce(id, headway.uuid7()), t.id, kind, queue, payload, priority,
         case when d.due > t.now then 'scheduled' else 'queued' end,
         d.due,
         case when d.due > t.now then null else t.now end,
         case when d.due > t.now then null else nextval('headway.position') end,
         expires_at, max_attempts, coalesce(max_losses, max_attempts),
         extract(epoch from backoff_base) * 1000, extract(epoch from backoff_cap) * 1000,
         extract(epoch from timeout) * 1000,
         delivery, idempotency_key, unique_key, case when unique_key is not null then unique_scope end, correlation_id,
         trace_id, source, source_ref, created_by, meta, t.now
    from (select coalesce(case when headway.trusted() then tenant else headway.scope(tenant) end,
                          'cbc7797a-7d82-5166-9044-8e0ae3cba0bc') as id,
                 headway.now() as now) t
    cross join lateral (select coalesce(scheduled_for, t.now + delay) as due) d
   where kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
     and queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$'
  on conflict do nothing
  returning jobs.id, jobs.status, true into job_id, job_status, created;
  if found then
    return next;
    return;
  end if;
  if (kind ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$' and queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$') is not true then
    raise exception 'a kind or queue name is missing or not valid: 1 to 128 letters, digits and . _ - : /'
      using errcode = 'HW004';
  end if;
  return query
    select coalesce(e.id, enqueue.id), coalesce(e.status, 'queued'), coalesce(e.created, true)
      from (select) one
      left join headway.enqueued(
        coalesce(headway.scope(tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'),
        array[enqueue.id], null, array[kind], array[idempotency_key], array[unique_key], array[on_conflict]
      ) e on true;
end
$$;
