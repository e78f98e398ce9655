-- Windows of unique keys: with unique_for, the first job has its key for that long, whatever becomes of it.

-- Before the jobs of a batch are inserted: open the windows of those that have unique_for. Gives for each job of the
-- call, in order, the job whose window it meets, with the outcome left, as `meet` does; else null. Of several with one
-- key, the first in call order opens the window, and the others meet it. A job that exists already, by its id or its
-- idempotency key, opens none, and neither does one whose idempotency key an earlier job of the call has.
-- Locks windows that are new or over, in order of their keys, until the transaction ends, and waits for who else opens
-- them; one that is open is only read. Raises HW004.
create function headway.open_windows(
  p_now timestamptz,
  p_own uuid,
  p_ids uuid[],
  p_tenants uuid[],
  p_kinds text[],
  p_idempotency_keys text[],
  p_unique_keys text[],
  p_unique_groups text[],
  p_on_conflicts text[],
  p_unique_for_ms bigint[],
  out met uuid[],
  out outcomes text[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_asked headway.unique_windows[];
begin
  perform
     from unnest(p_unique_keys, p_on_conflicts, p_unique_for_ms) as u (unique_key, on_conflict, unique_for_ms)
    where u.unique_for_ms is not null
      and (u.unique_key is null or u.unique_for_ms <= 0 or u.on_conflict in ('replace', 'replace_or_follow'));
  if found then
    raise exception 'unique_for is a duration above zero, needs a unique_key, and cannot go with debounce or an on_conflict that replaces'
      using errcode = 'HW004';
  end if;
  v_asked := array(
    select distinct on (k.tenant_id, k.scope, k.key)
           row(k.tenant_id, k.scope, k.key, u.id, p_now + u.unique_for_ms * interval '1 millisecond')::headway.unique_windows
      from (select g.*,
                   row_number() over (partition by g.tenant_id, g.kind, g.idempotency_key order by g.ordinal) as turn
              from unnest(p_ids, p_tenants, p_kinds, p_idempotency_keys, p_unique_keys, p_unique_groups, p_unique_for_ms)
                   with ordinality as g (id, tenant_id, kind, idempotency_key, unique_key, unique_group, unique_for_ms, ordinal)) u
      cross join lateral (
        select coalesce(u.tenant_id, p_own) as tenant_id, coalesce(u.unique_group, u.kind) collate "C" as scope,
               u.unique_key collate "C" as key
      ) k
     where u.unique_for_ms is not null
       and (u.idempotency_key is null or u.turn = 1)
       and not exists (select from headway.jobs j where j.id = u.id)
       and not exists (select
                         from headway.jobs j
                        where j.tenant_id = k.tenant_id and j.kind = u.kind and j.idempotency_key = u.idempotency_key)
       and not exists (select
                         from headway.unique_windows w
                         join headway.jobs j on j.id = w.job_id
                        where w.tenant_id = k.tenant_id and w.scope = k.scope and w.key = k.key and w.until > p_now)
     order by k.tenant_id, k.scope, k.key, u.ordinal);
  insert into headway.unique_windows as w (tenant_id, scope, key, job_id, until)
  select a.tenant_id, a.scope, a.key, a.job_id, a.until
    from unnest(v_asked) a
   order by a.tenant_id, a.scope, a.key
  on conflict (tenant_id, scope, key) do update
     set job_id = excluded.job_id, until = excluded.until
   where w.until <= p_now;
  -- the window of a job that was deleted. The insert has locked these rows, also those that it did not update; only a
  -- new statement sees the jobs of the transactions that it waited for
  update headway.unique_windows w
     set job_id = a.job_id, until = a.until
    from unnest(v_asked) a
   where w.tenant_id = a.tenant_id
     and w.scope = a.scope
     and w.key = a.key
     and w.job_id <> a.job_id
     and not exists (select from headway.jobs j where j.id = w.job_id);
  select array_agg(w.job_id order by u.ordinal), array_agg(case when w.job_id is not null then 'left' end order by u.ordinal)
    into met, outcomes
    from unnest(p_ids, p_tenants, p_kinds, p_unique_keys, p_unique_groups, p_unique_for_ms)
         with ordinality as u (id, tenant_id, kind, unique_key, unique_group, unique_for_ms, ordinal)
    left join headway.unique_windows w
      on u.unique_for_ms is not null
     and w.tenant_id = coalesce(u.tenant_id, p_own)
     and w.scope = coalesce(u.unique_group, u.kind)
     and w.key = u.unique_key
     and w.job_id <> u.id
     and w.until > p_now;
end
$$;

-- After the insert: close the windows of those of these jobs that were not inserted, because another has their key.
create function headway.close_windows(
  p_own uuid,
  p_ids uuid[],
  p_tenants uuid[],
  p_kinds text[],
  p_unique_keys text[],
  p_unique_groups text[]
) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  delete from headway.unique_windows w
   using unnest(p_ids, p_tenants, p_kinds, p_unique_keys, p_unique_groups)
         as u (id, tenant_id, kind, unique_key, unique_group)
   where w.tenant_id = coalesce(u.tenant_id, p_own)
     and w.scope = coalesce(u.unique_group, u.kind)
     and w.key = u.unique_key
     and w.job_id = u.id
     and not exists (select from headway.jobs j where j.id = u.id)
$$;

-- Delete up to p_limit windows that are over, the oldest first; gives how many. Skips rows that others have locked.
create function headway.prune_windows(p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := headway.now(); -- the function itself is no condition for an index
  v_count integer;
begin
  delete from headway.unique_windows w
   where w.ctid = any (array(
           select o.ctid
             from headway.unique_windows o
            where o.until <= v_now
            order by o.until
            limit p_limit
              for update skip locked));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
