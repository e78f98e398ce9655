-- Move a job to another position in its line.

-- Move a job that waits: a car among the held cars of its train, any other job among the queued jobs of its queue,
-- where it takes the priority of its new neighbour. Exactly one of p_before, p_after, p_first and p_last. Gives its
-- priority and position, or nothing if there is no such job. Raises HW003, HW004.
create function headway.move(
  p_id uuid,
  p_before uuid default null,
  p_after uuid default null,
  p_first boolean default false,
  p_last boolean default false,
  p_tenant uuid default null,
  p_actor text default null
) returns table (job_id uuid, priority smallint, "position" bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_job headway.jobs;
  v_near headway.jobs;
  v_low bigint;
  v_high bigint;
  v_position bigint;
begin
  if num_nonnulls(p_before, p_after) + p_first::integer + p_last::integer <> 1 then
    raise exception 'give exactly one of before, after, first and last' using errcode = 'HW004';
  end if;
  select j.* into v_job from headway.jobs j where j.id = p_id and (v_tenant is null or j.tenant_id = v_tenant);
  if not found then
    return;
  end if;
  -- one move at a time in a train or queue
  perform pg_advisory_xact_lock(
    headway.lock_key(coalesce('train ' || v_job.tenant_id || ' ' || v_job.train, 'line ' || v_job.queue)));
  select j.* into v_job from headway.jobs j where j.id = p_id for update;
  if not found then
    return;
  end if;
  if v_job.status <> (case when v_job.train is null then 'queued' else 'held' end) then
    raise exception 'job % cannot be moved: %', p_id,
      case
        when v_job.status = 'running' then 'it is running'
        when v_job.finished_at is not null then 'it is ' || v_job.status
        when v_job.train is not null then 'it is the locomotive of train ' || v_job.train || ', which goes first'
        when v_job.status = 'held' then 'it waits for other jobs, not in a line'
        when v_job.status = 'waiting' then 'it waits for its signals or children, not in a line'
        else 'it is ' || v_job.status || ' and gets its place when it is due: change its time instead'
      end
      using errcode = 'HW003';
  end if;

  if p_before is not null or p_after is not null then
    select j.* into v_near from headway.jobs j where j.id = coalesce(p_before, p_after) and j.tenant_id = v_job.tenant_id;
    if not found then
      raise exception 'there is no job % to move it to (or it is another tenant''s)', coalesce(p_before, p_after)
        using errcode = 'HW003';
    end if;
    if v_near.id = p_id then
      raise exception 'job % cannot be moved to itself', p_id using errcode = 'HW003';
    end if;
    if v_job.train is not null and v_near.train is distinct from v_job.train
       or v_job.train is null and v_near.queue <> v_job.queue then
      raise exception 'job % is not in the same % as job %', v_near.id,
        case when v_job.train is null then 'queue' else 'train' end, p_id
        using errcode = 'HW003';
    end if;
    if v_near.status <> v_job.status then
      raise exception 'job % is % and has no place to move another to', v_near.id,
        case when v_job.train is not null and v_near.finished_at is null then 'the locomotive (' || v_near.status || ')'
             else v_near.status end
        using errcode = 'HW003';
    end if;
  else
    select l.*
      into v_near
      from headway.line(v_job) l
     where l.id <> p_id
     -- inside a train only the position counts
     order by case when p_first and v_job.train is null then l.priority end, case when p_first then l.position end,
              case when p_first then l.id end,
              case when v_job.train is null then l.priority end desc, l.position desc, l.id desc
     limit 1;
    if not found then
      v_near := v_job;
      v_near.position := v_job.position + case when p_first then 1024 else -1024 end;
    end if;
  end if;

  if v_job.train is null then
    v_job.priority := v_near.priority;
  end if;
  if p_before is not null or p_first then
    v_high := v_near.position;
    select max(l.position)
      into v_low
      from headway.line(v_job) l
     where l.id <> p_id
       and (v_job.train is not null or l.priority = v_job.priority)
       and (l.position, l.id) < (v_near.position, v_near.id);
  else
    v_low := v_near.position;
    select min(l.position)
      into v_high
      from headway.line(v_job) l
     where l.id <> p_id
       and (v_job.train is not null or l.priority = v_job.priority)
       and (l.position, l.id) > (v_near.position, v_near.id);
  end if;

  if v_low is null then
    v_position := v_high - 1024;
  elsif v_high is null then
    v_position := greatest(v_low + 1, nextval('headway.position'));
  elsif v_high - v_low > 1 then
    v_position := v_low + (v_high - v_low) / 2;
  else
    v_position := headway.renumber(v_job, v_near, p_before is not null or p_first);
  end if;
  update headway.jobs j set priority = v_job.priority, position = v_position where j.id = p_id;
  if v_job.train is not null then
    -- the train may have been waiting for the car that came first until now
    insert into headway.arrivals (tenant_id, trains) values (v_job.tenant_id, array[v_job.train]);
  end if;
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  values (v_job.tenant_id, p_id, headway.now(), p_actor, 'move',
          case when p_first then 'first' when p_last then 'last' when p_before is not null then 'before ' || p_before
               else 'after ' || p_after end);
  job_id := p_id;
  priority := v_job.priority;
  "position" := v_position;
  return next;
end
$$;

-- The jobs among which a job can move: the held cars of its train, or the queued jobs of its queue.
create function headway.line(p_job headway.jobs) returns setof headway.jobs
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_job.train is not null then
    return query
      select j.*
        from headway.jobs j
       where j.tenant_id = p_job.tenant_id and j.train = p_job.train and j.train is not null and j.status = 'held';
  else
    return query
      select j.* from headway.jobs j where j.queue = p_job.queue and j.status = 'queued';
  end if;
end
$$;

-- Make a gap beside p_near where there is none: renumber the jobs before it, as few as possible; gives the position in
-- the gap. They only go down. Somebody's open transaction may have enqueued a job, which nobody sees: going up, a job
-- that was there before would be overtaken by it.
create function headway.renumber(p_job headway.jobs, p_near headway.jobs, p_before boolean) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids uuid[];
  v_positions bigint[];
  v_high bigint;
  v_step bigint;
  v_count integer;
begin
  -- the jobs before the gap, the nearest first
  select array_agg(l.id order by l.position desc, l.id desc), array_agg(l.position order by l.position desc, l.id desc)
    into v_ids, v_positions
    from headway.line(p_job) l
   where l.id <> p_job.id
     and (p_job.train is not null or l.priority = p_job.priority)
     and case when p_before then (l.position, l.id) < (p_near.position, p_near.id)
              else (l.position, l.id) <= (p_near.position, p_near.id) end;
  select min(l.position)
    into v_high
    from headway.line(p_job) l
   where l.id <> p_job.id
     and (p_job.train is not null or l.priority = p_job.priority)
     and case when p_before then (l.position, l.id) >= (p_near.position, p_near.id)
              else (l.position, l.id) > (p_near.position, p_near.id) end;
  v_count := cardinality(v_ids);
  v_step := 1024; -- before the first there is room for all of them
  for i in 1 .. v_count loop
    -- above the i-th, which may stay, there must be positions for i - 1 others and the new one
    if (v_high - v_positions[i]) / (i + 1) >= 2 then
      v_step := (v_high - v_positions[i]) / (i + 1);
      v_count := i - 1;
      exit;
    end if;
  end loop;
  update headway.jobs j
     set position = v_high - (u.ordinal + 1) * v_step
    from unnest(v_ids[1:v_count]) with ordinality as u (id, ordinal)
   where j.id = u.id;
  return v_high - v_step;
end
$$;
