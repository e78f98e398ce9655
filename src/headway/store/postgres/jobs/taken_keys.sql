-- Keys that are taken: what an enqueue answers then, whom it replaces, and who waits as a successor.

-- What a batch that met existing jobs answers: for each job itself by id, else the holder of its idempotency key or
-- unique key. A new statement, which sees a holder that was committed meanwhile. p_made are the jobs that this call
-- made; of an id that comes twice, the first. p_met and p_outcomes are what replace_waiting found, if it was called.
-- Raises HW001 where on_conflict is raise, and 40001 where the holder has just ended and p_met does not have it: a
-- transaction of another isolation level than read committed does not see that the key is free.
create function headway.enqueued(
  p_own uuid,
  p_ids uuid[],
  p_tenants uuid[],
  p_kinds text[],
  p_idempotency_keys text[],
  p_unique_keys text[],
  p_unique_groups text[],
  p_on_conflicts text[],
  p_made uuid[],
  p_met uuid[] default null,
  p_outcomes text[] default null
) returns table (ordinal bigint, id uuid, status text, created boolean, replaced boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found record;
begin
  for v_found in
    select u.ordinal, u.id as asked, u.kind, u.idempotency_key, u.unique_key, u.on_conflict,
           coalesce(own.id, same.id, met.id, holder.id) as id,
           coalesce(own.status, same.status, met.status, holder.status) as status,
           own.id is null and same.id is null as by_unique_key,
           own.id is null and same.id is null and u.outcome = 'replaced' as was_replaced,
           made.id is not null
           and row_number() over (partition by u.id order by u.ordinal) = 1 as made
      from unnest(
             p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups, p_on_conflicts, p_met,
             p_outcomes)
           with ordinality as u (
             id, tenant_id, kind, idempotency_key, unique_key, unique_group, on_conflict, met, outcome, ordinal)
      cross join lateral (select coalesce(u.tenant_id, p_own) as owner) o
      left join lateral (
        select j.id, j.status from headway.jobs j where j.id = u.id and j.tenant_id = o.owner limit 1
      ) own on true
      left join unnest(p_made) as made (id) on made.id = u.id
      left join lateral (
        select j.id, j.status
          from headway.jobs j
         where j.tenant_id = o.owner and j.kind = u.kind and j.idempotency_key = u.idempotency_key
         limit 1
      ) same on own.id is null
      left join lateral (
        select j.id, j.status from headway.jobs j where j.id = u.met limit 1
      ) met on own.id is null and same.id is null
      left join lateral (
        select j.id, j.status
          from headway.jobs j
         where j.tenant_id = o.owner and coalesce(j.unique_group, j.kind) = coalesce(u.unique_group, u.kind)
           and j.unique_key = u.unique_key and j.unique_key is not null and j.status = any (j.unique_scope)
         limit 1
      ) holder on own.id is null and same.id is null and met.id is null
     order by u.ordinal
  loop
    if v_found.id is null
       and (v_found.idempotency_key is null and v_found.unique_key is null
            or exists (select from headway.jobs j where j.id = v_found.asked)) then
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
    ordinal := v_found.ordinal;
    id := v_found.id;
    status := v_found.status;
    created := v_found.made;
    replaced := coalesce(v_found.was_replaced, false);
    if not created or status <> 'queued' then
      return next;
    end if;
  end loop;
end
$$;

-- For each of these jobs itself, or who has its idempotency key or unique key; null: nobody any more, so that it can be
-- inserted. Where its id is another tenant's, an id that nobody has.
create function headway.key_holders(
  p_own uuid, p_ids uuid[], p_tenants uuid[], p_kinds text[], p_idempotency_keys text[], p_unique_keys text[],
  p_unique_groups text[]
) returns uuid[]
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select array_agg(
           case
             when own.tenant_id = o.owner then own.id
             when own.id is not null then '00000000-0000-0000-0000-000000000000'
             else coalesce(
                    (select j.id
                       from headway.jobs j
                      where j.tenant_id = o.owner and j.kind = u.kind and j.idempotency_key = u.idempotency_key
                      limit 1),
                    (select j.id
                       from headway.jobs j
                      where j.tenant_id = o.owner and coalesce(j.unique_group, j.kind) = coalesce(u.unique_group, u.kind)
                        and j.unique_key = u.unique_key and j.unique_key is not null and j.status = any (j.unique_scope)
                      limit 1))
           end
           order by u.ordinal)
    from unnest(p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups)
         with ordinality as u (id, tenant_id, kind, idempotency_key, unique_key, unique_group, ordinal)
    cross join lateral (select coalesce(u.tenant_id, p_own) as owner) o
    left join lateral (select j.id, j.tenant_id from headway.jobs j where j.id = u.id limit 1) own on true
$$;

-- Whether a job never ran, so that an enqueue with its key may replace it; see model/replacing.py. Inlined.
create function headway.is_replaceable(p_job headway.jobs) returns boolean
language sql immutable
as $$
  select p_job.status = any ('{queued,scheduled,held}')
     and p_job.fence = 0
     and p_job.retry_of is null
     and p_job.forked_from is null
$$;

-- The scope, as enqueue_many takes it, of a job that waits for the end of the one that has its key: in line for it.
create function headway.successor_scope(p_scope text) returns text
language sql immutable
as $$
  select case
           when p_scope is null then 'queued,scheduled,+held,running,waiting'
           when 'held' = any (string_to_array(p_scope, ','))
             then array_to_string(array_replace(string_to_array(p_scope, ','), 'held', '+held'), ',')
           else p_scope || ',+held'
         end
$$;

-- What becomes of those of these jobs whose on_conflict is replace or replace_or_follow: for each of the call, in order,
-- the job that it meets and the outcome: replace (replace that one; where a successor is in line for the key, that is the
-- successor, which runs last), left (it has run, and stays as it is), follow (insert this one as its successor), again
-- (nobody has the key: insert this one), or null, where nothing is replaced. Keeps what an earlier round has decided:
-- replaced, left.
create function headway.meet(
  p_own uuid,
  p_ids uuid[],
  p_tenants uuid[],
  p_kinds text[],
  p_idempotency_keys text[],
  p_unique_keys text[],
  p_unique_groups text[],
  p_unique_scopes text[],
  p_on_conflicts text[],
  p_delays_ms bigint[],
  p_scheduled_for timestamptz[],
  p_trains text[],
  p_leads boolean[],
  p_afters text[],
  p_now timestamptz,
  inout met uuid[],
  inout outcomes text[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
  select array_agg(w.met order by w.ordinal), array_agg(w.outcome order by w.ordinal)
    into met, outcomes
    from (
      select u.ordinal,
             case
               when u.outcome in ('replaced', 'left') then u.met
               when holder.replacement_id = u.id then holder.id
               else coalesce(follower.id, holder.id)
             end as met,
             case
               when u.outcome in ('replaced', 'left') then u.outcome
               when u.on_conflict is null or u.on_conflict not in ('replace', 'replace_or_follow') then null
               when u.unique_key is null
                    or exists (select from headway.jobs j where j.id = u.id)
                    or exists (select
                                 from headway.jobs j
                                where j.tenant_id = o.owner and j.kind = u.kind
                                  and j.idempotency_key = u.idempotency_key)
                 then null
               when u.id in (holder.replacement_id, follower.replacement_id) then 'replaced'
               when follower.id is not null or holder.is_replaceable then 'replace'
               when holder.id is null then 'again'
               when u.on_conflict = 'replace' or holder.has_ended then 'left'
               else 'follow'
             end as outcome
        from unnest(
               p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups, p_unique_scopes,
               p_on_conflicts, p_delays_ms, p_scheduled_for, p_trains, p_leads, p_afters, met, outcomes)
             with ordinality as u (
               id, tenant_id, kind, idempotency_key, unique_key, unique_group, unique_scope, on_conflict, delay_ms,
               scheduled_for, train, leads, after, met, outcome, ordinal)
        cross join lateral (
          select coalesce(u.tenant_id, p_own) as owner, coalesce(u.unique_group, u.kind) as shared_by,
                 -- as enqueue_many inserts it: one that begins outside of its scope meets nobody
                 case when u.after is not null or u.train is not null and u.leads is not true then 'held'
                      when coalesce(u.scheduled_for, p_now + u.delay_ms * interval '1 millisecond') > p_now
                        then 'scheduled'
                      else 'queued' end
                 = any (coalesce(string_to_array(u.unique_scope, ','), '{queued,scheduled,held,running,waiting}'))
                   as covered) o
        left join lateral (
          select j.id, j.replacement_id, headway.is_replaceable(j) as is_replaceable,
                 j.finished_at is not null as has_ended
            from headway.jobs j
           where j.tenant_id = o.owner and coalesce(j.unique_group, j.kind) = o.shared_by
             and j.unique_key = u.unique_key and j.unique_key is not null and j.status = any (j.unique_scope)
           limit 1
        ) holder on o.covered
        left join lateral (
          select j.id, j.replacement_id
            from headway.jobs j
           where j.tenant_id = o.owner and coalesce(j.unique_group, j.kind) = o.shared_by
             and j.unique_key = u.unique_key and j.unique_key is not null and '+' || j.status = any (j.unique_scope)
           limit 1
        ) follower on true) w;
end
$$;

-- Replace the jobs that `meet` chose. Of several with one key the newest wins, value by value. Gives
-- the outcomes: replaced, or again if one of the jobs has just moved, and nothing is replaced then. Locks those jobs in
-- order of id, and waits for others to release them: what a claim had is running then.
create function headway.replace_waiting(
  p_now timestamptz,
  p_ids uuid[],
  p_replaces text[],
  p_debounce_max_ms bigint[],
  p_delays_ms bigint[],
  p_scheduled_for timestamptz[],
  p_payloads json[],
  p_checkpoints jsonb[],
  p_states json[],
  p_priorities smallint[],
  p_queues text[],
  p_expires_at timestamptz[],
  p_max_attempts integer[],
  p_max_losses integer[],
  p_backoff_base_ms bigint[],
  p_backoff_cap_ms bigint[],
  p_timeouts_ms bigint[],
  p_metas json[],
  p_partitions text[],
  p_concurrency integer[],
  p_concurrency_keys text[],
  p_rate_counts integer[],
  p_rate_periods_ms bigint[],
  p_rate_bursts integer[],
  p_rate_keys text[],
  p_met uuid[],
  inout outcomes text[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_targets uuid[];
  v_locked uuid[];
begin
  v_targets := array(
    select distinct w.met from unnest(p_met, outcomes) as w (met, outcome) where w.outcome = 'replace');
  -- a subtransaction: by its end, what has just started to run is not locked any longer, and can settle
  begin
    v_locked := array(
      select j.id
        from headway.jobs j
       where j.id = any (v_targets)
         and headway.is_replaceable(j)
         and (j.status = any (j.unique_scope) or '+' || j.status = any (j.unique_scope))
       order by j.id
         for update);
    if cardinality(v_locked) < cardinality(v_targets) then
      raise no_data_found;
    end if;

    -- limits under which others may start, now that these leave them: as offer_keys does for one job
    insert into headway.arrivals (tenant_id, keys)
    select j.tenant_id, array_agg(distinct k)
      from headway.jobs j
      cross join lateral unnest(headway.limit_keys(j)) k
     where j.id = any (v_locked)
       and j.status = 'queued'
       and j.limited_by is null
       and exists (select from headway.jobs w where w.limited_by = k)
     group by j.tenant_id;

    delete from headway.job_tags t
     using headway.jobs j
     where j.id = any (v_locked)
       and t.job_id = j.id
       and t.tag = any (j.tags);
    with asked as (
      select u.met, u.ordinal, u.id,
             case when u.replace is null then headway.replaceable() else string_to_array(u.replace, ',') end as sets,
             coalesce(u.scheduled_for, p_now + u.delay_ms * interval '1 millisecond') as due,
             u.debounce_max_ms * interval '1 millisecond' as debounce_max,
             coalesce(u.payload, '{}') as payload, u.machine, u.state, coalesce(u.priority, 100) as priority,
           coalesce(u.queue, 'default') as queue, u.expires_at, coalesce(u.max_attempts, 5) as max_attempts,
           coalesce(u.max_losses, u.max_attempts, 5) as max_losses,
           coalesce(u.backoff_base_ms, 1000) as backoff_base_ms,
           coalesce(u.backoff_cap_ms, 3600000) as backoff_cap_ms, u.timeout_ms, u.meta, u.partition, u.concurrency,
           u.concurrency_key, u.rate_count, u.rate_period_ms, u.rate_burst, u.rate_key
        from unnest(
               p_ids, p_replaces, p_debounce_max_ms, p_delays_ms, p_scheduled_for, p_met, outcomes,
               p_payloads, p_checkpoints, p_states, p_priorities, p_queues, p_expires_at, p_max_attempts, p_max_losses,
             p_backoff_base_ms, p_backoff_cap_ms, p_timeouts_ms, p_metas, p_partitions, p_concurrency,
             p_concurrency_keys, p_rate_counts, p_rate_periods_ms, p_rate_bursts, p_rate_keys)
             with ordinality as u (
               id, replace, debounce_max_ms, delay_ms, scheduled_for, met, outcome,
               payload, machine, state, priority, queue, expires_at, max_attempts, max_losses, backoff_base_ms,
             backoff_cap_ms, timeout_ms, meta, partition, concurrency, concurrency_key, rate_count, rate_period_ms,
             rate_burst, rate_key, ordinal)
       where u.outcome = 'replace'
    ), newest as (
      select a.met,
             (array_agg(a.id order by a.ordinal desc))[1] as replacement_id,
             string_to_array(string_agg(array_to_string(a.sets, ','), ','), ',') as sets,
             (array_agg(a.due order by a.ordinal desc) filter (where 'scheduled_for' = any (a.sets)))[1] as due,
             (array_agg(a.debounce_max order by a.ordinal desc) filter (where 'scheduled_for' = any (a.sets)))[1]
               as debounce_max,
             (array_agg(a.machine ->> 'home_queue' order by a.ordinal desc) filter (where 'queue' = any (a.sets)))[1]
               as home_queue,
             (array_agg(a.machine ->> 'home_partition' order by a.ordinal desc)
               filter (where 'partition' = any (a.sets)))[1] as home_partition,
             (array_agg(a.payload order by a.ordinal desc) filter (where 'payload' = any (a.sets)))[1] as payload,
           (array_agg(a.machine order by a.ordinal desc) filter (where 'payload' = any (a.sets)))[1] as machine,
           (array_agg(a.state order by a.ordinal desc) filter (where 'payload' = any (a.sets)))[1] as state,
           (array_agg(a.priority order by a.ordinal desc) filter (where 'priority' = any (a.sets)))[1] as priority,
           (array_agg(a.queue order by a.ordinal desc) filter (where 'queue' = any (a.sets)))[1] as queue,
           (array_agg(a.expires_at order by a.ordinal desc) filter (where 'expires_at' = any (a.sets)))[1] as expires_at,
           (array_agg(a.max_attempts order by a.ordinal desc) filter (where 'max_attempts' = any (a.sets)))[1] as max_attempts,
           (array_agg(a.max_losses order by a.ordinal desc) filter (where 'max_losses' = any (a.sets)))[1] as max_losses,
           (array_agg(a.backoff_base_ms order by a.ordinal desc) filter (where 'backoff' = any (a.sets)))[1] as backoff_base_ms,
           (array_agg(a.backoff_cap_ms order by a.ordinal desc) filter (where 'backoff' = any (a.sets)))[1] as backoff_cap_ms,
           (array_agg(a.timeout_ms order by a.ordinal desc) filter (where 'timeout' = any (a.sets)))[1] as timeout_ms,
           (array_agg(a.meta order by a.ordinal desc) filter (where 'meta' = any (a.sets)))[1] as meta,
           (array_agg(a.machine -> 'tags' order by a.ordinal desc) filter (where 'tags' = any (a.sets)))[1] as tags,
           (array_agg(a.partition order by a.ordinal desc) filter (where 'partition' = any (a.sets)))[1] as partition,
           (array_agg(a.concurrency order by a.ordinal desc) filter (where 'concurrency' = any (a.sets)))[1] as concurrency,
           (array_agg(a.concurrency_key order by a.ordinal desc) filter (where 'concurrency' = any (a.sets)))[1] as concurrency_key,
           (array_agg(a.rate_count order by a.ordinal desc) filter (where 'rate' = any (a.sets)))[1] as rate_count,
           (array_agg(a.rate_period_ms order by a.ordinal desc) filter (where 'rate' = any (a.sets)))[1] as rate_period_ms,
           (array_agg(a.rate_burst order by a.ordinal desc) filter (where 'rate' = any (a.sets)))[1] as rate_burst,
           (array_agg(a.rate_key order by a.ordinal desc) filter (where 'rate' = any (a.sets)))[1] as rate_key
        from asked a
       group by a.met
    ), given as (
      select n.*, t.due as time, s.status
        from newest n
        join headway.jobs j on j.id = n.met
        cross join lateral (select least(n.due, j.created_at + n.debounce_max) as due) d
        cross join lateral (
          select case when 'scheduled_for' = any (n.sets) then case when n.due is not null then d.due end
                      else j.scheduled_for end as due
        ) t
        cross join lateral (
          select case when j.status = 'held' or not 'scheduled_for' = any (n.sets) then j.status
                      when t.due > p_now then 'scheduled'
                      else 'queued' end as status
        ) s
    )
    update headway.jobs j
       set status = l.status,
           scheduled_for = l.time,
           queued_at = case when l.status = 'queued' and j.status <> 'queued' then p_now else j.queued_at end,
           position = case when l.status = 'queued' then coalesce(j.position, nextval('headway.position'))
                           else j.position end,
           replacement_id = l.replacement_id,
           -- in another queue or under other limits, or later, its limits are checked again
           limited_by = case
             when l.status = 'queued'
                  and (not l.sets && '{queue,partition,concurrency,rate}'
                       or (l.queue, l.partition, l.concurrency, l.concurrency_key, l.rate_count, l.rate_key)
                          is not distinct from
                          (j.queue, j.partition, j.concurrency, j.concurrency_key, j.rate_count, j.rate_key))
               then j.limited_by
           end,
           fair = case when 'queue' = any (l.sets) and l.queue <> j.queue
                       then headway.is_marked(j.tenant_id, l.queue)
                       else j.fair end,
           payload = case when 'payload' = any (l.sets) then l.payload else j.payload end,
         version = case when 'payload' = any (l.sets) then (l.machine ->> 'version')::integer else j.version end,
         step = case when 'payload' = any (l.sets) then l.machine ->> 'step' else j.step end,
         state = case when 'payload' = any (l.sets) then l.state else j.state end,
         priority = case when 'priority' = any (l.sets) then l.priority else j.priority end,
         queue = case when 'queue' = any (l.sets) then l.queue else j.queue end,
         home_queue = case when 'queue' = any (l.sets) then l.home_queue else j.home_queue end,
         expires_at = case when 'expires_at' = any (l.sets) then l.expires_at else j.expires_at end,
         max_attempts = case when 'max_attempts' = any (l.sets) then l.max_attempts else j.max_attempts end,
         max_losses = case when 'max_losses' = any (l.sets) then l.max_losses else j.max_losses end,
         backoff_base_ms = case when 'backoff' = any (l.sets) then l.backoff_base_ms else j.backoff_base_ms end,
         backoff_cap_ms = case when 'backoff' = any (l.sets) then l.backoff_cap_ms else j.backoff_cap_ms end,
         timeout_ms = case when 'timeout' = any (l.sets) then l.timeout_ms else j.timeout_ms end,
         meta = case when 'meta' = any (l.sets) then l.meta else j.meta end,
         tags = case when 'tags' = any (l.sets) then headway.texts(l.tags) else j.tags end,
         partition = case when 'partition' = any (l.sets) then l.partition else j.partition end,
         home_partition = case when 'partition' = any (l.sets) then l.home_partition else j.home_partition end,
         concurrency = case when 'concurrency' = any (l.sets) then l.concurrency else j.concurrency end,
         concurrency_key = case when 'concurrency' = any (l.sets) then l.concurrency_key else j.concurrency_key end,
         rate_count = case when 'rate' = any (l.sets) then l.rate_count else j.rate_count end,
         rate_period_ms = case when 'rate' = any (l.sets) then l.rate_period_ms else j.rate_period_ms end,
         rate_burst = case when 'rate' = any (l.sets) then l.rate_burst else j.rate_burst end,
         rate_key = case when 'rate' = any (l.sets) then l.rate_key else j.rate_key end
      from given l
     where j.id = l.met;
    perform headway.index_tags(v_locked);
    outcomes := array_replace(outcomes, 'replace', 'replaced');
  exception when no_data_found then
    outcomes := array_replace(outcomes, 'replace', 'again');
  end;
end
$$;

-- What an enqueue may replace; model/job.py has the same list.
create function headway.replaceable() returns text[]
language sql immutable
as $$
  select '{payload,scheduled_for,priority,queue,expires_at,max_attempts,max_losses,backoff,timeout,meta,tags,partition,concurrency,rate}'::text[]
$$;

-- A successor whose predecessor has ended, but whose key another job has taken that has run already: it waits for that
-- one. Gives whether it does. One that has yet to run does what the successor is for; nor does it wait for a held job,
-- which may be behind it in its train.
create function headway.follow_again(p_id uuid) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job headway.jobs;
  v_holder headway.jobs;
begin
  select j.* into v_job from headway.jobs j where j.id = p_id;
  if not '+held' = any (v_job.unique_scope) then
    return false;
  end if;
  select j.* into v_holder from headway.jobs j where j.id = headway.holder(v_job);
  if v_holder.status = 'held' or v_holder.finished_at is not null or headway.is_replaceable(v_holder) then
    return false;
  end if;
  if v_holder.id is not null then
    update headway.jobs j set pending = true where j.id = p_id;
    insert into headway.edges (parent_id, child_id, tenant_id, on_failure)
    values (v_holder.id, p_id, v_job.tenant_id, 'continue')
    on conflict (parent_id, child_id, fence) do update set state = 'pending';
  end if;
  insert into headway.arrivals (tenant_id, jobs) values (v_job.tenant_id, array[p_id]);
  return true;
end
$$;
