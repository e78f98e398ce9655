-- Retry: finished jobs run again with a full budget, after the jobs that they wait for.

-- Queue finished jobs again with a full budget, at their old position or, without p_keep_place, behind all others. An
-- at_most_once job that ever ran is retried by a new job. A machine that was canceled while it waited or slept does so
-- again, until the time that it had. A car waits for its turn again, and the hold that it put on its train ends. A job that waits for one that is not over, or that is retried with it, is held; jobs that the end of
-- one of these canceled are revived. Gives each finished job and the job that will run. Locks the rows in order of id.
-- p_filter says which jobs these are, where somebody named them so: then the audit has one entry for all of a tenant's.
-- p_change, as in headway.change, is what to set on each of them before it runs, its payload too unless it is a machine.
-- Raises HW001 where a unique key is taken, or the retry exists already, HW003, HW004; nothing is written then.
create function headway.retry(
  p_ids uuid[], p_tenant uuid default null, p_actor text default null, p_keep_place boolean default true,
  p_change json default null, p_filter text default null
) returns table (id uuid, runs_as uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_ids uuid[];
  v_old uuid[];
  v_new uuid[];
begin
  select array_agg(l.id)
    into v_ids
    from (select j.id
            from headway.jobs j
           where j.id = any (p_ids)
             and (v_tenant is null or j.tenant_id = v_tenant)
             and j.status in ('succeeded', 'failed', 'dead', 'canceled')
           order by j.id
             for update) l;
  select r.old, r.new into v_old, v_new from headway.retry_all(v_ids, v_now, p_actor, p_keep_place, false) r;
  perform headway.note_retries(v_old, v_new, v_now, p_actor, p_filter);
  perform headway.revive(v_new, v_now, p_actor, p_keep_place);
  if p_change is not null then
    perform headway.change_job(u.id, p_change, p_tenant, p_actor, true) from unnest(v_new) as u (id);
  end if;
  return query select u.old, u.new from unnest(v_old, v_new) as u (old, new);
end
$$;

-- Audit retries: one entry for each job, or with p_filter one for all of a tenant's, if there are several.
create function headway.note_retries(p_old uuid[], p_new uuid[], p_now timestamptz, p_actor text, p_filter text) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  select j.tenant_id, u.old, p_now, p_actor, 'retry', u.new::text
    from unnest(p_old, p_new) with ordinality as u (old, new, place)
    join headway.jobs j on j.id = u.old
   where p_filter is null or cardinality(p_old) = 1
   order by u.place;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  select j.tenant_id, p_now, p_actor, 'retry', count(*) || ' jobs: ' || p_filter
    from unnest(p_old) as u (old)
    join headway.jobs j on j.id = u.old
   where p_filter is not null and cardinality(p_old) > 1
   group by j.tenant_id
   order by j.tenant_id
$$;

-- Retry these finished jobs, whose rows are locked; afterwards decide which of them wait for others. With
-- p_leave_taken, a job whose unique key is taken stays as it is, instead of HW001.
create function headway.retry_all(
  p_ids uuid[], p_now timestamptz, p_actor text, p_keep_place boolean, p_leave_taken boolean, out old uuid[], out new uuid[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_behind uuid[];
  v_held uuid[];
  v_job headway.jobs;
  v_runs_as uuid;
begin
  select array_agg(distinct e.child_id)
    into v_behind
    from headway.edges e
    left join headway.jobs p on p.id = e.parent_id
   where e.child_id = any (p_ids)
     and e.fence = 0
     and (p.id is not null and p.finished_at is null or e.parent_id = any (p_ids));
  for v_job in
    select j.* from headway.jobs j where j.id = any (p_ids) order by j.position, j.id
  loop
    begin
      v_runs_as := headway.retry_one(v_job, p_now, (v_job.id = any (v_behind)) is true, p_actor, p_keep_place);
    exception when sqlstate 'HW001' then
      if not p_leave_taken then
        raise;
      end if;
      continue;
    end;
    old := old || v_job.id;
    new := new || v_runs_as;
    if v_job.id = any (v_behind) then
      v_held := v_held || v_runs_as;
    end if;
  end loop;
  perform headway.reopen_edges(old, new);
  if v_held is not null then
    -- a parent that is over, however it ended, does not hold back a job that is retried
    update headway.edges e
       set state = case when exists (select from headway.jobs p where p.id = e.parent_id and p.finished_at is null)
                        then 'pending' else 'done' end
     where e.child_id = any (v_held)
       and e.fence = 0;
    -- a parent that is ending now does not see these edges: process_arrivals checks them
    insert into headway.arrivals (tenant_id, jobs)
    select j.tenant_id, array_agg(j.id) from headway.jobs j where j.id = any (v_held) group by j.tenant_id;
  end if;
end
$$;

-- Retry one finished job, whose row is locked; gives the job that will run. With p_pending, it waits for other jobs
-- first. Raises HW001.
create function headway.retry_one(
  p_job headway.jobs, p_now timestamptz, p_pending boolean, p_actor text, p_keep_place boolean
) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_sleeps_until timestamptz := headway.sleeps_until(p_job, p_now);
  -- a machine that was canceled while it waited waits again; as a car, it waits for its turn first
  v_status text := case when p_pending or p_job.train is not null then 'held'
                        when p_job.status = 'canceled' and headway.is_parked(p_job) then 'waiting'
                        when v_sleeps_until is not null then 'scheduled'
                        else 'queued' end;
  v_pending boolean := nullif(p_pending or v_status = 'waiting' and p_job.joining is not null, false);
  -- a car keeps its position in its train
  v_position bigint := case when p_keep_place or p_job.train is not null then p_job.position end;
  v_runs_as uuid := p_job.id;
  v_holder uuid;
begin
  v_position := coalesce(v_position, nextval('headway.position'));
  if p_job.step = '$flow' then
    perform headway.retry_flow(p_job, p_now);
  elsif p_job.step is not null and p_job.status in ('succeeded', 'dead', 'failed') then
    -- the step that ended it sees the same signals again; a canceled machine had gone on from its last step
    update headway.signals s
       set fence = null, consumed_at = null
     where s.job_id = p_job.id
       and s.fence = p_job.fence;
  end if;
  begin
    if p_job.delivery = 'at_most_once' and p_job.fence > 0 then
      -- the new job takes over the key, so this one gives it up first
      update headway.jobs j
         set unique_scope = headway.without_key(j.unique_scope, j.status)
       where j.id = p_job.id
         and j.unique_key is not null
         and j.status = any (j.unique_scope);
      select n into strict v_runs_as
        from headway.retry_as_new(array[p_job.id], null, array[p_job.unique_key], v_status) n;
      update headway.jobs j
         set tries = 0, losses = 0, step_fence = 0, expires_at = null, pending = v_pending, position = v_position,
             scheduled_for = coalesce(v_sleeps_until, j.scheduled_for)
       where j.id = v_runs_as
         and j.status = v_status;
      if not found then
        raise unique_violation;
      end if;
    else
      update headway.jobs j
         set status = v_status,
             pending = v_pending,
             tries = 0,
             losses = 0,
             step_fence = j.fence,
             queued_at = case v_status when 'queued' then p_now when 'waiting' then j.queued_at end,
             error = case when v_status = 'waiting' then null else j.error end,
             unique_scope = headway.with_key(j.unique_scope),
             position = v_position,
             fair = headway.is_marked(j.tenant_id, j.queue),
             scheduled_for = v_sleeps_until,
             expires_at = null,
             finished_at = null,
             result = null
       where j.id = p_job.id;
    end if;
  exception when unique_violation then
    select j.id into v_holder from headway.jobs j where j.retry_of = p_job.id;
    if found then
      raise exception 'job % (%) was retried already, by job %: retry that one', p_job.id, p_job.kind, v_holder
        using errcode = 'HW001', detail = v_holder::text;
    end if;
    v_holder := headway.holder(p_job);
    raise exception 'job % cannot be queued: its unique key "%" is taken by job %; nothing was changed. Cancel that job, or let it finish first',
      p_job.id, p_job.unique_key, v_holder
      using errcode = 'HW001', detail = coalesce(v_holder, p_job.id)::text;
  end;
  if v_status = 'waiting' then
    perform headway.wait_again(array[v_runs_as]);
  end if;
  if p_job.train is not null then
    delete from headway.holds o
     where o.tenant_id = p_job.tenant_id and o.train = p_job.train and o.job_id = p_job.id;
    insert into headway.arrivals (tenant_id, trains) values (p_job.tenant_id, array[p_job.train]);
  end if;
  return v_runs_as;
end
$$;

-- Until when a machine would still sleep that was canceled while it slept; else null. The job that retries an
-- at_most_once one has no executions of its own at first.
create function headway.sleeps_until(p_job headway.jobs, p_now timestamptz) returns timestamptz
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select p_job.scheduled_for
   where p_job.status = 'canceled'
     and p_job.step is not null
     and p_job.scheduled_for > p_now
     and exists (select
                   from headway.attempts a
                  where a.outcome = 'sleep'
                    and (a.job_id, a.fence) in (
                          select o.id, o.fence
                            from headway.jobs o
                           where o.id = case p_job.fence when 0 then p_job.retry_of else p_job.id end))
$$;

-- Make the job that retries each of these at_most_once jobs: a copy under a new id, linked by retry_of, at the same
-- position, with the unique key and the train; the copy of a locomotive is the locomotive. Happens once: retry_of is
-- unique. If its unique key is taken, the copy is canceled. It starts as p_status, or else queued, or scheduled by its
-- delay.
create function headway.retry_as_new(p_ids uuid[], p_delays_ms bigint[], p_keys text[], p_status text default null)
returns setof uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_old headway.jobs;
  v_new headway.jobs;
  v_ordinal integer;
  v_delay bigint;
begin
  for v_old in
    select j.*
      from headway.jobs j
     where j.id = any (p_ids)
     order by j.id
  loop
    v_ordinal := array_position(p_ids, v_old.id);
    v_delay := coalesce(p_delays_ms[v_ordinal], 0);
    v_new := v_old;
    v_new.id := headway.uuid7();
    v_new.retry_of := v_old.id;
    v_new.trace_id := coalesce(v_old.trace_id, replace(v_old.id::text, '-', ''));
    v_new.unique_key := p_keys[v_ordinal];
    v_new.unique_scope := headway.with_key(v_old.unique_scope);
    v_new.idempotency_key := null;
    v_new.fence := 0;
    v_new.step_fence := v_old.step_fence - v_old.fence;  -- attempts of the step go on counting
    v_new.status := coalesce(p_status, case when v_delay > 0 then 'scheduled' else 'queued' end);
    v_new.scheduled_for := v_now + v_delay * interval '1 millisecond';
    v_new.queued_at := case when v_new.status = 'queued' then v_now end;
    v_new.created_at := v_now;
    v_new.started_at := null;
    v_new.finished_at := null;
    v_new.result := null;
    v_new.error := null;
    v_new.progress := null;
    v_new.progress_note := null;
    v_new.log_tail := null;
    v_new.log_end := null;
    v_new.limited_by := null;
    v_new.fair := headway.is_marked(v_new.tenant_id, v_new.queue);
    v_new.began := case when v_old.step is not null then headway.began(v_old, null) end;
    begin
      insert into headway.jobs select v_new.*;
    exception when unique_violation then
      if exists (select from headway.jobs j where j.retry_of = v_old.id) then
        raise;
      end if;
      v_new.error := headway.superseded(v_new.unique_key, headway.holder(v_new));
      v_new.unique_scope := headway.without_key(v_new.unique_scope, 'canceled');
      v_new.status := 'canceled';
      v_new.queued_at := null;
      v_new.finished_at := v_now;
      v_new.pending := null;
      insert into headway.jobs select v_new.*;
    end;
    if starts_with(v_old.payload::text, '{"$artifact":"') then
      perform headway.copy_payload(v_old.id, v_new.id);
    end if;
    insert into headway.stat_deltas (at, tenant_id, queue, kind, enqueued, canceled)
    values (v_now, v_new.tenant_id, v_new.queue, v_new.kind, 1, case when v_new.status = 'canceled' then 1 end);
    if v_new.tags is not null then
      perform headway.index_tags(array[v_new.id]);
    end if;
    -- jobs that wait for the old one wait for the new one
    perform headway.inherit_edges(v_old.id, v_new.id);
    -- the new one takes over what the old one waits, or waited, for, its role as a callback, and its unconsumed signals
    update headway.edges e
       set child_id = v_new.id
     where e.child_id = v_old.id
       and e.fence in (0, v_old.joining);
    update headway.groups g set callback_id = v_new.id where g.callback_id = v_old.id;
    update headway.signals s
       set job_id = v_new.id
     where s.job_id = v_old.id
       and s.fence is null;
    if v_new.status = 'canceled' then
      perform headway.follow(array[v_new.id], v_now);
      perform headway.tell_dependents(array[v_new.id]);
      perform headway.announce(array[v_new.id], v_now);
    end if;
    return next v_new.id;
  end loop;
end
$$;

-- Retry the jobs that were canceled because of these, which run again, if nothing else stops them; and those canceled
-- because of these in turn. One piece at a time; the rest, and what somebody has locked, is left as an arrival.
create function headway.revive(p_jobs uuid[], p_now timestamptz, p_actor text, p_keep_place boolean) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_parents uuid[] := p_jobs;
  v_found uuid[];
  v_locked uuid[];
  v_old uuid[];
  v_back uuid[];
  v_count integer := 0;
begin
  while v_parents is not null and v_count < headway.piece() loop
    select array_agg(c.id)
      into v_found
      from (select distinct c.id
              from headway.edges e
              join headway.jobs c on c.id = e.child_id
             where e.parent_id = any (v_parents)
               and e.fence = 0
               and e.state = 'failed'
               and e.on_failure = 'stop'
               and c.status = 'canceled'
               and c.error like 'canceled because job %'
               and not exists (
                     select
                       from headway.edges o
                       left join headway.jobs p on p.id = o.parent_id
                      where o.child_id = c.id
                        and o.fence = 0
                        and o.state = 'failed'
                        and o.on_failure = 'stop'
                        and (p.id is null or p.finished_at is not null))
             limit headway.piece() - v_count) c;
    exit when v_found is null;
    select array_agg(l.id)
      into v_locked
      from unnest(v_found) as u (id)
      cross join lateral (
        select j.id from headway.jobs j where j.id = u.id and j.status = 'canceled' for update skip locked) l;
    v_count := v_count + cardinality(v_found);
    select r.old, r.new into v_old, v_back from headway.retry_all(v_locked, p_now, p_actor, p_keep_place, true) r;
    perform headway.note_retries(v_old, v_back, p_now, p_actor, null);
    if v_count >= headway.piece() and v_back is not null or cardinality(v_locked) is distinct from cardinality(v_found) then
      insert into headway.arrivals (tenant_id, revived)
      select j.tenant_id, array_agg(j.id)
        from headway.jobs j
       where j.id = any (v_parents || v_back)
       group by j.tenant_id;
      perform headway.note_rest();
      return;
    end if;
    v_parents := v_back;
  end loop;
end
$$;

-- Whether a new job retries this one.
create function headway.is_retried(p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from headway.jobs r where r.retry_of = p_id)
$$;
