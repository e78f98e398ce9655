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
    v_new.unique_scope := headway.with_key(v_old.unique_scope);
    v_new.idempotency_key := null;
    v_new.fence := 0;
    v_new.step_fence := v_old.step_fence - v_old.fence;  -- goes on counting
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
    -- who waits for the old one waits for the new one
    perform headway.repoint(v_old.id, v_new.id);
    -- where the old one was, the new one is, with what it has not consumed and those that it waits, or waited, for
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
      perform headway.follow(array[v_new.id], v_now, true);
      perform headway.tell(array[v_new.id]);
      perform headway.announce(array[v_new.id], v_now);
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

-- The scope of a job that ended without its unique key, which another holds: with a minus before the status that it
-- ended in. It keeps the key, so that a retry finds out whether it is still taken.
create function headway.without_key(p_scope text[], p_status text) returns text[]
language sql immutable
as $$ select pg_catalog.array_replace(p_scope, p_status, '-' || p_status) $$;

-- The scope as it was given.
create function headway.with_key(p_scope text[]) returns text[]
language sql immutable
as $$
  select case when pg_catalog.array_to_string(p_scope, ',') like '%-%'
              then array(select pg_catalog.ltrim(s, '-') from pg_catalog.unnest(p_scope) s)
              else p_scope end
$$;

-- A job that would enter a unique scope that is taken ends without its key; what follows is the caller's to do.
create function headway.supersede(p_id uuid, p_now timestamptz, p_holder uuid default null) returns uuid
language sql
set search_path = pg_catalog, pg_temp
as $$
  select headway.leave(p_id, p_now, true);
  update headway.jobs j
     set status = 'canceled',
         error = headway.superseded(j.unique_key, coalesce(p_holder, headway.holder(j))),
         unique_scope = headway.without_key(j.unique_scope, 'canceled'),
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

-- Write how executions ended (see end_attempts). Says of some what became of them: `lost`, which was not this worker's to
-- end (one that was written before, whose acknowledgement got lost, is not); `continued`, which goes on with fence + 1,
-- with the signals that it has; `parked`, a Spawn whose children the caller is to enqueue in this transaction.
-- Waits for nobody longer than p_patience (55P03): then nothing is written, and settle_apart finds out who is in the way.
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
  p_stderr_tails text[] default null,
  p_turns jsonb[] default null,
  p_states json[] default null,
  p_pids integer[] default null,
  p_patience text default '250ms'
) returns table (id uuid, fence integer, verdict text, signals text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
  v_fences integer[];
  v_nexts text[];
  v_turns jsonb[];
begin
  -- a user's open transaction may hold a unique key, or a row: better refused and tried without the one that waits, than
  -- everybody's outcomes waiting with it. For the children too, which this transaction enqueues after a 'parked'
  perform set_config('lock_timeout', p_patience, true);
  select e.ids, e.fences, e.nexts, e.turns
    into v_ended, v_fences, v_nexts, v_turns
    from headway.end_attempts(
           p_ids, p_fences, p_statuses, p_tos, p_charges, null, p_delays_ms, p_results, p_errors,
           p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids => p_pids) e;
  if p_turns is not null then
    return query
      select e.id, e.fence, 'continued', i.signals
        from unnest(v_ended, v_fences, v_nexts) as e (id, fence, next)
        cross join lateral (select headway.inbox(e.id, null)::text as signals) i
       where e.next = 'running'
      union all
      select e.id, e.fence, 'parked', null
        from unnest(v_ended, v_fences, v_turns) as e (id, fence, turn)
       where e.turn ? 'joins';
  end if;
  if cardinality(v_ended) = cardinality(p_ids) then
    return;
  end if;
  return query
    with missing as (
      select u.id, u.fence, u.next,
             exists (
               select
                 from headway.attempts a
                where a.job_id = u.id and a.fence = u.fence and a.worker_id = p_worker and a.status <> 'lost') as written
        from unnest(p_ids, p_fences, p_tos) as u (id, fence, next)
       where not exists (select from unnest(v_ended, v_fences) as e (id, fence) where e.id = u.id and e.fence = u.fence)
    )
    select m.id, m.fence, 'lost', null
      from missing m
     where not m.written
    union all
    select m.id, m.fence, 'continued', i.signals
      from missing m
      join headway.jobs j on j.id = m.id and j.fence = m.fence + 1 and j.worker_id = p_worker
      cross join lateral (select headway.inbox(m.id, null)::text as signals) i
     where m.written
       and m.next = 'running'
       and (j.status = 'running') is true;
end
$$;

-- The same where somebody's open transaction is in the way of some: by halves, until those stand alone. Says `busy` of
-- them, and nothing of them is written.
create function headway.settle_apart(
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
  p_stderr_tails text[] default null,
  p_turns jsonb[] default null,
  p_states json[] default null,
  p_pids integer[] default null
) returns table (id uuid, fence integer, verdict text, signals text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_half integer := cardinality(p_ids) / 2;
begin
  begin
    return query
      select s.*
        from headway.settle(
               p_worker, p_ids, p_fences, p_statuses, p_tos, p_charges, p_delays_ms, p_results, p_errors,
               p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids, '20ms') s;
    return;
  exception when lock_not_available or deadlock_detected then
    null;
  end;
  if v_half = 0 then
    return query select p_ids[1], p_fences[1], 'busy', null::text;
    return;
  end if;
  return query
    select s.*
      from headway.settle_apart(
             p_worker, p_ids[:v_half], p_fences[:v_half], p_statuses[:v_half], p_tos[:v_half], p_charges[:v_half],
             p_delays_ms[:v_half], p_results[:v_half], p_errors[:v_half], p_exit_codes[:v_half],
             p_stdout_tails[:v_half], p_stderr_tails[:v_half], p_turns[:v_half], p_states[:v_half], p_pids[:v_half]) s;
  v_half := v_half + 1;
  return query
    select s.*
      from headway.settle_apart(
             p_worker, p_ids[v_half:], p_fences[v_half:], p_statuses[v_half:], p_tos[v_half:], p_charges[v_half:],
             p_delays_ms[v_half:], p_results[v_half:], p_errors[v_half:], p_exit_codes[v_half:],
             p_stdout_tails[v_half:], p_stderr_tails[v_half:], p_turns[v_half:], p_states[v_half:], p_pids[v_half:]) s;
end
$$;

-- Settle jobs that succeeded, as nearly all do: plain ones at their first attempt in one statement, without what no
-- such job has; whatever is more than that by settle. The same words come back as from there.
-- Locks the plain ones in order of id, then the others: who holds one of them is waited for a moment only (55P03), and
-- then settle_apart is asked.
create function headway.succeed(p_worker uuid, p_ids uuid[], p_fences integer[], p_results json[] default null)
returns table (id uuid, fence integer, verdict text, signals text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- for the same reasons as end_attempts
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '250ms'
as $$
declare
  v_now timestamptz := headway.now();
  v_ended uuid[];
  v_fences integer[];
begin
  with moved as (
    update headway.jobs j
       set status = 'succeeded',
           result = u.result,
           error = null,
           finished_at = v_now,
           worker_id = null,
           attempt_started_at = null,
           cancel_requested_at = null,
           cancel_reason = null
      from (
        select *
          from unnest(p_ids, p_fences, p_results) as g (id, fence, result)
         order by g.id
         -- for the planner, which takes it for one row then: by primary key, however small the table was at first
         limit cardinality(p_ids)
      ) u
     where j.id = u.id
       and j.fence = u.fence
       and (j.status = 'running') is true
       and j.worker_id = p_worker
       -- its first attempt: when that began is still known afterwards
       and j.started_at = j.attempt_started_at
       and coalesce(j.train, j.partition) is null
       and coalesce(j.concurrency, j.version) is null
       and j.limited is not true
       and j.group_id is null
       and (j.unique_key is null or 'running' = any (j.unique_scope))
    returning j.id, j.tenant_id, j.fence, j.started_at, j.log_tail
  ), written as (
    insert into headway.attempts (
      job_id, tenant_id, fence, status, started_at, finished_at, worker_id, stdout_tail)
    select m.id, m.tenant_id, m.fence, 'succeeded', m.started_at, v_now, p_worker, m.log_tail
      from moved m
  )
  select array_agg(m.id), array_agg(m.fence) into v_ended, v_fences from moved m;
  perform headway.tell(v_ended);
  perform headway.announce(v_ended, v_now);
  if cardinality(v_ended) = cardinality(p_ids) then
    return;
  end if;
  return query
    select s.*
      from (
        select array_agg(g.id) as ids, array_agg(g.fence) as fences, array_agg('succeeded'::text) as ends,
               array_agg(g.result) as results
          from unnest(p_ids, p_fences, p_results) as g (id, fence, result)
         where not exists (
                 select from unnest(v_ended, v_fences) as e (id, fence) where e.id = g.id and e.fence = g.fence)
      ) g
      cross join lateral headway.settle(p_worker, g.ids, g.fences, g.ends, g.ends, p_results => g.results) s;
end
$$;

-- Settle, and then claim, in one transaction. A row without a kind is no claim, but what settle says of one: its verdict
-- as `delivery`, and its signals as `place`.
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
  p_stderr_tails text[] default null,
  p_turns jsonb[] default null,
  p_states json[] default null,
  p_pids integer[] default null
) returns table (
  id uuid, tenant_id uuid, kind text, queue text, payload json, fence integer, tries integer, losses integer,
  max_attempts integer, max_losses integer, backoff_base_ms bigint, backoff_cap_ms bigint, timeout_ms bigint,
  delivery text, correlation_id text, trace_id text, meta json, followed boolean, place text,
  attempt integer
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform headway.lock_claim(p_queue);
  for id, fence, delivery, place in
    select s.id, s.fence, s.verdict, s.signals
      from headway.settle(
             p_worker, p_ids, p_fences, p_statuses, p_tos, p_charges, p_delays_ms, p_results, p_errors,
             p_exit_codes, p_stdout_tails, p_stderr_tails, p_turns, p_states, p_pids) s
  loop
    return next;
  end loop;
  return query select * from headway.claim(p_worker, p_queue, p_limit);
end
$$;

-- The claim's locks, for a transaction that settles first: they come before the settle's rows, for who holds them alone
-- waits for such rows. Waits a moment only (55P03): outcomes are written without a claim, too.
create function headway.lock_claim(p_queue text) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '250ms'
as $$
  select pg_advisory_xact_lock_shared(headway.queue_lock(p_queue)), pg_advisory_xact_lock_shared(headway.limits_lock());
$$;

-- Show progress, note and log tail (with how much was logged in all) of running jobs; gives the worker's jobs that were
-- asked to stop. Skips a row that somebody holds: its settle waits, too, and says the last words again.
create function headway.report(
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_progress real[],
  p_notes text[],
  p_tails text[],
  p_tail_ends bigint[] default null
) returns table (id uuid, fence integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if cardinality(p_ids) > 0 then
    with locked as materialized (
      select j.id, u.progress, u.note, u.tail, u.tail_end
        from unnest(p_ids, p_fences, p_progress, p_notes, p_tails, p_tail_ends)
             as u (id, fence, progress, note, tail, tail_end)
        join headway.jobs j on j.id = u.id and j.fence = u.fence
       where (j.status = 'running') is true
       order by j.id
         for update of j skip locked
    )
    update headway.jobs j
       set progress = coalesce(l.progress, j.progress),
           progress_note = coalesce(l.note, j.progress_note),
           log_tail = coalesce(l.tail, j.log_tail),
           log_end = case when l.tail is null then j.log_end else l.tail_end end
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
