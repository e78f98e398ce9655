-- Fires: what triggers did, once for each nominal time and each event. To fire takes three steps in one transaction:
-- lock the triggers and find what to do (begin_fires, begin_handling), enqueue the jobs, write the fires
-- (record_fires).

-- The first step of `fire`. p_triggers are schedules as they were read (revision, next_fire_at); p_of and p_nominal_at
-- are the planned fires. Gives a row for each planned fire of a schedule that is unchanged, unless it has fired for
-- that time already: its ordinal in p_of (from 1), an unfinished job of the trigger, and whether it skips because of
-- that one; and a row without an ordinal for a schedule that is unchanged but has no fire to write. Gives nothing while
-- another transaction fires schedules.
-- Locks the triggers in order of id, except those that somebody has locked, whose fires are void; checks them in a new
-- statement. From here on the transaction waits at most a quarter of a second for a lock (55P03): an enqueue may meet
-- an uncommitted job's key. For a single schedule it waits 20 ms: many may follow one after another.
create function headway.begin_fires(
  p_triggers uuid[], p_revisions integer[], p_due_at timestamptz[], p_of uuid[], p_nominal_at timestamptz[]
) returns table (trigger_id uuid, ordinal bigint, busy_id uuid, skips boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_valid uuid[];
begin
  if not pg_try_advisory_xact_lock(headway.lock_key('fire')) then
    return;
  end if;
  perform set_config('lock_timeout', case when cardinality(p_triggers) > 1 then '250ms' else '20ms' end, true);
  v_valid := array(
    select l.id
      from (select t.id, t.type, t.enabled, t.revision, t.next_fire_at
              from headway.triggers t
             where t.id = any (p_triggers)
             order by t.id
               for update skip locked) l
      join unnest(p_triggers, p_revisions, p_due_at) as u (id, revision, due_at)
        on u.id = l.id and u.revision = l.revision and u.due_at = l.next_fire_at
     where l.enabled
       and l.type = 'schedule');
  return query
    select t.id, f.ordinal, case when t.overlap = 'skip' and f.ordinal is not null then headway.unfinished(t.id) end,
           t.overlap = 'skip'
      from headway.triggers t
      left join (select f.trigger_id, f.ordinal
                   from unnest(p_of, p_nominal_at) with ordinality as f (trigger_id, nominal_at, ordinal)
                  where (select 1
                           from headway.fires o
                          where o.trigger_id = f.trigger_id and o.nominal_at = f.nominal_at
                          limit 1) is null) f on f.trigger_id = t.id
     where t.id = any (v_valid)
     order by f.ordinal;
end
$$;

-- An unfinished job among those of this trigger's last 20 fires that made one, or a job that retries one of those.
create function headway.unfinished(p_trigger uuid) returns uuid
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
  with recursive line (id) as (
    select l.job_id
      from (select f.job_id
              from headway.fires f
             -- as a range, which only the index fires_made serves: the planner would walk back through all fires
             where f.status = 'enqueued'
               and (f.trigger_id, f.id) >= (p_trigger, '00000000-0000-0000-0000-000000000000'::uuid)
               and (f.trigger_id, f.id) <= (p_trigger, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
             order by f.trigger_id desc, f.id desc
             limit 20) l
     where l.job_id is not null
    union
    select r.id
      from line l
      join headway.jobs r on r.retry_of = l.id
  )
  select j.id
    from line l
    join headway.jobs j on j.id = l.id
   where (j.finished_at is null) is true
   order by j.id desc
   limit 1
$$;

-- The first step of `handle`. p_of, p_triggers and p_keys are the planned fires: event, trigger, dedupe key. Gives a
-- row for each planned fire of a pending event whose trigger is enabled and has not fired for it: its ordinal in p_of
-- (from 1), the job that the trigger enqueued with this key less than its window ago, and whether it has a window; and
-- a row without an ordinal for a pending event that has no fire to write. An event is void if somebody has locked it or
-- one of its triggers. Locks the triggers and then the events, each in order of id, except those that somebody has
-- locked; checks them in a new statement. From here on the transaction waits at most a quarter of a second for a lock
-- (55P03), 20 ms for a single event.
create function headway.begin_handling(p_events uuid[], p_of uuid[], p_triggers uuid[], p_keys text[])
returns table (event_id uuid, ordinal bigint, same_id uuid, dedupes boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_locked uuid[];
  v_valid uuid[];
begin
  perform set_config('lock_timeout', case when cardinality(p_events) > 1 then '250ms' else '20ms' end, true);
  v_locked := array(
    select t.id from headway.triggers t where t.id = any (p_triggers) order by t.id for update skip locked);
  v_valid := array(
    select e.id
      from headway.events e
     where e.id = any (p_events)
       and e.status = 'pending'
       and e.id not in (
             select u.event_id
               from unnest(p_of, p_triggers) as u (event_id, trigger_id)
               join headway.triggers t on t.id = u.trigger_id
              where t.id <> all (v_locked)
                and u.event_id is not null)
     order by e.id
       for update skip locked);
  -- read after the locks: a fire of their last holder is not in the future
  v_now := headway.now();
  return query
    select e.id, f.ordinal, f.same_id, f.dedupes
      from headway.events e
      left join lateral (
        select u.ordinal, t.dedupe_window_ms > 0 as dedupes,
               (select o.job_id
                  from headway.fires o
                 where o.trigger_id = t.id
                   and t.dedupe_window_ms > 0
                   and o.dedupe_key = u.key
                   and o.status = 'enqueued'
                   and o.fired_at > v_now - t.dedupe_window_ms * interval '1 millisecond'
                 order by o.fired_at desc
                 limit 1) as same_id
          from unnest(p_of, p_triggers, p_keys) with ordinality as u (event_id, trigger_id, key, ordinal)
          join headway.triggers t
            on t.id = u.trigger_id and t.id = any (v_locked) and t.tenant_id = e.tenant_id and t.enabled
         where u.event_id = e.id
           and (select 1 from headway.fires o where o.event_id = e.id and o.trigger_id = t.id limit 1) is null
      ) f on true
     where e.id = any (v_valid)
     order by f.ordinal;
end
$$;

-- Send the signals of events' fires, each by itself: one that no job can receive does not stop the others. Gives for
-- each its ordinal in the call (from 1) and the job that got it, and whether this call stored it; or why it was not sent.
-- Otherwise as signal_many.
create function headway.signal_each(
  p_ids uuid[], p_names text[], p_payloads json[], p_jobs uuid[], p_kinds text[], p_unique_keys text[], p_tenants uuid[],
  p_dedup_keys text[]
) returns table (ordinal bigint, job_id uuid, created boolean, error text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_at integer;
begin
  for v_at in 1 .. coalesce(cardinality(p_ids), 0) loop
    ordinal := v_at;
    job_id := null;
    created := false;
    error := null;
    begin
      select s.job_id, s.created
        into job_id, created
        from headway.signal_many(
               p_ids[v_at:v_at], p_names[v_at:v_at], p_payloads[v_at:v_at], p_jobs[v_at:v_at], p_kinds[v_at:v_at],
               p_unique_keys[v_at:v_at], p_tenants[v_at:v_at], p_dedup_keys[v_at:v_at], p_checked => true) s;
    exception when sqlstate 'HW003' or sqlstate 'HW006' then
      error := sqlerrm;
    end;
    return next;
  end loop;
end
$$;

-- The last step: write these fires, and what they mean for their triggers, whose rows this transaction has locked; when
-- schedules are due again (p_scheduled, p_next); and that events were handled (p_handled), or failed, if one of all
-- their fires did. Gives the fires in call order. A fire that enqueued a job or sent a signal sets last_fired_at and last_job_id and
-- clears the trigger's error; one that failed sets the error. Raises HW004 (a time out of range).
create function headway.record_fires(
  p_ids uuid[],
  p_triggers uuid[],
  p_statuses text[],
  p_jobs uuid[] default null,
  p_errors text[] default null,
  p_nominal_at timestamptz[] default null,
  p_events uuid[] default null,
  p_keys text[] default null,
  p_scheduled uuid[] default null,
  p_next timestamptz[] default null,
  p_handled uuid[] default null
) returns table (
  id uuid, trigger_id uuid, tenant_id uuid, nominal_at timestamptz, event_id uuid, fired_at timestamptz, status text,
  job_id uuid, error text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := headway.now();
begin
  perform
     from unnest(p_next || p_nominal_at) as n (at)
    where n.at not between '1970-01-01 00:00:00+00' and '9000-01-01 00:00:00+00';
  if found then
    raise exception 'a nominal time and next_fire_at are from 1970 to 9000: nothing was written' using errcode = 'HW004';
  end if;
  insert into headway.fires (
    id, trigger_id, tenant_id, nominal_at, event_id, fired_at, status, job_id, error, dedupe_key)
  select u.id, t.id, t.tenant_id, u.nominal_at, u.event_id, v_now, u.status, u.job_id, u.error, u.key
    from unnest(p_ids, p_triggers, p_statuses, p_jobs, p_errors, p_nominal_at, p_events, p_keys) with ordinality
         as u (id, trigger_id, status, job_id, error, nominal_at, event_id, key, ordinal)
    join headway.triggers t on t.id = u.trigger_id
   order by u.ordinal;

  update headway.triggers t
     set last_fired_at = coalesce(w.at, t.last_fired_at),
         last_job_id = coalesce(w.job_id, t.last_job_id),
         error = case w.status when 'failed' then w.error when 'made' then null else t.error end,
         next_fire_at = case when w.scheduled then w.next else t.next_fire_at end
    from (select coalesce(s.id, f.trigger_id) as id, s.id is not null as scheduled, s.next, f.at, f.job_id, f.status, f.error
            from unnest(p_scheduled, p_next) as s (id, next)
            full join (
              select u.trigger_id,
                     (array_agg(coalesce(u.nominal_at, v_now) order by u.ordinal desc)
                        filter (where u.status in ('enqueued', 'signaled')))[1] as at,
                     (array_agg(u.job_id order by u.ordinal desc) filter (where u.status in ('enqueued', 'signaled')))[1] as job_id,
                     (array_agg(case u.status when 'failed' then 'failed' else 'made' end order by u.ordinal desc)
                        filter (where u.status in ('enqueued', 'signaled', 'failed')))[1] as status,
                     (array_agg(u.error order by u.ordinal desc)
                        filter (where u.status in ('enqueued', 'signaled', 'failed')))[1] as error
                from unnest(p_triggers, p_statuses, p_jobs, p_errors, p_nominal_at) with ordinality
                     as u (trigger_id, status, job_id, error, nominal_at, ordinal)
               where u.trigger_id is not null
               group by u.trigger_id) f on f.trigger_id = s.id) w
   where t.id = w.id;

  if p_handled is not null then
    update headway.events e
       set status = case when f.errors is null then 'handled' else 'failed' end,
           handled_at = v_now,
           error = f.errors
      from unnest(p_handled) as h (id)
      cross join lateral (
        select string_agg(coalesce(t.name, o.trigger_id::text) || ': ' || coalesce(o.error, ''), e'\n' order by o.id)
                 as errors
          from headway.fires o
          left join headway.triggers t on t.id = o.trigger_id
         where o.event_id = h.id
           and o.status = 'failed') f
     where e.id = h.id;
  end if;

  return query
    select f.id, f.trigger_id, f.tenant_id, f.nominal_at, f.event_id, f.fired_at, f.status, f.job_id, f.error
      from unnest(p_ids) with ordinality as u (id, ordinal)
      join headway.fires f on f.id = u.id
     order by u.ordinal;
end
$$;

-- The first step of `run_trigger`: lock the trigger; false if there is none. Raises HW003.
create function headway.begin_run(p_trigger uuid, p_tenant uuid default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
begin
  perform
     from headway.triggers t
    where t.id = p_trigger
      and (v_tenant is null or t.tenant_id = v_tenant)
      for update;
  return found;
end
$$;

-- The last step of `run_trigger`: write a fire that somebody asked for, with the job of the same tenant that it made,
-- or met (p_created is false), or the error. A repeat with the same id changes nothing. Locks the trigger. Audited.
-- Raises HW003, HW004 (a time out of range).
create function headway.run_trigger(
  p_id uuid, p_trigger uuid, p_job uuid, p_error text, p_nominal_at timestamptz, p_tenant uuid default null,
  p_actor text default null, p_created boolean default true
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_trigger headway.triggers;
begin
  select t.*
    into v_trigger
    from headway.triggers t
   where t.id = p_trigger
     and (v_tenant is null or t.tenant_id = v_tenant)
     for update;
  if not found or exists (select from headway.fires f where f.id = p_id) then
    return;
  end if;
  if p_job is not null and not exists (
       select from headway.jobs j where j.id = p_job and j.tenant_id = v_trigger.tenant_id) then
    raise exception 'job % is not there, or is another tenant''s than its trigger', p_job using errcode = 'HW003';
  end if;
  perform headway.record_fires(
    array[p_id], array[p_trigger],
    array[case when p_job is null then 'failed' when p_created then 'enqueued' else 'deduped' end], array[p_job],
    array[p_error], array[p_nominal_at]);
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_trigger.tenant_id, headway.now(), p_actor, 'trigger.run', v_trigger.name);
end
$$;

-- The first step of `backfill`: the ordinals (from 1) of those of these nominal times that the schedule has no fire for; null
-- if there is no such schedule. Locks it. Raises HW003, HW004 (a time that has not come).
create function headway.begin_backfill(p_trigger uuid, p_nominal_at timestamptz[], p_tenant uuid default null)
returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
begin
  perform
     from headway.triggers t
    where t.id = p_trigger
      and t.type = 'schedule'
      and (v_tenant is null or t.tenant_id = v_tenant)
      for update;
  if not found then
    return null;
  end if;
  perform
     from unnest(p_nominal_at) as u (at)
    where u.at is null or u.at not between '1970-01-01 00:00:00+00' and headway.now();
  if found then
    raise exception 'a backfill is of times that have come: nothing was written' using errcode = 'HW004';
  end if;
  -- in a new statement: what fired before the lock was given is seen
  return array(
    select u.place
      from unnest(p_nominal_at) with ordinality as u (at, place)
     where (select 1
              from headway.fires f
             where f.trigger_id = p_trigger
               and f.nominal_at = u.at
             limit 1) is null
     order by u.place);
end
$$;

-- The last step of `backfill`: write that a schedule fired for these times of its past, with the jobs of the same tenant that
-- this made, or met (p_created is false). Its next_fire_at, last_fired_at and last_job_id stay. Locks the schedule. Audited.
-- Raises HW003.
create function headway.backfill(
  p_ids uuid[], p_trigger uuid, p_jobs uuid[], p_created boolean[], p_nominal_at timestamptz[], p_tenant uuid default null,
  p_actor text default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_trigger headway.triggers;
begin
  select t.*
    into v_trigger
    from headway.triggers t
   where t.id = p_trigger
     and t.type = 'schedule'
     and (v_tenant is null or t.tenant_id = v_tenant)
     for update;
  if not found then
    return;
  end if;
  perform
     from unnest(p_jobs) as u (id)
     left join headway.jobs j on j.id = u.id and j.tenant_id = v_trigger.tenant_id
    where j.id is null;
  if found then
    raise exception 'a job of this backfill is not there, or is another tenant''s than its schedule' using errcode = 'HW003';
  end if;
  insert into headway.fires (id, trigger_id, tenant_id, nominal_at, fired_at, status, job_id)
  select u.id, v_trigger.id, v_trigger.tenant_id, u.at, v_now, case when u.created then 'enqueued' else 'deduped' end, u.job_id
    from unnest(p_ids, p_jobs, p_created, p_nominal_at) with ordinality as u (id, job_id, created, at, place)
   order by u.place;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  select v_trigger.tenant_id, v_now, p_actor, 'trigger.backfilled',
         format('%s: %s from %s to %s', v_trigger.name, count(*),
                to_char(min(u.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                to_char(max(u.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
    from unnest(p_nominal_at) as u (at);
end
$$;

-- Delete up to p_limit each of events handled longer ago, events that failed longer ago, both with their fires, and
-- older fires of schedules. Gives how many events and schedules' fires. Skips rows that others have locked.
create function headway.prune_fires(p_events_ms bigint, p_failed_ms bigint, p_fires_ms bigint, p_limit integer)
returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  v_now timestamptz := headway.now();
  v_events_ms bigint := headway.kept_at_least('events', p_events_ms);
  v_failed_ms bigint := headway.kept_at_least('failed_events', p_failed_ms);
  v_fires_ms bigint := headway.kept_at_least('fires', p_fires_ms);
  v_events integer;
  v_fires integer;
begin
  with handled as materialized (
    select e.id
      from headway.events e
     where e.status = 'handled'
       and e.handled_at is not null
       and e.handled_at < v_now - v_events_ms * interval '1 millisecond'
     order by e.handled_at
     limit p_limit
       for update skip locked
  ), failed as materialized (
    select e.id
      from headway.events e
     where e.status = 'failed'
       and e.handled_at is not null
       and e.handled_at < v_now - v_failed_ms * interval '1 millisecond'
     order by e.handled_at
     limit p_limit
       for update skip locked
  ), old as materialized (
    select h.id from handled h union all select f.id from failed f
  ), made as (
    delete from headway.fires f
     using old o
     where f.event_id = o.id
  ), gone as (
    delete from headway.events e
     using old o
     where e.id = o.id
    returning e.id
  )
  select count(*) into v_events from gone;
  with old as materialized (
    select f.id
      from headway.fires f
     where f.event_id is null
       and f.fired_at < v_now - v_fires_ms * interval '1 millisecond'
     order by f.fired_at
     limit p_limit
       for update skip locked
  ), gone as (
    delete from headway.fires f
     using old o
     where f.id = o.id
    returning f.id
  )
  select count(*) into v_fires from gone;
  return v_events + v_fires;
end
$$;
