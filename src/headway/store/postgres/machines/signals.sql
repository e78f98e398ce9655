-- Signals. A sender only inserts, so its transaction may be long and nobody waits for it. A waiting machine is woken by
-- process_arrivals, after the sender's commit; a machine that parks checks its inbox after it has parked. One of the
-- two sees the other.

-- Put signals into inboxes, all or none, in call order: to the job of an id, or to the job of a kind that has the
-- unique key in scope. Gives for each its ordinal in the call (from 1), the stored signal, its job, the job's queue,
-- and whether this call stored it: one whose id or dedup_key the job has had is answered with the signal from then.
-- Locks nothing that others wait for; waits only for another transaction's uncommitted equal key of the same job.
-- Raises HW003 (the job is over, or is a plain job that has run), HW004, HW006 (there is no such job), HW007 (a
-- reference to a secret).
create function headway.signal_many(
  p_ids uuid[],
  p_names text[],
  p_payloads json[] default null,
  p_jobs uuid[] default null,
  p_kinds text[] default null,
  p_unique_keys text[] default null,
  p_tenants uuid[] default null,
  p_dedup_keys text[] default null,
  p_trace_ids text[] default null,
  p_created_bys text[] default null,
  p_checked boolean default false
) returns table (ordinal bigint, id uuid, job_id uuid, queue text, created boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := headway.now();
  v_scope uuid := headway.acting_tenant(null);
  v_jobs uuid[];
  v_tenants uuid[];
  v_queues text[];
  v_seqs bigint[];
  v_taken uuid;
  v_made bigint;
  v_refused record;
begin
  if exists (select from unnest(p_names) as u (name) where u.name is null or u.name = '')
     or cardinality(p_names) is distinct from cardinality(p_ids) then
    raise exception 'a signal has no name: nothing was sent' using errcode = 'HW004';
  end if;
  select u.name into v_refused from unnest(p_names) with ordinality as u (name, ordinal) where starts_with(u.name, '$') order by u.ordinal limit 1;
  if found then
    raise exception 'signal name "%" begins with $, as only names of the engine do: nothing was sent; give it another name', v_refused.name
      using errcode = 'HW004';
  end if;
  if exists (select from unnest(p_payloads) as u (payload) where headway.refers_to_secret(u.payload)) then
    raise exception 'the data of a signal holds a reference to a secret ("$secret"), which only payloads of jobs, templates and triggers may: nothing was sent'
      using errcode = 'HW007';
  end if;
  if not p_checked then
    perform headway.check_json('payload', u.payload, 1048576) from unnest(p_payloads) as u (payload);
  end if;
  if p_tenants is not null then
    perform headway.acting_tenant(t.id) from (select distinct u.id from unnest(p_tenants) as u (id)) t;
  end if;

  select array_agg(j.id order by u.ordinal), array_agg(j.tenant_id order by u.ordinal), array_agg(j.queue order by u.ordinal)
    into v_jobs, v_tenants, v_queues
    from unnest(p_ids, p_jobs, p_kinds, p_unique_keys, p_tenants)
         with ordinality as u (id, job_id, kind, unique_key, tenant_id, ordinal)
    left join lateral (
      select j.id, j.tenant_id, j.queue
        from headway.jobs j
       where j.id = u.job_id
         and (v_scope is null or j.tenant_id = v_scope)
         and (u.tenant_id is null or j.tenant_id = u.tenant_id)
      union all
      select j.id, j.tenant_id, j.queue
        from headway.jobs j
       where u.job_id is null
         and j.tenant_id = coalesce(u.tenant_id, v_scope, 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc')
         and coalesce(j.unique_group, j.kind) = u.kind
         and j.unique_key = u.unique_key
         and j.unique_key is not null
         and j.status = any (j.unique_scope)
    ) j on true;

  -- jobs that take no signals, unless they have had this one
  select u.job_id as asked, u.kind, u.unique_key, j.id, j.kind as is_kind, j.status, j.finished_at
    into v_refused
    from unnest(p_ids, v_jobs, p_jobs, p_kinds, p_unique_keys, p_dedup_keys)
         with ordinality as u (id, found_id, job_id, kind, unique_key, dedup_key, ordinal)
    left join headway.jobs j on j.id = u.found_id
   -- a machine that was enqueued by its kind alone has no step until its first one has ended
   where (j.id is null or j.finished_at is not null
          or j.step is null and exists (select from headway.attempts a where a.job_id = j.id))
     and (select 1 from headway.signals s where s.job_id = j.id and s.dedup_key = u.dedup_key limit 1) is null
     -- by tenant: the job that retries another has its inbox
     and (select 1 from headway.signals s where s.id = u.id and s.tenant_id = j.tenant_id limit 1) is null
   order by u.ordinal
   limit 1;
  if found then
    if v_refused.id is null and v_refused.asked is not null then
      raise exception 'there is no job % to signal (or it is another tenant''s, or it was pruned): nothing was sent',
        v_refused.asked
        using errcode = 'HW006';
    elsif v_refused.id is null then
      raise exception 'no unfinished job of kind % has unique key "%": nothing was sent; enqueue it first, or signal a job by its id',
        v_refused.kind, v_refused.unique_key
        using errcode = 'HW006';
    elsif v_refused.finished_at is not null then
      raise exception 'job % (%) is % and takes no signals any more: nothing was sent; retry it first, or enqueue a new one',
        v_refused.id, v_refused.is_kind, v_refused.status
        using errcode = 'HW003';
    end if;
    raise exception 'job % (%) is a plain job that has run, and only machines receive signals: nothing was sent',
      v_refused.id, v_refused.is_kind
      using errcode = 'HW003';
  end if;

  -- seq follows the order of the call; rows are inserted in order of their keys, so that two calls that wait for each
  -- other's keys never deadlock; of a key that comes twice the first has it
  v_seqs := array(select nextval('headway.signals_seq_seq') from unnest(p_ids));
  with made as (
    insert into headway.signals as s (id, seq, job_id, tenant_id, name, payload, dedup_key, trace_id, created_by, sent_at)
    select u.id, u.seq, u.job_id, u.tenant_id, u.name, coalesce(u.payload, 'null'), u.dedup_key, u.trace_id, u.created_by, v_now
      from unnest(p_ids, v_seqs, v_jobs, v_tenants, p_names, p_payloads, p_dedup_keys, p_trace_ids, p_created_bys)
           as u (id, seq, job_id, tenant_id, name, payload, dedup_key, trace_id, created_by)
     order by case when u.dedup_key is not null then u.job_id end, u.dedup_key, u.seq
    on conflict do nothing
    returning s.job_id, s.tenant_id
  ), arrived as (
    insert into headway.arrivals (tenant_id, signaled)
    select m.tenant_id, array_agg(distinct m.job_id) from made m group by m.tenant_id
  )
  select count(*) into v_made from made;

  if v_made = cardinality(p_ids) then
    return query
      select u.ordinal, u.id, u.job_id, u.queue, true
        from unnest(p_ids, v_jobs, v_queues) with ordinality as u (id, job_id, queue, ordinal)
       order by u.ordinal;
    return;
  end if;
  -- new statements, which see what another transaction committed meanwhile
  select s.id
    into v_taken
    from unnest(p_ids, v_tenants) as u (id, tenant_id)
    join headway.signals s on s.id = u.id
   where s.tenant_id <> u.tenant_id
   limit 1;
  if found then
    raise exception 'signal id % is taken: give a new signal an id of its own', v_taken using errcode = 'HW004';
  end if;
  return query
    select u.ordinal, coalesce(own.id, same.id, u.id), coalesce(own.job_id, u.job_id), u.queue,
           coalesce(own.seq = u.seq, false)
      from unnest(p_ids, v_seqs, v_jobs, v_queues, p_dedup_keys)
           with ordinality as u (id, seq, job_id, queue, dedup_key, ordinal)
      left join lateral (
        select s.id, s.seq, s.job_id from headway.signals s where s.id = u.id limit 1) own on true
      left join lateral (
        select s.id from headway.signals s where s.job_id = u.job_id and s.dedup_key = u.dedup_key limit 1) same on true
     order by u.ordinal;
end
$$;

-- Send one signal to a job; gives the id of the stored signal: select headway.signal('0199…', 'payment', '{"amount":
-- 100}'). Raises what signal_many raises.
create function headway.signal(job uuid, name text, payload json default 'null', dedup_key text default null) returns uuid
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.id
    from headway.signal_many(
           array[headway.uuid7()], array[name], array[payload], p_jobs => array[job], p_dedup_keys => array[dedup_key]) s
$$;

-- The same to the job of a kind that has this unique key. Without a tenant: the session's own, or the default one.
create function headway.signal_key(
  kind text,
  unique_key text,
  name text,
  payload json default 'null',
  dedup_key text default null,
  tenant uuid default null
) returns uuid
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.id
    from headway.signal_many(
           array[headway.uuid7()], array[name], array[payload], p_kinds => array[kind],
           p_unique_keys => array[unique_key], p_tenants => array[tenant], p_dedup_keys => array[dedup_key]) s
$$;
