-- Delete: an operator removes finished jobs.

-- Delete those of these jobs that are over, with all that prune deletes with them. Gives for each known job "deleted",
-- or why it stays: the status of an unfinished one; "awaited", a child whose machine waits for its children;
-- "unsettled", one whose end has consequences that are not processed yet and need its row. One entry of the
-- audit per tenant. Locks the rows in order of id.
create function headway.delete(p_ids uuid[], p_tenant uuid default null, p_reason text default null, p_actor text default null)
returns table (id uuid, answer text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_locked uuid[];
  v_gone uuid[];
  v_status text;
begin
  v_locked := array(
    select j.id
      from headway.jobs j
     where j.id = any (p_ids)
       and (v_tenant is null or j.tenant_id = v_tenant)
     order by j.id
       for update);
  -- lock, then look: what committed meanwhile counts
  for id, answer in
    select j.id,
           case
             when j.finished_at is null then j.status
             when exists (select
                            from headway.edges e
                            join headway.jobs m on m.id = e.child_id
                           where e.parent_id = j.id and e.fence = m.joining and m.finished_at is null)
                  or headway.is_called(j.id)
             then 'awaited'
             -- its dependents must wait for the job that retries it
             when j.status = 'failed' and headway.is_retried(j.id)
                  and exists (select from headway.edges e where e.parent_id = j.id and e.state = 'pending')
             then 'unsettled'
             -- its group is not stopped yet
             when j.status <> 'succeeded' and exists (select from headway.arrivals a where j.group_id = any (a.groups))
             then 'unsettled'
             -- children that are not asked to stop yet
             when exists (select
                            from headway.edges e
                            join headway.jobs c on c.id = e.parent_id
                           where e.child_id = j.id and e.state = 'pending' and e.fence = coalesce(j.joining, -1)
                             and c.parent_id = j.id and c.finished_at is null and c.cancel_requested_at is null
                             and (c.step is distinct from '$flow' or not headway.is_asked(c.id)))
             then 'unsettled'
             else 'deleted'
           end
      from headway.jobs j
     where j.id = any (v_locked)
     order by j.id
  loop
    if answer = 'deleted' then
      v_gone := v_gone || id;
    end if;
    return next;
  end loop;
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  select j.tenant_id,
         case when count(*) = 1 then (array_agg(j.id))[1] end,
         headway.now(),
         p_actor,
         'delete',
         concat_ws(': ', case when count(*) = 1 then min(j.kind) || ', ' || min(j.status) else count(*) || ' jobs' end, p_reason)
    from headway.jobs j
   where j.id = any (v_gone)
   group by j.tenant_id;
  foreach v_status in array array['succeeded', 'canceled', 'failed', 'dead'] loop
    perform headway.delete_jobs(array(select j.id from headway.jobs j where j.id = any (v_gone) and j.status = v_status), v_status);
  end loop;
end
$$;
