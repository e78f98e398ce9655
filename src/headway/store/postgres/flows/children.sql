-- Children of flows: jobs that a flow called and waits for, by edges with fence -1, one for each. The end of one puts a
-- signal into the flow's inbox; the flow itself reads the child's row.

-- Tell flows that children are over; one that was told before is told again. Leaves alone what is over. The caller
-- delivers.
create function headway.tell_flows(p_flows uuid[], p_children uuid[], p_now timestamptz) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.signals (id, job_id, tenant_id, name, payload, dedup_key, sent_at)
  select headway.uuid7(), j.id, j.tenant_id, '$child', to_json(u.child), '$child:' || u.child, p_now
    from unnest(p_flows, p_children) as u (flow, child)
    join headway.jobs j on j.id = u.flow
   where (j.finished_at is null) is true
   order by u.flow, u.child
  on conflict (job_id, dedup_key) where dedup_key is not null do update
    set fence = null, consumed_at = null
$$;

-- Ask those of these jobs, whose rows are locked, to end that are flows that have run and are not held: by the signal
-- `$cancel`, unless they have it. Gives those that were asked now. They do not expire any more: none would be claimed.
create function headway.ask_flows(p_ids uuid[], p_reasons text[], p_now timestamptz) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_asked uuid[];
begin
  with asked as (
    insert into headway.signals (id, job_id, tenant_id, name, payload, dedup_key, sent_at)
    select headway.uuid7(), j.id, j.tenant_id, '$cancel', to_json(u.reason), '$cancel', p_now
      from unnest(p_ids, p_reasons) as u (id, reason)
      join headway.jobs j on j.id = u.id
     where headway.ends_by_itself(j)
     order by j.id
    on conflict do nothing
    returning job_id
  )
  select array_agg(a.job_id) into v_asked from asked a;
  if v_asked is not null then
    update headway.jobs j set expires_at = null where j.id = any (v_asked) and j.expires_at is not null;
    perform headway.deliver(v_asked, p_now);
  end if;
  return v_asked;
end
$$;

-- Whether a job, when it is canceled, is asked and ends by itself, as a flow does that has begun. Inlined.
create function headway.ends_by_itself(p_job headway.jobs) returns boolean
language sql immutable
as $$
  select (p_job.step = '$flow' and p_job.fence > 0 and p_job.status in ('queued', 'scheduled', 'waiting', 'running')) is true
$$;

-- Whether a flow was asked to end.
create function headway.is_asked(p_id uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (select from headway.signals s where s.job_id = p_id and s.dedup_key = '$cancel')
$$;

-- Leave an arrival for those of these flows, which are over, that have children: they are canceled.
create function headway.orphan_called(p_flows uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.arrivals (tenant_id, orphaned)
  select j.tenant_id, array_agg(j.id)
    from unnest(p_flows) as u (id)
    join headway.jobs j on j.id = u.id
   where (j.step = '$flow' and j.finished_at is not null) is true
     and (select 1
            from headway.edges e
           where e.child_id = j.id and e.state = 'pending' and e.fence = -1
           limit 1) is not null
   group by j.tenant_id
$$;

-- A flow waits no longer for these children, or for the jobs that retry them: they are canceled by the next claim. With
-- p_fence, only while it runs under that.
create function headway.leave(p_flow uuid, p_children uuid[], p_fence integer default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_tenant uuid;
begin
  select j.tenant_id
    into v_tenant
    from headway.jobs j
   where j.id = p_flow
     and (p_fence is null or (j.fence = p_fence and j.status = 'running') is true)
     for share;
  if not found then
    return;
  end if;
  with recursive heir (id) as (
    select unnest(p_children)
    union
    select j.id from heir h join headway.jobs j on j.retry_of = h.id
  )
  update headway.edges e
     set state = 'left'
    from heir h
   where e.parent_id = h.id
     and e.child_id = p_flow
     and e.fence = -1
     and e.state = 'pending';
  if found then
    insert into headway.arrivals (tenant_id, orphaned) values (v_tenant, array[p_flow]);
  end if;
end
$$;

-- Make flows wait again for a child that was retried, unless they have seen how it had ended.
create function headway.call_again(p_children uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
  update headway.edges e
     set state = 'pending'
    from headway.jobs m
   where e.parent_id = any (p_children)
     and e.fence = -1
     and e.state in ('done', 'failed')
     and m.id = e.child_id
     and (m.finished_at is null) is true
     and not exists (
           select
             from headway.effective(m.id) c
             join headway.effective(m.id) a on a.place = c.place and a.kind = 'ended'
            where c.kind = 'called'
              and c.value ->> 'id' = e.parent_id::text);
end
$$;

-- Whether an unfinished flow waits for this child, or has not taken note of its end.
create function headway.is_called(p_child uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select exists (
    select
      from headway.edges e
      join headway.jobs m on m.id = e.child_id
     where e.parent_id = p_child
       and e.fence = -1
       and m.finished_at is null
       and (e.state = 'pending'
            or exists (select
                         from headway.signals s
                        where s.job_id = m.id and s.dedup_key = '$child:' || p_child and s.fence is null)))
$$;
