-- End open attempts: the one core of settle and reap. For each (id, fence) still running, move the job and write its
-- attempt row. A job asked to cancel goes nowhere but canceled, succeeded or dead; one that would enter a unique scope
-- now taken gives up its key and, unless it is over anyway, ends canceled; one that goes to failed gets the job that
-- retries it.
-- Locks the rows in order of id. Gives the rows it changed and where they went.
-- p_superseded are jobs whose key p_holders have; null is the first look, which writes nothing where some may enter a
-- unique scope. Nothing else can be refused, and so the usual case needs no subtransaction.
create function headway.end_attempts(
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[],
  p_losses integer[],
  p_delays_ms bigint[],
  p_results json[],
  p_errors text[],
  p_exit_codes integer[],
  p_stdout_tails text[],
  p_stderr_tails text[],
  p_superseded uuid[] default null,
  p_holders uuid[] default null
) returns table (id uuid, fence integer, next text)
language plpgsql
set search_path = pg_catalog, pg_temp
-- one plan for ever, by primary key: a plan made while the table was small must not outlive that
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
-- a user's open transaction may hold a unique key, or a row: better refused and tried without the one that waits, than
-- everybody's outcomes waiting with it
set lock_timeout = '250ms'
as $$
declare
  v_now timestamptz := headway.now();
  v_ended uuid[];
  v_fences integer[];
  v_nexts text[];
  v_keys text[];
  v_failed boolean;
  v_may_enter boolean;
  v_tenants uuid[];
  v_trains text[];
  v_followed boolean;
begin
  with given as (
    select *
      from unnest(p_ids, p_fences, p_statuses, p_tos, p_charges, p_losses, p_delays_ms, p_results, p_errors,
                  p_exit_codes, p_stdout_tails, p_stderr_tails)
           as u (id, fence, status, next, charge, loss, delay_ms, result, error,
                 exit_code, stdout_tail, stderr_tail)
  ), locked as materialized (
    select j.id, j.fence, j.tenant_id, j.worker_id, j.attempt_started_at, j.unique_key,
           g.status, g.charge, g.loss, g.delay_ms,
           g.result, g.exit_code, g.stderr_tail,
           j.train,
           coalesce(j.partition, j.on_canceled, j.on_dead) is not null or j.concurrency is not null
             or j.limited is true or j.group_id is not null as followed,
           p_superseded is null and j.unique_key is not null and not 'running' = any (j.unique_scope) as may_enter,
           coalesce(g.stdout_tail, j.log_tail) as stdout_tail,
           case
             when j.cancel_requested_at is not null and g.next in ('scheduled', 'queued', 'failed', 'canceled')
               then coalesce(g.error, j.cancel_reason)
             else g.error
           end as error,
           j.unique_key is not null and (
             -- a job over at_most_once hands its key on to its retry
             g.next = 'failed' and 'failed' = any (j.unique_scope)
             or j.id = any (p_superseded)) as drops_key,
           case when j.id = any (p_superseded) and g.next in ('scheduled', 'queued')
                then headway.superseded(j.unique_key, p_holders[array_position(p_superseded, j.id)])
           end as superseded,
           case
             when j.cancel_requested_at is not null and g.next in ('scheduled', 'queued', 'failed') then 'canceled'
             when j.id = any (p_superseded) and g.next in ('scheduled', 'queued') then 'canceled'
             when g.next = 'scheduled' and coalesce(g.delay_ms, 0) = 0 then 'queued'
             else g.next
           end as next
      from given g
      join headway.jobs j on j.id = g.id and j.fence = g.fence
     -- beside a join by id, "is true" keeps the planner on the primary key
     where (j.status = 'running') is true
     order by j.id
       for update of j
  ), moved as (
    update headway.jobs j
       set status = l.next,
           tries = j.tries + coalesce(l.charge, 0),
           losses = j.losses + coalesce(l.loss, 0),
           result = l.result,
           error = coalesce(l.superseded, l.error),
           finished_at = case when l.next in ('succeeded', 'failed', 'dead', 'canceled') then v_now end,
           scheduled_for = case when l.next = 'scheduled' then v_now + l.delay_ms * interval '1 millisecond'
                                else j.scheduled_for end,
           queued_at = case when l.next = 'queued' then v_now else j.queued_at end,
           unique_key = case when l.drops_key then null else j.unique_key end,
           worker_id = null,
           attempt_started_at = null,
           cancel_requested_at = null,
           cancel_reason = null
      from locked l
     where j.id = l.id
       and not exists (select from locked k where k.may_enter)
  ), written as (
    insert into headway.attempts (
      job_id, tenant_id, fence, status, started_at, finished_at, worker_id, error,
      exit_code, stdout_tail, stderr_tail)
    select l.id, l.tenant_id, l.fence, l.status, l.attempt_started_at, v_now, l.worker_id, l.error,
           l.exit_code, l.stdout_tail, l.stderr_tail
      from locked l
     where not exists (select from locked k where k.may_enter)
    on conflict do nothing
  )
  select array_agg(l.id), array_agg(l.fence), array_agg(l.next), array_agg(l.unique_key), bool_or(l.next = 'failed'),
         bool_or(l.followed), bool_or(l.may_enter),
         array_agg(l.tenant_id) filter (where l.train is not null and l.next in ('succeeded', 'dead', 'canceled')),
         array_agg(l.train) filter (where l.train is not null and l.next in ('succeeded', 'dead', 'canceled'))
    into v_ended, v_fences, v_nexts, v_keys, v_failed, v_followed, v_may_enter, v_tenants, v_trains
    from locked l;
  if v_may_enter then
    return query
      select *
        from headway.end_attempts_entering(
               p_ids, p_fences, p_statuses, p_tos, p_charges, p_losses, p_delays_ms, p_results, p_errors,
               p_exit_codes, p_stdout_tails, p_stderr_tails);
    return;
  end if;
  if v_failed then
    perform headway.retry_as_new(f.ids, f.delays, f.keys)
       from (select array_agg(e.id) as ids, array_agg(g.delay_ms) as delays, array_agg(e.unique_key) as keys
               from unnest(v_ended, v_nexts, v_keys) as e (id, next, unique_key)
               join unnest(p_ids, p_delays_ms) as g (id, delay_ms) on g.id = e.id
              where e.next = 'failed') f;
  end if;
  -- statements of their own, and so new snapshots: what was committed before the rows were locked is seen
  if v_followed then
    perform headway.follow(v_ended, v_now, true);
  elsif v_trains is not null then
    perform headway.advance(v_tenants, v_trains, v_now);
  end if;
  perform from headway.edges limit 1;
  if found then
    perform headway.tell(v_ended);
  end if;
  return query select * from unnest(v_ended, v_fences, v_nexts);
end
$$;

-- The same where some may enter a unique scope: looks for who is there when one is refused, and tries again.
create function headway.end_attempts_entering(
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[],
  p_losses integer[],
  p_delays_ms bigint[],
  p_results json[],
  p_errors text[],
  p_exit_codes integer[],
  p_stdout_tails text[],
  p_stderr_tails text[]
) returns table (id uuid, fence integer, next text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_superseded uuid[] := '{}';
  v_holders uuid[] := '{}';
  v_found uuid[];
  v_found_holders uuid[];
begin
  loop
    begin
      return query
        select *
          from headway.end_attempts(
                 p_ids, p_fences, p_statuses, p_tos, p_charges, p_losses, p_delays_ms, p_results, p_errors,
                 p_exit_codes, p_stdout_tails, p_stderr_tails, v_superseded, v_holders);
      return;
    exception when unique_violation then
      -- who else is in scope: another job, or an earlier one of this very batch
      with entering as (
        select j.id, j.tenant_id, j.kind, j.unique_key,
               first_value(j.id) over (partition by j.tenant_id, j.kind, j.unique_key order by j.id) as first
          from unnest(p_ids, p_fences, p_tos, p_delays_ms) as u (id, fence, next, delay_ms)
          join headway.jobs j on j.id = u.id and j.fence = u.fence
         where (j.status = 'running') is true
           and j.unique_key is not null
           and not 'running' = any (j.unique_scope)
           and case when u.next = 'scheduled' and coalesce(u.delay_ms, 0) = 0 then 'queued' else u.next end
               = any (j.unique_scope)
      ), blocked as (
        select e.id, coalesce(o.id, case when e.first <> e.id then e.first end) as holder
          from entering e
          left join headway.jobs o
            on o.tenant_id = e.tenant_id and o.kind = e.kind and o.unique_key = e.unique_key
           and o.unique_key is not null and o.status = any (o.unique_scope) and o.id <> e.id
      )
      select array_agg(b.id), array_agg(b.holder)
        into v_found, v_found_holders
        from blocked b
       where b.holder is not null
         and b.id <> all (v_superseded);
      if v_found is null then
        raise;
      end if;
      v_superseded := v_superseded || v_found;
      v_holders := v_holders || v_found_holders;
    end;
  end loop;
end
$$;

-- Make the job that retries each of these at_most_once jobs: a copy under a new id, linked by retry_of, at the same
-- place, with the unique key. Exactly once: retry_of is unique. If its unique key is taken, it is there, canceled.
-- p_status is where it begins; else queued, or scheduled by its delay. It has the train, the place and, where the
-- old one had it, the seat of the locomotive.
create function headway.retry_as_new(p_ids uuid[], p_delays_ms bigint[], p_keys text[], p_status text default null)
returns setof uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_old headway.jobs;
  v_new headway.jobs;
  v_place integer;
  v_delay bigint;
begin
  for v_old in
    select j.*
      from headway.jobs j
     where j.id = any (p_ids)
     order by j.id
  loop
    v_place := array_position(p_ids, v_old.id);
    v_delay := coalesce(p_delays_ms[v_place], 0);
    v_new := v_old;
    v_new.id := headway.uuid7();
    v_new.retry_of := v_old.id;
    v_new.unique_key := p_keys[v_place];
    v_new.idempotency_key := null;
    v_new.fence := 0;
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
    v_new.limited_by := null;
    begin
      insert into headway.jobs select v_new.*;
    exception when unique_violation then
      if exists (select from headway.jobs j where j.retry_of = v_old.id) then
        raise;
      end if;
      v_new.error := headway.superseded(v_new.unique_key, headway.holder(v_new));
      v_new.unique_key := null;
      v_new.status := 'canceled';
      v_new.queued_at := null;
      v_new.finished_at := v_now;
      v_new.pending := null;
      insert into headway.jobs select v_new.*;
    end;
    -- who waits for the old one waits for the new one
    perform headway.repoint(v_old.id, v_new.id);
    if v_new.status = 'canceled' then
      perform headway.follow(array[v_new.id], v_now, true);
      perform headway.tell(array[v_new.id]);
    end if;
    return next v_new.id;
  end loop;
end
$$;

-- The job, other than this one, that has its unique key in scope.
create function headway.holder(p_job headway.jobs) returns uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select o.id
    from headway.jobs o
   where o.tenant_id = p_job.tenant_id
     and o.kind = p_job.kind
     and o.unique_key = p_job.unique_key
     and o.unique_key is not null
     and o.status = any (o.unique_scope)
     and o.id <> p_job.id
   limit 1
$$;

create function headway.superseded(p_key text, p_holder uuid) returns text
language sql immutable
as $$ select 'superseded: unique key "' || p_key || '" is taken by job ' || p_holder $$;

-- A job that would enter a unique scope that is taken gives up its key and ends; what follows is the caller's to do.
create function headway.supersede(p_id uuid, p_now timestamptz, p_holder uuid default null) returns uuid
language sql
set search_path = pg_catalog, pg_temp
as $$
  select headway.leave(p_id, p_now, true);
  update headway.jobs j
     set status = 'canceled',
         error = headway.superseded(j.unique_key, coalesce(p_holder, headway.holder(j))),
         unique_key = null,
         finished_at = p_now,
         limited_by = null,
         pending = null,
         worker_id = null,
         attempt_started_at = null,
         cancel_requested_at = null,
         cancel_reason = null
   where j.id = p_id
  returning j.id
$$;

-- Write how executions ended (see end_attempts). Gives those that were not this worker's to end; one that was written
-- before, whose acknowledgement got lost, is not among them.
create function headway.settle(
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[] default null,
  p_delays_ms bigint[] default null,
  p_results json[] default null,
  p_errors text[] default null,
  p_exit_codes integer[] default null,
  p_stdout_tails text[] default null,
  p_stderr_tails text[] default null
) returns table (id uuid, fence integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
  v_fences integer[];
begin
  select array_agg(e.id), array_agg(e.fence)
    into v_ended, v_fences
    from headway.end_attempts(
           p_ids, p_fences, p_statuses, p_tos, p_charges, null, p_delays_ms, p_results, p_errors,
           p_exit_codes, p_stdout_tails, p_stderr_tails) e;
  if cardinality(v_ended) = cardinality(p_ids) then
    return;
  end if;
  return query
    select u.id, u.fence
      from unnest(p_ids, p_fences) as u (id, fence)
     where not exists (select from unnest(v_ended, v_fences) as e (id, fence) where e.id = u.id and e.fence = u.fence)
       and not exists (
             select
               from headway.attempts a
              where a.job_id = u.id and a.fence = u.fence and a.worker_id = p_worker and a.status <> 'lost');
end
$$;

-- Settle, and then claim, in one transaction. A row without a kind is no claim, but a settlement that was not this
-- worker's to write.
create function headway.settle_and_claim(
  p_queue text,
  p_limit integer,
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_statuses text[],
  p_tos text[],
  p_charges integer[] default null,
  p_delays_ms bigint[] default null,
  p_results json[] default null,
  p_errors text[] default null,
  p_exit_codes integer[] default null,
  p_stdout_tails text[] default null,
  p_stderr_tails text[] default null
) returns table (
  id uuid, tenant_id uuid, kind text, queue text, payload json, fence integer, tries integer, losses integer,
  max_attempts integer, max_losses integer, backoff_base_ms bigint, backoff_cap_ms bigint, timeout_ms bigint,
  delivery text, correlation_id text, trace_id text, meta json, followed boolean
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- the claim's locks before the settle's rows: who holds those waits for such rows
  perform pg_advisory_xact_lock_shared(headway.queue_lock(p_queue)), pg_advisory_xact_lock_shared(headway.limits_lock());
  for id, fence in
    select s.id, s.fence
      from headway.settle(
             p_worker, p_ids, p_fences, p_statuses, p_tos, p_charges, p_delays_ms, p_results, p_errors,
             p_exit_codes, p_stdout_tails, p_stderr_tails) s
  loop
    return next;
  end loop;
  return query select * from headway.claim(p_worker, p_queue, p_limit);
end
$$;

-- Show progress, note and log tail of running jobs; gives the worker's jobs that were asked to stop.
create function headway.report(
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_progress real[],
  p_notes text[],
  p_tails text[]
) returns table (id uuid, fence integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if cardinality(p_ids) > 0 then
    with locked as materialized (
      select j.id, u.progress, u.note, u.tail
        from unnest(p_ids, p_fences, p_progress, p_notes, p_tails) as u (id, fence, progress, note, tail)
        join headway.jobs j on j.id = u.id and j.fence = u.fence
       where (j.status = 'running') is true
       order by j.id
         for update of j
    )
    update headway.jobs j
       set progress = coalesce(l.progress, j.progress),
           progress_note = coalesce(l.note, j.progress_note),
           log_tail = coalesce(l.tail, j.log_tail)
      from locked l
     where j.id = l.id;
  end if;
  return query
    select j.id, j.fence
      from headway.jobs j
     where j.worker_id = p_worker
       and j.status = 'running'
       and j.cancel_requested_at is not null;
end
$$;
