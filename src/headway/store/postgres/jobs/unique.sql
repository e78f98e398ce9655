-- Unique keys: who holds one, and what becomes of a stored job that finds its key taken. What an enqueue answers is in
-- enqueue.sql (`enqueued`).

-- The job, other than this one, that has its unique key in scope.
create function headway.holder(p_job headway.jobs) returns uuid
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select o.id
    from headway.jobs o
   where o.tenant_id = p_job.tenant_id
     and coalesce(o.unique_group, o.kind) = coalesce(p_job.unique_group, p_job.kind)
     and o.unique_key = p_job.unique_key
     and o.unique_key is not null
     and o.status = any (o.unique_scope)
     and o.id <> p_job.id
   limit 1
$$;

create function headway.superseded(p_key text, p_holder uuid) returns text
language sql immutable
as $$ select 'superseded: unique key "' || p_key || '" is taken by job ' || p_holder $$;

-- The scope of a job that ends without its unique key, because another job holds it: with a minus before the status
-- that it ends in. The key itself stays, so that a retry can check whether it is still taken.
create function headway.without_key(p_scope text[], p_status text) returns text[]
language sql immutable
as $$ select pg_catalog.array_replace(p_scope, p_status, '-' || p_status) $$;

-- The scope as the job was enqueued with: neither without its key nor in line for it.
create function headway.with_key(p_scope text[]) returns text[]
language sql immutable
as $$
  select case when pg_catalog.array_to_string(p_scope, ',') ~ '[+-]'
              then array(select pg_catalog.ltrim(s, '+-') from pg_catalog.unnest(p_scope) s)
              else p_scope end
$$;

-- Cancel a job that would enter a unique scope that is taken: it ends without its key. The caller does what follows.
create function headway.supersede(p_id uuid, p_now timestamptz, p_holder uuid default null) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform headway.hold_trains_of(array[p_id], p_now) from headway.jobs j where j.id = p_id and j.status <> 'held';
  perform headway.offer_keys(p_id);
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
   where j.id = p_id;
  perform headway.count_canceled(array[p_id], p_now);
  return p_id;
end
$$;

-- Cancel those of these jobs that would enter a unique scope by running and find it taken; gives how many.
create function headway.supersede_entering(p_ids uuid[], p_now timestamptz) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ended uuid[];
begin
  with entering as (
    select j.id,
           headway.holder(j) as holder,
           first_value(j.id) over (
             partition by j.tenant_id, coalesce(j.unique_group, j.kind), j.unique_key
             order by j.priority, j.position, j.id) as first
      from headway.jobs j
     where j.id = any (p_ids)
       and j.unique_key is not null
       and 'running' = any (j.unique_scope)
       and not 'queued' = any (j.unique_scope)
  )
  select array_agg(headway.supersede(e.id, p_now, coalesce(e.holder, e.first)))
    into v_ended
    from entering e
   where e.holder is not null
      or e.first <> e.id;
  if v_ended is null then
    return 0;
  end if;
  perform headway.follow_later(v_ended, p_now);
  return cardinality(v_ended);
end
$$;
