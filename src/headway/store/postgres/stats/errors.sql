-- Errors: executions that ended badly, grouped by fingerprint. end_attempts leaves them as deltas; the fingerprints are
-- made by the caller of the fold, by the rules of model/error_groups.py.

-- As much of an error's text as is kept beside it: excerpt of model/error_groups.py.
create function headway.error_excerpt(p_text text) returns text
language sql immutable
as $$
  select case when pg_catalog.length(p_text) > 12288
              then pg_catalog.left(p_text, 4096) || E'\n…\n' || pg_catalog.right(p_text, 8192)
              else p_text end
$$;

-- Take up to p_limit executions that ended badly, the oldest first: the caller adds them to their groups in the same
-- transaction (add_errors). None while another session does that.
create function headway.take_error_deltas(p_limit integer)
returns table (
  at timestamptz, tenant_id uuid, queue text, kind text, job_id uuid, fence integer, status text, dead boolean,
  error text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
  if not pg_try_advisory_xact_lock(headway.lock_key('errors')) then
    return;
  end if;
  return query
    with gone as (
      delete from headway.error_deltas d
       where d.seq = any (array(select o.seq from headway.error_deltas o order by o.seq limit p_limit))
      returning d.*
    )
    select g.at, g.tenant_id, g.queue, g.kind, g.job_id, g.fence, g.status, g.dead, g.error
      from gone g
     order by g.seq;
end
$$;

-- Add to these groups, each a tenant, a fingerprint and a queue once, in order; and note which error each of these jobs
-- had last.
create function headway.add_errors(
  p_tenants uuid[],
  p_fingerprints text[],
  p_queues text[],
  p_kinds text[],
  p_statuses text[],
  p_types text[],
  p_places text[],
  p_counts bigint[],
  p_dead bigint[],
  p_first_seen timestamptz[],
  p_last_seen timestamptz[],
  p_job_ids uuid[],
  p_fences integer[],
  p_messages text[],
  p_samples text[],
  p_jobs uuid[],
  p_job_tenants uuid[],
  p_job_fences integer[],
  p_job_errors text[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
  insert into headway.errors as e (
    tenant_id, fingerprint, queue, kind, status, type, place, count, dead, first_seen_at, last_seen_at, job_id, fence,
    message, sample)
  select *
    from unnest(p_tenants, p_fingerprints, p_queues, p_kinds, p_statuses, p_types, p_places, p_counts, p_dead,
                p_first_seen, p_last_seen, p_job_ids, p_fences, p_messages, p_samples)
  on conflict (tenant_id, fingerprint, queue) do update
    set count = e.count + excluded.count,
        dead = e.dead + excluded.dead,
        type = excluded.type,
        place = excluded.place,
        first_seen_at = least(e.first_seen_at, excluded.first_seen_at),
        last_seen_at = greatest(e.last_seen_at, excluded.last_seen_at),
        job_id = excluded.job_id,
        fence = excluded.fence,
        message = excluded.message,
        sample = excluded.sample;
  -- one that was deleted since needs no entry
  insert into headway.job_errors as o (job_id, tenant_id, fence, fingerprint)
  select u.id, u.tenant_id, u.fence, u.fingerprint
    from unnest(p_jobs, p_job_tenants, p_job_fences, p_job_errors) as u (id, tenant_id, fence, fingerprint)
   where exists (select from headway.jobs j where j.id = u.id)
   order by u.id
  on conflict (job_id) do update
    set fence = excluded.fence,
        fingerprint = excluded.fingerprint
    where excluded.fence > o.fence;
end
$$;

-- Delete up to p_limit groups that were seen last longer ago; gives how many.
create function headway.prune_errors(p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kept_ms bigint := headway.kept_at_least('errors', p_older_than_ms);
  v_count integer;
begin
  delete from headway.errors e
   where e.ctid = any (array(
           select o.ctid
             from headway.errors o
            where o.last_seen_at < headway.now() - v_kept_ms * interval '1 millisecond'
            order by o.last_seen_at
            limit p_limit));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
