-- Ends that are decided by the policy of the job's own row, for workers in any language.

-- The wait before the next execution, as backoff_ms in model/retry.py.
create function headway.backoff_ms(p_failures integer, p_base_ms bigint, p_cap_ms bigint) returns bigint
language sql volatile
as $$
  select pg_catalog.round(b.shortest + pg_catalog.random() * (b.longest - b.shortest))::bigint
    from (select 0.75 * least(d.doubled, p_cap_ms) as shortest, least(1.25 * d.doubled, p_cap_ms) as longest
            from (select p_base_ms * 2::double precision ^ least(p_failures - 1, 40) as doubled) d) b
$$;

-- Fail executions of one worker: each job is tried again, or dead, or failed with a new job that retries it, as `failed`
-- in model/retry.py decides. p_statuses says how each attempt ended: `failed`, `timeout`, or `canceled`, which charges
-- nothing and cancels the job. Gives for each the job's status, or `lost` if this worker does not run it under that
-- fence (any more), or it is not p_tenant's, if that is given: then nothing was written. A repeat gives the same answer and changes nothing.
-- Locks as settle does, and waits no longer (55P03). Raises HW004 for another status.
create function headway.fail_many(
  p_worker uuid,
  p_ids uuid[],
  p_fences integer[],
  p_errors text[],
  p_retryables boolean[] default null,
  p_delays_ms bigint[] default null,
  p_exit_codes integer[] default null,
  p_stdout_tails text[] default null,
  p_stderr_tails text[] default null,
  p_statuses text[] default null,
  p_tenant uuid default null
) returns table (id uuid, fence integer, verdict text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  c_statuses constant text[] := array['failed', 'timeout', 'canceled'];
begin
  if not coalesce(p_statuses, '{}') <@ c_statuses then
    raise exception 'an execution ended failed, timeout or canceled: nothing was written' using errcode = 'HW004';
  end if;
  -- (id, fence) names one execution by one worker, and nobody changes the budgets of a running job: what is read here
  -- still holds when settle has locked the row
  perform s.verdict
     from (
       select array_agg(d.id) as ids, array_agg(d.fence) as fences, array_agg(d.error) as errors,
              array_agg(d.ended) as statuses, array_agg(d.next) as nexts,
              array_agg(case when d.ended = 'canceled' then 0 else 1 end) as charges,
              array_agg(case when d.next in ('dead', 'canceled') then 0
                             else coalesce(d.delay_ms,
                                           headway.backoff_ms(d.tries + 1, d.backoff_base_ms, d.backoff_cap_ms))
                        end) as delays,
              array_agg(d.exit_code) as exit_codes, array_agg(d.stdout_tail) as stdout_tails,
              array_agg(d.stderr_tail) as stderr_tails
         from (
           select u.*, j.tries, j.backoff_base_ms, j.backoff_cap_ms, coalesce(u.status, 'failed') as ended,
                  case
                    when u.status = 'canceled' then 'canceled'
                    when u.retryable is false then 'dead'
                    when j.tries + 1 + case when j.delivery = 'at_most_once' then j.losses else 0 end >= j.max_attempts
                      then 'dead'
                    when j.delivery = 'at_most_once' then 'failed'
                    else 'scheduled'
                  end as next
             from unnest(p_ids, p_fences, p_errors, p_retryables, p_delays_ms, p_exit_codes, p_stdout_tails,
                         p_stderr_tails, p_statuses)
                  as u (id, fence, error, retryable, delay_ms, exit_code, stdout_tail, stderr_tail, status)
             join headway.jobs j on j.id = u.id and j.fence = u.fence
            where (j.status = 'running') is true
              and j.worker_id = p_worker
              and (p_tenant is null or j.tenant_id = p_tenant)
         ) d
     ) g
     cross join lateral headway.settle(
       p_worker, g.ids, g.fences, g.statuses, g.nexts, g.charges, g.delays, null, g.errors, g.exit_codes,
       g.stdout_tails, g.stderr_tails) s
    where g.ids is not null;
  return query select v.* from headway.verdicts(p_worker, p_ids, p_fences, c_statuses, p_tenant) v;
end
$$;

-- Where jobs are whose executions this worker has ended in one of these statuses; `lost` where it has not.
create function headway.verdicts(
  p_worker uuid, p_ids uuid[], p_fences integer[], p_statuses text[], p_tenant uuid)
returns table (id uuid, fence integer, verdict text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select u.id, u.fence, coalesce(j.status, 'lost')
    from unnest(p_ids, p_fences) as u (id, fence)
    left join headway.attempts a
      on a.job_id = u.id and a.fence = u.fence and a.worker_id = p_worker and a.status = any (p_statuses)
     and (p_tenant is null or a.tenant_id = p_tenant)
    left join headway.jobs j on j.id = a.job_id
$$;

-- Complete executions of one worker. Answers as fail_many does, and `machine` for a machine, of which nothing is
-- written: its step ends with an outcome.
create function headway.complete_many(
  p_worker uuid, p_ids uuid[], p_fences integer[], p_results json[] default null, p_tenant uuid default null)
returns table (id uuid, fence integer, verdict text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_machines uuid[];
  v_ids uuid[];
  v_fences integer[];
  v_results json[];
  v_own boolean;
begin
  select array_agg(u.id) filter (where j.version is not null or j.step is not null),
         array_agg(u.id) filter (where j.version is null and j.step is null),
         array_agg(u.fence) filter (where j.version is null and j.step is null),
         array_agg(u.result) filter (where j.version is null and j.step is null)
    into v_machines, v_ids, v_fences, v_results
    from unnest(p_ids, p_fences, p_results) as u (id, fence, result)
    join headway.jobs j on j.id = u.id and j.fence = u.fence
   where (j.status = 'running') is true
     and j.worker_id = p_worker
     and (p_tenant is null or j.tenant_id = p_tenant);
  v_own := cardinality(v_ids) = cardinality(p_ids);
  if v_ids is not null then
    perform s.verdict
       from headway.succeed(p_worker, v_ids, v_fences, v_results) s
      where s.verdict = 'lost';
    v_own := v_own and not found;
  end if;
  if v_own then
    return query select u.id, u.fence, 'succeeded' from unnest(p_ids, p_fences) as u (id, fence);
    return;
  end if;
  return query
    select v.id, v.fence, case when v.id = any (v_machines) then 'machine' else v.verdict end
      from headway.verdicts(p_worker, p_ids, p_fences, array['succeeded'], p_tenant) v;
end
$$;

-- Complete one execution; gives the job's status. Raises HW002 if this worker does not run the job under that fence (any
-- more), HW003 for a machine, HW004 for a result that nobody could read.
create function headway.complete(p_worker uuid, p_id uuid, p_fence integer, p_result json default null) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_verdict text;
begin
  perform headway.check_json('result', p_result, 1048576);
  select c.verdict
    into v_verdict
    from headway.complete_many(p_worker, array[p_id], array[p_fence], array[p_result]) c;
  if v_verdict = 'machine' then
    raise exception 'job % is a machine, whose step ends with an outcome: nothing was written; run machines by a worker in Python or over HTTP', p_id
      using errcode = 'HW003';
  end if;
  perform headway.refuse_lost(p_id, p_fence, v_verdict);
  return v_verdict;
end
$$;

-- Fail one execution by the job's policy; gives the job's status. p_retryable => false: another try could not help.
-- p_delay is used instead of the backoff. p_status says how the attempt ended: `failed`, `timeout`, or `canceled`, which
-- needs no error. Of a longer error the first 65,536 characters are kept, as over HTTP: lists of jobs show it. Raises HW002
-- if this worker does not run the job under that fence (any more), HW004 for a delay that is not from 0 to 100 years,
-- another status, or no error.
create function headway.fail(
  p_worker uuid, p_id uuid, p_fence integer, p_error text, p_retryable boolean default true,
  p_delay interval default null, p_status text default 'failed'
) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_verdict text;
begin
  if (p_error is null and p_status <> 'canceled') or not (p_delay is null or extract(epoch from p_delay) between 0 and 3162240000) then
    raise exception 'a failure has an error, and a delay from 0 to 100 years: nothing was written' using errcode = 'HW004';
  end if;
  select f.verdict
    into v_verdict
    from headway.fail_many(
           p_worker, array[p_id], array[p_fence], array[pg_catalog.left(p_error, 65536)], array[p_retryable],
           array[(extract(epoch from p_delay) * 1000)::bigint], p_statuses => array[p_status]) f;
  perform headway.refuse_lost(p_id, p_fence, v_verdict);
  return v_verdict;
end
$$;

create function headway.refuse_lost(p_id uuid, p_fence integer, p_verdict text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_verdict = 'lost' then
    raise exception 'this worker does not run job % under fence % (any more), and the job may run elsewhere: nothing was written', p_id, p_fence
      using errcode = 'HW002';
  end if;
end
$$;
