-- Reads of flows: their journals, what arrived for them while they run, and their children.

-- The rows of these flows' journals, in order of job and seq, behind p_after of each: until they hold more than p_bytes,
-- at least one; a row without a job says that there are more. Row-level security decides whose.
create function headway.journal(p_ids uuid[], p_after integer[], p_tenant uuid, p_bytes bigint)
returns table (
  job_id uuid, seq integer, fence integer, kind text, place text, value text, error text, print bigint, at timestamptz,
  took_ms integer, signal uuid)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_bytes bigint := 0;
begin
  for job_id, seq, fence, kind, place, value, error, print, at, took_ms, signal in
    select f.job_id, f.seq, f.fence, f.kind, f.place, f.value::text, f.error, f.print, f.at, f.took_ms, f.signal
      from (select u.id, u.after from unnest(p_ids, p_after) as u (id, after) order by u.id limit cardinality(p_ids)) u
      cross join lateral (
        select f.*
          from headway.flow_journal f
         where f.job_id = u.id
           and f.seq > u.after
           and (p_tenant is null or f.tenant_id = p_tenant)
         order by f.seq) f
  loop
    if v_bytes > p_bytes then
      job_id := null;
      return next;
      exit;
    end if;
    return next;
    v_bytes := v_bytes + coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0) + octet_length(place) + 100;
  end loop;
end
$$;

-- The rows of a journal that count: without those that a later `forgotten` row took back, and without that row; the same
-- rule as `effective` in model/journal.py.
create function headway.effective(p_job uuid)
returns table (
  seq integer, fence integer, kind text, place text, value json, error text, print bigint, at timestamptz, took_ms integer,
  signal uuid)
language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  with forgotten as materialized (
    select f.seq, f.fence, (f.value ->> 'from')::integer as start
      from headway.flow_journal f
     where f.job_id = p_job
       and f.kind = 'forgotten'
  )
  select f.seq, f.fence, f.kind, f.place, f.value, f.error, f.print, f.at, f.took_ms, f.signal
    from headway.flow_journal f
   where f.job_id = p_job
     and f.kind <> 'forgotten'
     and not exists (
           select
             from forgotten g
            where case when f.seq < 0 then g.start < 1 and g.fence >= f.fence else g.start <= f.seq and g.seq > f.seq end)
   order by f.seq
$$;

-- The unconsumed signals of those of these flows that this worker runs and that have any, as a claim brings them.
create function headway.flow_news(p_worker uuid, p_ids uuid[]) returns table (id uuid, signals text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  return query
    select j.id, headway.inbox(j.id, '{$cancel}')::text
      from unnest(p_ids) as u (id)
      join headway.jobs j on j.id = u.id
     where (j.status = 'running') is true
       and j.worker_id = p_worker
       and (select 1 from headway.signals s where s.job_id = j.id and s.fence is null limit 1) is not null;
end
$$;
