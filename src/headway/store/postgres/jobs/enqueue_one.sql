-- Enqueue one job: plain, or with every option by name.

-- Fast path: one plain job of the default tenant, due now. Filling in three dozen default parameters takes longer than
-- inserting such a row. Gives null if the job is new and queued; else the answer of enqueue, which is called then: id,
-- status and created, separated by spaces. For the library, which has checked the payload.
-- Raises what enqueue raises.
create function headway.enqueue_plain(
  p_id uuid,
  p_kind text,
  p_queue text,
  p_payload json,
  p_priority smallint,
  p_max_attempts integer,
  p_max_losses integer,
  p_backoff_base_ms bigint,
  p_backoff_cap_ms bigint,
  p_timeout_ms bigint
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  with inserted as (
    insert into headway.jobs (
      id, tenant_id, kind, queue, payload, priority, status, queued_at, position, max_attempts, max_losses,
      backoff_base_ms, backoff_cap_ms, timeout_ms, created_at)
    select p_id, 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc', p_kind, p_queue, p_payload, p_priority, 'queued', t.now,
           nextval('headway.position'), p_max_attempts, p_max_losses, p_backoff_base_ms, p_backoff_cap_ms, p_timeout_ms, t.now
      -- checked: the trigger jobs_new need not check again
      from (select headway.now() as now, set_config('headway.checked', 'on', true) as checked) t
     where headway.is_name(p_kind)
       and headway.is_name(p_queue)
       and least(p_max_attempts, p_max_losses) > 0
       and least(p_backoff_base_ms, p_backoff_cap_ms) >= 0
       and coalesce(p_timeout_ms, 1) > 0
       and greatest(p_backoff_base_ms, p_backoff_cap_ms, p_timeout_ms) <= 3162240000000
       and headway.trusted()
       and (select 1 from headway.definitions d where d.kind = p_kind and (not d.active or d.tenants is not null) limit 1) is null
       and (select 1 from headway.limits l where l.has_quotas limit 1) is null
       and (select 1 from headway.queues q where q.name = p_queue and q.fair) is null
       and current_setting('transaction_isolation') = 'read committed'
    on conflict do nothing
    returning set_config('headway.checked', '', true), created_at as now
  )
  insert into headway.stat_deltas (at, tenant_id, queue, kind, enqueued)
  select i.now, 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc', p_queue, p_kind, 1
    from inserted i;
  if found then
    return null;
  end if;
  return (
    select concat_ws(' ', e.job_id, e.job_status, e.created::text)
      from headway.enqueue(
             p_kind, p_payload, p_queue, id => p_id, priority => p_priority, max_attempts => p_max_attempts,
             max_losses => p_max_losses, backoff_base => p_backoff_base_ms * interval '1 millisecond',
             backoff_cap => p_backoff_cap_ms * interval '1 millisecond',
             timeout => p_timeout_ms * interval '1 millisecond', checked => true) e);
end
$$;

-- Insert one job, with every option by name: select * from headway.enqueue('welcome', '{"user_id": 7}', delay => '5
-- min'). The same as enqueue_many for a batch of one, without the cost of two dozen arrays. checked: the caller has
-- checked payload, meta and state, as the library does. debounce is a delay that each enqueue with the unique key
-- restarts (on_conflict is replace, unless it is given), at most until debounce_max after the first. unique_for is how long a
-- new job has its unique key at least. An untrusted caller may set queue, timeout, partition, concurrency and rate only
-- as `restrict` allows. Raises HW001, HW003, HW004, HW005, HW010.
create function headway.enqueue(
  kind text,
  payload json default '{}',
  queue text default null,
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
  unique_group text default null,
  unique_for interval default null,
  on_conflict text default 'return',
  replace text[] default null,
  debounce interval default null,
  debounce_max interval default null,
  correlation_id text default null,
  trace_id text default null,
  source text default 'manual',
  source_ref text default null,
  created_by text default null,
  meta json default null,
  train text default null,
  on_canceled text default 'advance',
  on_dead text default 'advance',
  partition text default null,
  concurrency integer default null,
  concurrency_key text default null,
  rate_count integer default null,
  rate_period interval default null,
  rate_burst integer default null,
  rate_key text default null,
  "group" uuid default null,
  after uuid[] default null,
  on_failure text default 'stop',
  checkpoint jsonb default null,
  state json default null,
  tags text[] default null,
  alone boolean default null,
  checked boolean default false
) returns table (job_id uuid, job_status text, created boolean, replaced boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
  v_seat boolean := train is not null and after is null and coalesce(alone, headway.alone())
                    and headway.train_is_free(headway.acting_tenant(tenant), train);
  v_held boolean := after is not null or train is not null and not v_seat;
  v_tenant uuid;
  v_metered boolean;
  v_now timestamptz;
  v_checked text;
  v_met uuid[];
  v_rounds integer := 0;
-- one statement as far as possible: every transaction prepares each further expression again
begin
  if on_conflict not in ('return', 'raise') or coalesce(debounce, unique_for) is not null then
    -- what replaces other jobs, or opens a window, goes the general way
    id := coalesce(id, headway.uuid7());
    return query
      select coalesce(e.id, enqueue.id), coalesce(e.status, 'queued'), coalesce(e.created, true),
             coalesce(e.replaced, false)
        from (select) one
        left join headway.enqueue_many(
               array[enqueue.id], array[kind],
               p_tenants => case when tenant is not null then array[tenant] end,
               p_slugs => array[slug], p_queues => array[queue], p_payloads => array[payload],
               p_priorities => array[priority::smallint],
               p_delays_ms => array[(extract(epoch from coalesce(debounce, delay)) * 1000)::bigint],
               p_scheduled_for => array[scheduled_for], p_expires_at => array[expires_at],
               p_max_attempts => array[max_attempts], p_max_losses => array[max_losses],
               p_backoff_base_ms => array[(extract(epoch from backoff_base) * 1000)::bigint],
               p_backoff_cap_ms => array[(extract(epoch from backoff_cap) * 1000)::bigint],
               p_timeouts_ms => array[(extract(epoch from timeout) * 1000)::bigint], p_deliveries => array[delivery],
               p_idempotency_keys => array[idempotency_key], p_unique_keys => array[unique_key],
               p_unique_scopes => array[array_to_string(unique_scope, ',')], p_unique_groups => array[unique_group],
               p_on_conflicts => array[case when debounce is not null and on_conflict in ('return', 'raise') then 'replace'
                                            else on_conflict end],
               p_unique_for_ms => case when unique_for is not null
                                       then array[(extract(epoch from unique_for) * 1000)::bigint] end,
               p_replaces => array[array_to_string(replace, ',')],
               p_debounce_max_ms => array[(extract(epoch from debounce_max) * 1000)::bigint],
               p_correlation_ids => array[correlation_id], p_trace_ids => array[trace_id], p_sources => array[source],
               p_source_refs => array[source_ref], p_created_by => array[created_by], p_metas => array[meta],
               p_trains => case when train is not null then array[train] end, p_on_canceled => array[on_canceled],
               p_on_dead => array[on_dead], p_partitions => array[partition], p_concurrency => array[concurrency],
               p_concurrency_keys => array[concurrency_key], p_rate_counts => array[rate_count],
               p_rate_periods_ms => array[(extract(epoch from rate_period) * 1000)::bigint],
               p_rate_bursts => array[rate_burst], p_rate_keys => array[rate_key],
               p_groups => case when "group" is not null then array["group"] end,
               p_afters => case when after is not null then array[array_to_string(after, ',')] end,
               p_on_failures => array[on_failure], p_checkpoints => array[case when tags is not null
                                           then coalesce(checkpoint, '{}') || jsonb_build_object('tags', headway.checked_tags(tags))
                                           else checkpoint end],
               p_states => array[state],
               p_alone => alone, p_checked => checked) e on true;
    return;
  end if;
  if not (checked and headway.trusted()) then
    if not checked then
      -- the sizes that the library allows by default
      perform headway.check_json('payload', payload, 1048576), headway.check_json('meta', meta, 65536),
              headway.check_json('state', state, 1048576);
    end if;
    if not headway.trusted() then
      tenant := headway.acting_tenant(tenant);
      select r.queue, r.timeout_ms * interval '1 millisecond', r.partition, r.concurrency, r.concurrency_key,
             r.rate_count, r.rate_period_ms * interval '1 millisecond', r.rate_burst, r.rate_key
        into queue, timeout, partition, concurrency, concurrency_key, rate_count, rate_period, rate_burst, rate_key
        from headway.restrict(
               kind, checkpoint, queue, (extract(epoch from timeout) * 1000)::bigint, partition, concurrency,
               concurrency_key, rate_count, (extract(epoch from rate_period) * 1000)::bigint, rate_burst,
               rate_key) r;
    end if;
  end if;
  if tags is not null then
    tags := headway.checked_tags(tags);
  end if;
  if tenant is not null then
    perform headway.name_tenant(headway.acting_tenant(tenant), coalesce(slug, tenant::text), headway.now());
  end if;
  loop
    insert into headway.jobs (
      id, tenant_id, kind, queue, payload, priority, status, scheduled_for, queued_at, position,
      expires_at, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms,
      delivery, idempotency_key, unique_key, unique_scope, unique_group, correlation_id, trace_id,
      source, source_ref, created_by, meta, created_at, metered, fair,
      train, on_canceled, on_dead, partition, concurrency, concurrency_key,
      rate_count, rate_period_ms, rate_burst, rate_key, group_id, pending,
      version, step, state, awaiting, match_all, joining, woken, home_queue, home_partition, forked_from, parent_id,
      template_id, template_revision, trigger_id, tags)
    select coalesce(id, headway.uuid7()), t.id, kind, t.queue, payload, priority, s.status, d.due,
           case when s.status = 'queued' then t.now end,
           case when s.status <> 'scheduled' or train is not null then nextval('headway.position') end,
           expires_at, max_attempts, coalesce(max_losses, max_attempts),
           extract(epoch from backoff_base) * 1000, extract(epoch from backoff_cap) * 1000,
           extract(epoch from timeout) * 1000,
           delivery, idempotency_key, unique_key, case when unique_key is not null then unique_scope end, unique_group,
           correlation_id, trace_id, source, source_ref, created_by, meta, t.now,
           case when (select 1 from headway.limits l where l.has_quotas limit 1) is not null
                then nullif(headway.lock_job_quotas(array[t.id], t.id, array[kind], array[checkpoint]) is not null, false) end,
           case when t.id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
                     or current_setting('transaction_isolation') <> 'read committed' then true
                else (select true from headway.queues q where q.name = t.queue and q.fair)
           end,
           train, nullif(on_canceled, 'advance'), nullif(on_dead, 'advance'), partition, concurrency, concurrency_key,
           rate_count, extract(epoch from rate_period) * 1000, rate_burst, rate_key, "group", case when after is not null then true end,
           (checkpoint ->> 'version')::integer, checkpoint ->> 'step', state, headway.texts(checkpoint -> 'awaiting'),
           case when checkpoint ->> 'match' = 'all' then true end, (checkpoint ->> 'joining')::integer,
           checkpoint ->> 'woken', checkpoint ->> 'home_queue', checkpoint ->> 'home_partition',
           (checkpoint ->> 'forked_from')::uuid, (checkpoint ->> 'parent_id')::uuid,
           (checkpoint ->> 'template_id')::uuid, (checkpoint ->> 'template_revision')::integer,
           (checkpoint ->> 'trigger_id')::uuid, tags
      from (select coalesce(tenant, 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc') as id,
                   coalesce(queue, 'default') as queue, headway.now() as now,
                   -- the trigger jobs_new need not check again
                   set_config('headway.checked', 'on', true) as checked) t
      cross join lateral (select coalesce(scheduled_for, t.now + delay) as due) d
      cross join lateral (
        select case when v_held then 'held' when d.due > t.now then 'scheduled' else 'queued' end as status) s
      cross join lateral (
        select headway.flaw(
                 delivery, source, max_attempts, coalesce(max_losses, max_attempts),
                 (extract(epoch from backoff_base) * 1000)::bigint, (extract(epoch from backoff_cap) * 1000)::bigint,
                 (extract(epoch from timeout) * 1000)::bigint, d.due, expires_at, train, partition,
                 nullif(on_canceled, 'advance'), nullif(on_dead, 'advance'), concurrency, concurrency_key,
                 rate_count, (extract(epoch from rate_period) * 1000)::bigint, rate_burst, rate_key) as rule
      ) f
     where case
             when f.rule is null then true
             else headway.refuse_job(id, f.rule)
           end
       and headway.is_name(kind)
       and headway.is_name(t.queue)
       and ((select 1 from headway.definitions d
              where d.kind = enqueue.kind and (not d.active or d.tenants is not null) limit 1) is null
            or headway.takes(kind, checkpoint, t.id))
    on conflict do nothing
    returning jobs.id, jobs.status, true, false, jobs.tenant_id, jobs.metered, jobs.created_at,
              set_config('headway.checked', '', true)
      into job_id, job_status, created, replaced, v_tenant, v_metered, v_now, v_checked;
    if found then
      insert into headway.stat_deltas (at, tenant_id, queue, kind, enqueued)
      values (v_now, v_tenant, coalesce(queue, 'default'), kind, 1);
      if after is not null then
        perform headway.add_edges(array[job_id], array[array_to_string(after, ',')], array[on_failure], null);
      elsif job_status = 'held' then
        insert into headway.arrivals (tenant_id, trains) values (v_tenant, array[train]);
      end if;
      if "group" is not null then
        perform headway.join_group(array[job_id], array["group"]);
      end if;
      if v_metered then
        perform headway.check_job_quotas(array[v_tenant], array[job_id]);
      end if;
      if tags is not null then
        perform headway.index_tags(array[job_id]);
      end if;
      return next;
      return;
    end if;
    perform set_config('headway.checked', '', true);
    perform headway.check_kinds(
      array[kind], array[checkpoint], null,
      coalesce(headway.acting_tenant(tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'));
    if (headway.is_name(kind) and headway.is_name(coalesce(queue, 'default'))) is not true then
      raise exception 'a kind or queue name is missing or not valid: 1 to 128 letters, digits and . _ - : /'
        using errcode = 'HW004';
    end if;
    v_met := headway.key_holders(
      coalesce(headway.acting_tenant(tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'), array[enqueue.id], null,
      array[kind], array[idempotency_key], array[unique_key], array[unique_group]);
    exit when v_met[1] is not null;
    if v_seat then
      -- another locomotive may have come first
      v_seat := false;
      v_held := true;
    else
      -- who had the key has just ended: it is free
      v_rounds := v_rounds + 1;
      exit when v_rounds > 20 or current_setting('transaction_isolation') <> 'read committed';
    end if;
  end loop;
  return query
    select e.id, e.status, e.created, e.replaced
      from headway.enqueued(
             coalesce(headway.acting_tenant(tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'), array[enqueue.id], null,
             array[kind], array[idempotency_key], array[unique_key], array[unique_group], array[on_conflict], null,
             v_met) e;
end
$$;
