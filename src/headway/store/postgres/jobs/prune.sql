-- Prune: delete finished jobs.

-- The kinds and queues of the jobs that ended in p_status, and how long each keeps them: by the retention of the kind,
-- else of the queue, else p_default_ms. A probe of jobs_prune for each, however many jobs there are.
create function headway.retentions(p_status text, p_default_ms bigint) returns table (kind text, queue text, kept_ms bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
  kind := '';
  queue := '';
  loop
    select j.kind, j.queue
      into kind, queue
      from headway.jobs j
     where j.status = p_status
       and j.finished_at is not null
       and (j.kind, j.queue) > (retentions.kind, retentions.queue)
     order by j.kind, j.queue
     limit 1;
    exit when not found;
    kept_ms := coalesce(
      (select (d.policy -> 'retention' ->> p_status)::bigint from headway.definitions d where d.kind = retentions.kind),
      (select (q.retention ->> p_status)::bigint from headway.queues q where q.name = retentions.queue),
      p_default_ms);
    return next;
  end loop;
end
$$;

-- Delete up to p_limit jobs that ended in p_status longer ago than their retention, or than this where neither their
-- kind nor their queue has one; the oldest of each kind and queue first, with their attempts and signals. A child stays
-- until the machine that waits for it has gone on, or the flow has seen how it ended. Skips rows that others have locked; what cannot be deleted stays,
-- with a warning in the server's log.
create function headway.prune(p_status text, p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set lock_timeout = '1s' -- for rows of groups and edges; the jobs themselves are skipped if locked
as $$
declare
  v_now timestamptz := headway.now();
  v_line record;
  v_before timestamptz;
  v_ids uuid[] := '{}';
  v_id uuid;
  v_count integer;
begin
  for v_line in
    select r.kind, r.queue, r.kept_ms from headway.retentions(p_status, headway.kept_at_least(p_status, p_older_than_ms)) r
  loop
    v_before := v_now - v_line.kept_ms * interval '1 millisecond';
    v_ids := v_ids || array(
      select j.id
        from headway.jobs j
       where j.status = p_status
         and j.kind = v_line.kind
         and j.queue = v_line.queue
         and j.finished_at < v_before
         and j.finished_at is not null
         -- "is distinct from": the planner takes it for nearly always true, and so uses the index jobs_prune
         and (select 1
                from headway.edges e
                join headway.jobs m on m.id = e.child_id
               where e.parent_id = j.id and e.fence in (m.joining, -1) and m.finished_at is null
                 and (e.fence > 0 or headway.is_called(j.id))
               limit 1) is distinct from 1
       order by j.finished_at
       limit p_limit - cardinality(v_ids)
         for update skip locked);
    exit when cardinality(v_ids) >= p_limit;
  end loop;
  begin
    perform headway.delete_jobs(v_ids, p_status);
    return cardinality(v_ids);
  exception when others then
    null;
  end;
  -- one by one from here on: many may be blocked, and each waits
  perform set_config('lock_timeout', '2ms', true);
  v_count := 0;
  foreach v_id in array v_ids loop
    begin
      perform headway.delete_jobs(array[v_id], p_status);
      v_count := v_count + 1;
    exception
      when others then
        perform headway.warn_of(sqlstate, v_id || ' cannot be pruned: ' || sqlerrm);
    end;
  end loop;
  return v_count;
end
$$;

-- Delete these jobs, whose rows are locked, with everything that belongs to them.
create function headway.delete_jobs(p_ids uuid[], p_status text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_joined uuid[];
  v_groups uuid[];
begin
  with old as materialized (
    select j.id, j.group_id, j.tags, exists (select from headway.edges e where e.parent_id = j.id)
                             or exists (select from headway.edges e where e.child_id = j.id) as joined
      from headway.jobs j
     where j.id = any (p_ids)
  ), history as (
    delete from headway.attempts a
     using old o
     where a.job_id = o.id
  ), journal as (
    delete from headway.flow_journal f
     using old o
     where f.job_id = o.id
  ), inbox as (
    delete from headway.signals s
     using old o
     where s.job_id = o.id
  ), untagged as (
    delete from headway.job_tags t
     using (select o.id, unnest(o.tags) as tag from old o where o.tags is not null) g
     where t.tag = g.tag
       and t.job_id = g.id
  ), unerred as (
    delete from headway.job_errors e
     where e.job_id = any (p_ids) -- not joined: few jobs have one, and a plan for a small table would scan it all
  ), gone as (
    delete from headway.jobs j
     using old o
     where j.id = o.id
  )
  select array_agg(o.id) filter (where o.joined), array_agg(distinct o.group_id) filter (where o.group_id is not null)
    into v_joined, v_groups
    from old o;
  perform headway.delete_artifacts(p_ids);
  if v_joined is not null then
    -- jobs that still wait for one of them learn now how it ended
    with told as (
      update headway.edges e
         set state = case p_status when 'succeeded' then 'done' else 'failed' end
       where e.parent_id = any (v_joined)
         and e.state = 'pending'
      returning e.child_id, e.tenant_id
    )
    insert into headway.arrivals (tenant_id, jobs)
    select t.tenant_id, array_agg(distinct t.child_id) from told t group by t.tenant_id;
    delete from headway.edges e where e.child_id = any (v_joined);
    delete from headway.edges e where e.parent_id = any (v_joined) and (e.state = 'done' or e.fence <> 0);
  end if;
  perform from headway.groups limit 1;
  if found then
    delete from headway.groups g
     where (g.id = any (v_groups) or g.callback_id = any (p_ids))
       and not exists (select from headway.jobs j where j.group_id = g.id)
       and not exists (select from headway.jobs j where j.id = g.callback_id);
  end if;
end
$$;
