-- Enqueue a batch, as arrays.

-- Insert a batch of jobs, all or none, in call order. An array may be null, or shorter than p_ids: missing values have
-- their defaults. Gives a row for each job that is not simply new and queued: its ordinal in the call (from 1), the id
-- of the job or of the one found instead, its status, and whether this call made it.
-- A job whose unique key is taken is answered with the job that has it; or refused, or replaces that one, or is inserted
-- as its successor (held), by p_on_conflicts (taken_keys.sql). p_replaces are what to replace, as text, separated by
-- commas; p_debounce_max_ms is how long after its first enqueue a replaced job may wait. p_unique_for_ms is how long a
-- new job has its key at least (unique_windows.sql).
-- Locks nothing that others wait for, except jobs that it replaces; waits for another transaction's uncommitted equal
-- key, and for who has a job that it replaces. p_afters are the ids that each job waits for, as text, separated by
-- commas. p_checkpoints say where machines begin, as Checkpoint in
-- model/machine.py, but without the state, which is in p_states: as json it keeps its text. They also have template_id,
-- template_revision and trigger_id of jobs that were made from these, and tags: too rare for arrays of their own. A car
-- is inserted as held, with an arrival for the next claim. In a transaction of its own, the first car of a train that
-- has neither an unfinished car nor a hold is inserted as its locomotive. p_alone says that the transaction ends with
-- this call; else that is assumed for a single statement of the simple protocol, as psql sends it.
-- An untrusted caller may set queue, timeout, partition, concurrency and rate only as `restrict` allows. Raises HW001
-- (a unique key is taken and on_conflict is raise; detail: that job's id), HW003 (also for a kind that is not active),
-- HW004, HW005, HW010 (a kind that is not for the tenant).
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
  p_unique_groups text[] default null,
  p_unique_for_ms bigint[] default null,
  p_on_conflicts text[] default null,
  p_replaces text[] default null,
  p_debounce_max_ms bigint[] default null,
  p_correlation_ids text[] default null,
  p_trace_ids text[] default null,
  p_sources text[] default null,
  p_source_refs text[] default null,
  p_created_by text[] default null,
  p_metas json[] default null,
  p_trains text[] default null,
  p_on_canceled text[] default null,
  p_on_dead text[] default null,
  p_partitions text[] default null,
  p_concurrency integer[] default null,
  p_concurrency_keys text[] default null,
  p_rate_counts integer[] default null,
  p_rate_periods_ms bigint[] default null,
  p_rate_bursts integer[] default null,
  p_rate_keys text[] default null,
  p_groups uuid[] default null,
  p_afters text[] default null,
  p_on_failures text[] default null,
  p_checkpoints jsonb[] default null,
  p_states json[] default null,
  p_alone boolean default null,
  p_checked boolean default false
) returns table (ordinal bigint, id uuid, status text, created boolean, replaced boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := headway.now();
  v_scope uuid := headway.acting_tenant(null);
  v_own uuid := coalesce(v_scope, 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
  v_tenant uuid;
  v_slug text;
  v_inserted bigint;
  v_rows bigint;
  v_made uuid[];
  v_repeats boolean := false;
  v_taken boolean[];
  v_decided boolean[];
  v_ordered boolean := p_trains is not null or p_afters is not null;
  v_again boolean := false;
  v_replaces boolean := coalesce(p_on_conflicts && '{replace,replace_or_follow}', false);
  v_met uuid[];
  v_outcomes text[];
  v_rounds integer := 0;
  v_afters text[] := p_afters;
  v_scopes text[] := p_unique_scopes;
  v_alone boolean := p_trains is not null and coalesce(p_alone, headway.alone());
  v_leads boolean[];
  v_first boolean[];
  v_positions bigint[];
  v_metered uuid[];
  v_known uuid[];
  v_fair text[];
  v_holders uuid[];
  v_mark boolean := current_setting('transaction_isolation') <> 'read committed'; -- see is_marked
  -- the trigger jobs_new need not check again
  v_checked text := set_config('headway.checked', 'on', true);
begin
  if not p_checked then
    perform headway.check_json('payload', u.payload, 1048576), headway.check_json('meta', u.meta, 65536),
            headway.check_json('state', u.state, 1048576)
       from unnest(p_payloads, p_metas, p_states) as u (payload, meta, state);
  end if;
  if v_scope is not null then
    -- an untrusted caller
    select array_agg(r.queue order by u.ordinal), array_agg(r.timeout_ms order by u.ordinal),
           array_agg(r.partition order by u.ordinal), array_agg(r.concurrency order by u.ordinal),
           array_agg(r.concurrency_key order by u.ordinal), array_agg(r.rate_count order by u.ordinal),
           array_agg(r.rate_period_ms order by u.ordinal), array_agg(r.rate_burst order by u.ordinal),
           array_agg(r.rate_key order by u.ordinal)
      into p_queues, p_timeouts_ms, p_partitions, p_concurrency, p_concurrency_keys, p_rate_counts, p_rate_periods_ms,
           p_rate_bursts, p_rate_keys
      from unnest(
             p_kinds, p_checkpoints, p_queues, p_timeouts_ms, p_partitions, p_concurrency, p_concurrency_keys,
             p_rate_counts,
             p_rate_periods_ms, p_rate_bursts, p_rate_keys)
           with ordinality as u (
             kind, machine, queue, timeout_ms, partition, concurrency, concurrency_key, rate_count,
             rate_period_ms, rate_burst, rate_key, ordinal)
      cross join lateral headway.restrict(
        u.kind, u.machine, u.queue, u.timeout_ms, u.partition, u.concurrency, u.concurrency_key, u.rate_count,
        u.rate_period_ms, u.rate_burst, u.rate_key) r;
  end if;
  if p_tenants is not null then
    for v_tenant, v_slug in
      select distinct coalesce(t.id, v_own), coalesce(t.slug, t.id::text)
        from unnest(p_tenants, p_slugs) as t (id, slug)
    loop
      perform headway.name_tenant(headway.acting_tenant(v_tenant), v_slug, v_now);
    end loop;
  end if;
  perform
     from (select distinct unnest(p_kinds || p_queues)) as n (name)
    where not headway.is_name(n.name);
  if found or array_position(p_kinds, null) is not null or cardinality(p_kinds) is distinct from cardinality(p_ids) then
    raise exception 'a kind or queue name is missing or not valid: 1 to 128 letters, digits and . _ - : /'
      using errcode = 'HW004';
  end if;
  if p_replaces is not null then
    perform from unnest(p_replaces) as r (names) where not string_to_array(r.names, ',') <@ headway.replaceable();
    if found then
      raise exception 'replace names what cannot be replaced: give some of %', array_to_string(headway.replaceable(), ', ')
        using errcode = 'HW004';
    end if;
  end if;
  perform from headway.definitions d where not d.active or d.tenants is not null limit 1;
  if found then
    perform headway.check_kinds(p_kinds, p_checkpoints, p_tenants, v_own);
  end if;

  v_metered := headway.lock_job_quotas(coalesce(p_tenants, array[v_own]), v_own, p_kinds, p_checkpoints);
  if v_metered is not null then
    v_known := array(select j.id from headway.jobs j where j.id = any (p_ids));
  end if;
  v_fair := array(select q.name from headway.queues q where q.fair);
  if p_unique_for_ms is not null then
    -- before the inserts, also where others have the keys: windows are locked first by everybody
    select o.met, o.outcomes
      into v_met, v_outcomes
      from headway.open_windows(
             v_now, v_own, p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups,
             p_on_conflicts, p_unique_for_ms) o;
    v_decided := array(
      select u.outcome = 'left' from unnest(v_outcomes) with ordinality as u (outcome, ordinal) order by u.ordinal);
  end if;
  if v_ordered then
    -- taken before the inserts: what is inserted in a second round keeps its position in the call
    v_positions := array(select nextval('headway.position') from unnest(p_ids));
  end if;
  if v_alone then
    v_leads := headway.leads(p_tenants, v_own, p_trains, p_afters);
    v_first := v_leads;  -- stays so in later rounds: a first car meets the holder of its key as a queued job does
  end if;

  if p_unique_keys is not null or p_idempotency_keys is not null then
    select count(k.u) <> count(distinct k.u) or count(k.i) <> count(distinct k.i)
      into v_repeats
      from unnest(p_unique_keys, p_idempotency_keys) as k (u, i);
  end if;
  -- positions follow the order of the call; rows are inserted in order of their keys, so that two batches that wait for
  -- each other's keys never deadlock. But where a key comes twice in a batch, the first one in call order gets it
  v_inserted := 0;
  loop
    if v_replaces then
      select m.met, m.outcomes
        into v_met, v_outcomes
        from headway.meet(
               v_own, p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups, v_scopes,
               p_on_conflicts, p_delays_ms, p_scheduled_for, p_trains, v_first, v_afters, v_now, v_met, v_outcomes) m;
      v_rounds := v_rounds + 1;
      if v_rounds > 20 then
        raise exception 'the jobs that have these keys keep moving: try again'
          using errcode = '40001';
      end if;
      -- the others, which have no outcome, are inserted in the first round
      if not v_outcomes && '{follow,again}' and (v_rounds > 1 or array_position(v_outcomes, null) is null) then
        exit when not v_outcomes && '{replace}';
        -- after the inserts: who waits for a row here has no key that is not in the table yet, so nobody waits for each
        -- other in a circle
        v_outcomes := headway.replace_waiting(
          v_now, p_ids, p_replaces, p_debounce_max_ms, p_delays_ms, p_scheduled_for, p_payloads, p_checkpoints,
          p_states, p_priorities, p_queues, p_expires_at, p_max_attempts, p_max_losses, p_backoff_base_ms,
          p_backoff_cap_ms, p_timeouts_ms, p_metas, p_partitions, p_concurrency, p_concurrency_keys,
          p_rate_counts, p_rate_periods_ms, p_rate_bursts, p_rate_keys, v_met, v_outcomes);
        exit when not v_outcomes && '{again}';
        continue;
      end if;
      v_decided := array(
        select u.outcome in ('replace', 'replaced', 'left')
          from unnest(v_outcomes) with ordinality as u (outcome, ordinal)
         order by u.ordinal);
      if v_leads is not null then
        v_leads := array(
          select u.leads and u.outcome in ('replace', 'replaced', 'left', 'follow') is not true
            from unnest(v_leads, v_outcomes) with ordinality as u (leads, outcome, ordinal)
           order by u.ordinal);
      end if;
      if v_outcomes && '{follow}' or v_rounds > 1 then
        -- successors are held until the end of the one that they met; without an outcome: one that is inserted already
        v_ordered := true;
        v_positions := coalesce(v_positions, array(select nextval('headway.position') from unnest(p_ids)));
        select array_agg(case u.outcome when 'follow' then concat_ws(',', u.given_after, u.met)
                                        when 'again' then u.given_after
                                        else u.after end order by u.ordinal),
               array_agg(case u.outcome when 'follow' then 'continue' else u.on_failure end order by u.ordinal),
               array_agg(case u.outcome when 'follow' then headway.successor_scope(u.given_scope)
                                        when 'again' then u.given_scope
                                        else u.scope end order by u.ordinal)
          into p_afters, p_on_failures, p_unique_scopes
          from unnest(v_outcomes, v_met, p_afters, v_afters, p_on_failures, p_unique_scopes, v_scopes)
               with ordinality as u (outcome, met, after, given_after, on_failure, scope, given_scope, ordinal);
      end if;
    end if;
    with inserted as (
      insert into headway.jobs (
        id, tenant_id, kind, queue, payload, priority, status, scheduled_for, queued_at, position,
        expires_at, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms,
        delivery, idempotency_key, unique_key, unique_scope, unique_group, correlation_id, trace_id,
        source, source_ref, created_by, meta, created_at, metered, fair,
        train, on_canceled, on_dead, partition, concurrency, concurrency_key,
        rate_count, rate_period_ms, rate_burst, rate_key, group_id, pending,
        version, step, state, awaiting, match_all, joining, woken, home_queue, home_partition, forked_from, parent_id,
        template_id, template_revision, trigger_id, tags)
      select g.id, g.tenant_id, g.kind, g.queue, g.payload, g.priority, g.status, g.due,
             case when g.status = 'queued' then v_now end, g.position,
             g.expires_at, g.max_attempts, g.max_losses, g.backoff_base_ms, g.backoff_cap_ms, g.timeout_ms,
             g.delivery, g.idempotency_key, g.unique_key, g.unique_scope, g.unique_group, g.correlation_id, g.trace_id,
             g.source, g.source_ref, g.created_by, g.meta, v_now,
             case when g.tenant_id = any (v_metered) then true end,
             case when v_mark or g.tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc' or g.queue = any (v_fair)
                  then true end,
             g.train, nullif(g.on_canceled, 'advance'), nullif(g.on_dead, 'advance'), g.partition, g.concurrency,
             g.concurrency_key, g.rate_count, g.rate_period_ms, g.rate_burst, g.rate_key, g.group_id,
             case when g.after is not null then true end,
             (g.machine ->> 'version')::integer, g.machine ->> 'step', g.state, headway.texts(g.machine -> 'awaiting'),
             case when g.machine ->> 'match' = 'all' then true end, (g.machine ->> 'joining')::integer,
             g.machine ->> 'woken', g.machine ->> 'home_queue', g.machine ->> 'home_partition',
             (g.machine ->> 'forked_from')::uuid, (g.machine ->> 'parent_id')::uuid,
             (g.machine ->> 'template_id')::uuid, (g.machine ->> 'template_revision')::integer,
             (g.machine ->> 'trigger_id')::uuid, headway.texts(g.machine -> 'tags')
        from (
          select u.id, coalesce(u.tenant_id, v_own) as tenant_id, u.kind, coalesce(u.queue, 'default') as queue,
                 coalesce(u.payload, '{}') as payload, coalesce(u.priority, 100) as priority,
                 d.due,
                 case when u.after is not null or u.train is not null and u.leads is not true then 'held'
                      when d.due > v_now then 'scheduled'
                      else 'queued' end as status,
                 -- inside the subquery, so in call order: outside, nextval would run after the sort
                 case when u.after is not null or u.train is not null then u.position
                      when d.due > v_now then null
                      else coalesce(u.position, nextval('headway.position')) end as position,
                 u.expires_at, coalesce(u.max_attempts, 5) as max_attempts,
                 coalesce(u.max_losses, u.max_attempts, 5) as max_losses,
                 coalesce(u.backoff_base_ms, 1000) as backoff_base_ms,
                 coalesce(u.backoff_cap_ms, 3600000) as backoff_cap_ms, u.timeout_ms,
                 coalesce(u.delivery, 'at_least_once') as delivery, u.idempotency_key, u.unique_key,
                 case when u.unique_key is not null
                      then coalesce(string_to_array(u.unique_scope, ','), '{queued,scheduled,held,running,waiting}')
                 end as unique_scope, u.unique_group,
                 u.correlation_id, u.trace_id, coalesce(u.source, 'manual') as source, u.source_ref, u.created_by, u.meta,
                 u.train, u.on_canceled, u.on_dead, u.partition, u.concurrency, u.concurrency_key,
                 u.rate_count, u.rate_period_ms, u.rate_burst, u.rate_key, u.group_id, u.after, u.machine, u.state,
                 u.ordinal
            from unnest(
                   p_ids, p_tenants, p_kinds, p_queues, p_payloads, p_priorities, p_delays_ms, p_scheduled_for,
                   p_expires_at, p_max_attempts, p_max_losses, p_backoff_base_ms, p_backoff_cap_ms, p_timeouts_ms,
                   p_deliveries, p_idempotency_keys, p_unique_keys, p_unique_scopes, p_unique_groups, p_correlation_ids,
                   p_trace_ids, p_sources, p_source_refs, p_created_by, p_metas, p_trains, p_on_canceled, p_on_dead, p_partitions,
                   p_concurrency, p_concurrency_keys, p_rate_counts, p_rate_periods_ms, p_rate_bursts, p_rate_keys,
                   p_groups, p_afters, p_checkpoints, p_states, v_leads, v_positions, v_taken, v_decided)
                 with ordinality as u (
                   id, tenant_id, kind, queue, payload, priority, delay_ms, scheduled_for,
                   expires_at, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms,
                   delivery, idempotency_key, unique_key, unique_scope, unique_group, correlation_id, trace_id,
                   source, source_ref, created_by, meta, train, on_canceled, on_dead, partition,
                   concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst, rate_key,
                   group_id, after, machine, state, leads, position, taken, decided, ordinal)
            cross join lateral (
              select coalesce(u.scheduled_for, v_now + u.delay_ms * interval '1 millisecond') as due
            ) d
           where (u.taken or u.decided) is not true
        ) g
        cross join lateral (
          select headway.flaw(
                   g.delivery, g.source, g.max_attempts, g.max_losses, g.backoff_base_ms, g.backoff_cap_ms, g.timeout_ms,
                   g.due, g.expires_at, g.train, g.partition, nullif(g.on_canceled, 'advance'),
                   nullif(g.on_dead, 'advance'), g.concurrency, g.concurrency_key, g.rate_count, g.rate_period_ms,
                   g.rate_burst, g.rate_key) as rule
        ) f
       where case
               when f.rule is null then true
               else headway.refuse_job(g.id, f.rule)
             end
       order by case when v_repeats then null else g.train end,
                case when v_repeats then null else g.unique_key end,
                case when v_repeats then null else g.idempotency_key end,
                g.ordinal
      on conflict do nothing
      returning jobs.id, jobs.tenant_id, jobs.queue, jobs.kind
    ), counted as (
      insert into headway.stat_deltas (at, tenant_id, queue, kind, enqueued)
      select v_now, i.tenant_id, i.queue, i.kind, count(*)
        from inserted i
       group by i.tenant_id, i.queue, i.kind
    )
    select count(*), v_made || array_agg(i.id) into v_rows, v_made from inserted i;
    v_inserted := v_inserted + v_rows;
    exit when v_inserted = cardinality(p_ids);
    if v_leads is null and not v_replaces then
      v_holders := array(
        select coalesce(u.met, u.holder)
          from unnest(
                 v_met,
                 headway.key_holders(
                   v_own, p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups))
               with ordinality as u (met, holder, ordinal)
         order by u.ordinal);
      -- where nobody has the key, who had it has just ended
      v_rounds := v_rounds + 1;
      exit when array_position(v_holders, null) is null or v_rounds > 20
                or current_setting('transaction_isolation') <> 'read committed';
      v_taken := null;
      continue;
    end if;
    if v_leads is not null then
      -- another locomotive may have come first: those cars are inserted as held, unless their unique key was the reason
      v_taken := array(
        select u.leads and u.outcome is null
               and exists (select
                             from headway.jobs o
                            where o.tenant_id = coalesce(u.tenant_id, v_own)
                              and coalesce(o.unique_group, o.kind) = coalesce(u.unique_group, u.kind)
                              and o.unique_key = u.unique_key and o.unique_key is not null
                              and o.status = any (o.unique_scope) and o.id <> u.id)
          from unnest(p_ids, p_tenants, p_kinds, p_unique_keys, p_unique_groups, v_leads, v_outcomes)
               with ordinality as u (id, tenant_id, kind, unique_key, unique_group, leads, outcome, ordinal)
         order by u.ordinal);
      v_leads := null;
      v_again := true;
    end if;
  end loop;
  perform set_config('headway.checked', '', true);
  if p_unique_for_ms is not null and v_inserted < cardinality(p_ids) then
    perform headway.close_windows(v_own, p_ids, p_tenants, p_kinds, p_unique_keys, p_unique_groups);
  end if;

  if v_again then
    -- the first car of a train may have met an existing job: the next one is the locomotive then
    perform headway.release_first_cars_each(array_agg(w.tenant_id), array_agg(w.train), v_now)
       from (select distinct coalesce(u.tenant_id, v_own) as tenant_id, u.train
               from unnest(p_tenants, p_trains) as u (tenant_id, train)
              where u.train is not null
              order by 1, 2) w;
  end if;
  if p_trains is not null then
    insert into headway.arrivals (tenant_id, trains)
    select w.tenant_id, array_agg(w.train)
      from (select coalesce(u.tenant_id, v_own) as tenant_id, u.train
              from unnest(p_tenants, p_trains, v_leads) as u (tenant_id, train, leads)
             where u.train is not null
             group by 1, 2
            having bool_or(u.leads) is not true) w
     group by w.tenant_id;
  end if;
  if p_afters is not null and v_inserted = cardinality(p_ids) then
    perform headway.add_edges(p_ids, p_afters, p_on_failures, null);
  elsif p_afters is not null then
    perform headway.add_edges(
      p_ids, p_afters, p_on_failures,
      array(select coalesce(e.id, u.id)
              from unnest(p_ids) with ordinality as u (id, ordinal)
              left join headway.enqueued(
                v_own, p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups, p_on_conflicts,
                null, coalesce(v_holders, v_met), v_outcomes) e
                on e.ordinal = u.ordinal
             order by u.ordinal));
  end if;
  if p_groups is not null then
    perform headway.join_group(p_ids, p_groups);
  end if;
  if p_checkpoints is not null then
    perform headway.index_tags(p_ids);
  end if;

  if v_metered is not null and (v_inserted > 0 or v_outcomes && '{replaced}') then
    perform headway.check_job_quotas(
      v_metered, array(select unnest(p_ids) except select unnest(v_known)),
      array(select u.met from unnest(v_met, v_outcomes) as u (met, outcome) where u.outcome = 'replaced'));
  end if;

  if v_inserted = cardinality(p_ids) and not v_again then
    -- the usual case: all jobs are new, and only those that are not queued get a row
    if v_ordered or p_delays_ms is not null or p_scheduled_for is not null then
      return query
        select u.ordinal, u.id,
               case when u.after is not null or u.train is not null and u.leads is not true then 'held'
                    else 'scheduled' end,
               true, false
          from unnest(p_ids, p_delays_ms, p_scheduled_for, p_trains, p_afters, v_leads)
               with ordinality as u (id, delay_ms, due, train, after, leads, ordinal)
         where u.after is not null
            or u.train is not null and u.leads is not true
            or coalesce(u.due, v_now + u.delay_ms * interval '1 millisecond') > v_now;
    end if;
    return;
  end if;
  return query
    select *
      from headway.enqueued(
             v_own, p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups, p_on_conflicts,
             v_made, coalesce(v_holders, v_met), v_outcomes);
end
$$;

-- Whether this statement is a whole transaction: then what it sees of a train is current, and its locks end at once.
create function headway.alone() returns boolean
language sql volatile
as $$
  select pg_catalog.pg_current_xact_id_if_assigned() is null
     and pg_catalog.statement_timestamp() = pg_catalog.transaction_timestamp()
     and pg_catalog.current_setting('transaction_isolation') = 'read committed'
$$;
