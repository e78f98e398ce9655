-- Groups: jobs with one callback, which can be stopped, canceled and retried together.

-- Add a group; its members carry its id. A repeat changes nothing.
create function headway.new_group(
  p_id uuid,
  p_mode text default 'parallel',
  p_on_failure text default 'stop',
  p_callback uuid default null,
  p_tenant uuid default null,
  p_slug text default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := coalesce(headway.acting_tenant(p_tenant), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
begin
  if p_tenant is not null then
    perform headway.name_tenant(v_tenant, coalesce(p_slug, v_tenant::text), v_now);
  end if;
  insert into headway.groups (id, tenant_id, created_at, callback_id, mode, on_failure)
  values (p_id, v_tenant, v_now, p_callback, p_mode, p_on_failure)
  on conflict do nothing;
end
$$;

-- Make these jobs members of their groups: the callback of an existing group waits for them, too.
-- Raises HW004 for a group that does not exist, was stopped or is over.
create function headway.join_group(p_ids uuid[], p_groups uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found record;
begin
  -- until the commit, this keeps out only what would queue the callback or stop the group
  perform from headway.groups g where g.id = any (p_groups) for share;
  for v_found in
    select w.id, g.id as known, g.stopped_at, g.callback_id, g.on_failure, g.tenant_id, c.status, w.members
      from (select u.group_id as id, array_agg(u.id) as members
              from unnest(p_ids, p_groups) as u (id, group_id)
              join headway.jobs j on j.id = u.id
             where u.group_id is not null
             group by u.group_id) w
      left join headway.groups g
        on g.id = w.id and g.tenant_id = (select j.tenant_id from headway.jobs j where j.id = w.members[1])
      left join headway.jobs c on c.id = g.callback_id and c.tenant_id = g.tenant_id
  loop
    if v_found.known is null then
      raise exception 'group % does not exist (or is another tenant''s): nothing was enqueued', v_found.id
        using errcode = 'HW004';
    end if;
    if v_found.stopped_at is not null then
      raise exception 'group % was stopped: nothing was enqueued; retry the group, or make a new one', v_found.id
        using errcode = 'HW004';
    end if;
    continue when v_found.callback_id is null or v_found.callback_id = any (p_ids);
    if v_found.status is distinct from 'held' then
      raise exception 'group % is over, its callback % is %: nothing was enqueued; make a new group',
        v_found.id, v_found.callback_id, coalesce(v_found.status, 'gone')
        using errcode = 'HW004';
    end if;
    insert into headway.edges (parent_id, child_id, tenant_id, on_failure)
    select m, v_found.callback_id, v_found.tenant_id, case v_found.on_failure when 'continue' then 'continue' else 'stop' end
      from unnest(v_found.members) m
    on conflict do nothing;
  end loop;
end
$$;

-- Leave arrivals for groups that a failure stops.
create function headway.stop_groups_later(p_groups uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.arrivals (tenant_id, groups)
  select g.tenant_id, array_agg(g.id) from headway.groups g where g.id = any (p_groups) group by g.tenant_id
$$;

-- Cancel the members of groups that a failure stopped (p_groups), or that are being stopped (p_stopping), unless
-- somebody has retried these meanwhile. One piece at a time; the rest, and what somebody has locked, is left as an
-- arrival.
create function headway.stop_groups(p_groups uuid[], p_stopping uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
as $$
declare
  v_stopping uuid[];
  v_ids uuid[];
  v_reasons text[];
  v_left uuid[];
begin
  -- skip locked: a transaction that adds a member has the row; the group is stopped once that has ended
  with locked as materialized (
    select g.id, g.stopped_at from headway.groups g where g.id = any (p_groups) for update skip locked
  ), failed as materialized (
    -- not where the member that failed has been retried before this
    select l.id, l.stopped_at
      from locked l
     where exists (select
                     from headway.jobs m
                    where m.group_id = l.id
                      and m.status in ('dead', 'canceled', 'failed')
                      and not headway.is_retried(m.id))
  ), stopped as (
    update headway.groups g
       set stopped_at = p_now
      from failed l
     where g.id = l.id
       and l.stopped_at is null
  )
  select array_agg(f.id), array_agg(g.id) filter (where l.id is null)
    into v_stopping, v_left
    from headway.groups g
    left join locked l on l.id = g.id
    left join failed f on f.id = g.id
   where g.id = any (p_groups);
  if v_left is not null then
    insert into headway.arrivals (groups) values (v_left);
  end if;
  v_stopping := array_remove(v_stopping, null)
    || array(select g.id from headway.groups g where g.id = any (p_stopping) and g.stopped_at is not null);

  select array_agg(l.id), array_agg(l.reason)
    into v_ids, v_reasons
    from (select m.id, coalesce(g.stop_reason, 'canceled because its group stopped') as reason
            from headway.groups g
            cross join lateral (
              (select c.id
                 from headway.jobs c
                where c.id = g.callback_id
                  and c.tenant_id = g.tenant_id
                  and c.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
                  and c.cancel_requested_at is null
                  and (c.step is distinct from '$flow' or not headway.is_asked(c.id)))
              union all
              (select k.id
                 from headway.jobs k
                where k.group_id = g.id
                  and k.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
                  and k.cancel_requested_at is null
                  and (k.step is distinct from '$flow' or not headway.is_asked(k.id))
                limit headway.piece())) m
           where g.id = any (v_stopping)
           limit headway.piece()) m
    cross join lateral (
      select j.id, m.reason
        from headway.jobs j
       where j.id = m.id
         and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
         for update skip locked) l;
  if v_ids is not null then
    perform headway.cancel_jobs(v_ids, v_reasons, p_now);
    perform headway.follow_later(v_ids, p_now);
  end if;
  insert into headway.arrivals (stopping)
  select array_agg(g.id)
    from unnest(v_stopping) as g (id)
   where (select 1
            from headway.jobs j
           where j.group_id = g.id
             and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
             and j.cancel_requested_at is null
             and (j.step is distinct from '$flow' or not headway.is_asked(j.id))
           limit 1) is not null
  having count(*) > 0;
  if found then
    perform headway.note_rest();
  end if;
end
$$;

-- Cancel the members of a group that are not over, and its callback. Gives the status that each has now. Many are
-- canceled in pieces: claims go on with the rest. Raises HW006 where there is no such group.
create function headway.cancel_group(
  p_group uuid, p_tenant uuid default null, p_reason text default null, p_actor text default null
) returns table (id uuid, status text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_group headway.groups;
  v_ids uuid[];
begin
  update headway.groups g
     set stopped_at = coalesce(g.stopped_at, headway.now()),
         stop_reason = coalesce(p_reason, 'canceled with its group')
   where g.id = p_group
     and (v_tenant is null or g.tenant_id = v_tenant)
  returning g.* into v_group;
  if not found then
    raise exception 'there is no group % (or it is another tenant''s, or it was pruned)', p_group using errcode = 'HW006';
  end if;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_group.tenant_id, headway.now(), p_actor, 'cancel group', p_group::text);
  v_ids := array(
    select j.id
      from headway.jobs j
     where (j.group_id = p_group or j.id = v_group.callback_id and j.tenant_id = v_group.tenant_id)
       and j.status in ('queued', 'scheduled', 'held', 'waiting', 'running')
     order by j.id = v_group.callback_id desc);
  if cardinality(v_ids) > headway.piece() then
    insert into headway.arrivals (tenant_id, stopping) values (v_group.tenant_id, array[p_group]);
  end if;
  return query
    select c.id, c.status
      from headway.cancel(v_ids[: headway.piece()], v_group.tenant_id, v_group.stop_reason, p_actor) c
    union all
    select j.id, j.status from headway.jobs j where j.id = any (v_ids[headway.piece() + 1 :]);
end
$$;

-- Retry the members of a group that did not succeed, each at its position, and make the callback wait for them again,
-- even if it has run. Gives the ids that will run. Raises HW001, HW006.
create function headway.retry_group(p_group uuid, p_tenant uuid default null, p_actor text default null)
returns setof uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_group headway.groups;
  v_ids uuid[];
  v_old uuid[];
  v_new uuid[];
begin
  update headway.groups g
     set stopped_at = null, stop_reason = null
   where g.id = p_group
     and (v_tenant is null or g.tenant_id = v_tenant)
  returning g.* into v_group;
  if not found then
    raise exception 'there is no group % (or it is another tenant''s, or it was pruned)', p_group using errcode = 'HW006';
  end if;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_group.tenant_id, v_now, p_actor, 'retry group', p_group::text);
  select array_agg(l.id)
    into v_ids
    from (select j.id
            from headway.jobs j
           where j.group_id = p_group
             and j.status in ('failed', 'dead', 'canceled')
             and not exists (select from headway.jobs r where r.retry_of = j.id)
           order by j.id
             for update) l;
  if v_ids is not null then
    select v_ids || array_agg(l.id)
      into v_ids
      from (select j.id
              from headway.jobs j
             where j.id = v_group.callback_id
               and j.tenant_id = v_group.tenant_id
               and j.finished_at is not null
               for update) l;
    select r.old, r.new into v_old, v_new from headway.retry_all(v_ids, v_now, p_actor, true, false) r;
    perform headway.note_retries(v_old, v_new, v_now, p_actor, null);
    perform headway.revive(v_new, v_now, p_actor, true);
  end if;
  return query select u.new from unnest(v_old, v_new) as u (old, new) where u.old is distinct from v_group.callback_id;
end
$$;
