-- Forget: rows of a flow's journal are taken back. They stay where they are; a `forgotten` row says that they do not count.

-- Take back the rows of a flow's journal from p_from on, with the signals that they consumed, and make it due now. Gives
-- false for a flow that does not exist. Audited. Locks its row. Raises HW003 for one that runs or is over, and for what
-- is not a flow.
create function headway.forget(p_id uuid, p_from integer, p_tenant uuid default null, p_actor text default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_job headway.jobs;
begin
  select j.* into v_job from headway.jobs j where j.id = p_id and (v_tenant is null or j.tenant_id = v_tenant) for update;
  if not found then
    return false;
  end if;
  if v_job.step is distinct from '$flow' then
    raise exception 'job % (%) is not a flow, and has no journal: nothing was changed', p_id, v_job.kind using errcode = 'HW003';
  end if;
  if v_job.status = 'running' or v_job.finished_at is not null then
    raise exception 'flow % is %, so nothing of its journal was taken back: %', p_id, v_job.status,
      case v_job.status when 'running' then 'wait until it is set aside, or cancel it' else 'retry it' end
      using errcode = 'HW003';
  end if;
  perform headway.take_back(v_job, p_from, v_now);
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  values (v_job.tenant_id, p_id, v_now, p_actor, 'accept', 'from ' || p_from);
  begin
    if v_job.status = 'waiting' then
      perform headway.wake(array[p_id], 'signal', v_now);
    elsif v_job.status = 'scheduled' then
      update headway.jobs j
         set status = 'queued', queued_at = v_now, scheduled_for = v_now,
             position = coalesce(j.position, nextval('headway.position'))
       where j.id = p_id;
    end if;
  exception when unique_violation then
    perform headway.supersede(p_id, v_now);
    perform headway.follow_later(array[p_id], v_now);
  end;
  return true;
end
$$;

-- Take back the rows of a flow, whose row is locked, from p_from on: the signals that they consumed are unread again, but
-- those that only wake.
create function headway.take_back(p_job headway.jobs, p_from integer, p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
  update headway.signals s
     set fence = null, consumed_at = null
    from headway.effective(p_job.id) f
   where f.seq >= p_from
     and s.id = f.signal
     and s.job_id = p_job.id
     and s.name not in ('$cancel', '$child');
  insert into headway.flow_journal (job_id, tenant_id, at, seq, fence, kind, place, value)
  select p_job.id, p_job.tenant_id, p_now, greatest(coalesce(max(f.seq), 0), 0) + 1, p_job.fence, 'forgotten', '',
         json_build_object('from', p_from)
    from headway.flow_journal f
   where f.job_id = p_job.id;
end
$$;

-- What a retry of a flow that is over does with its journal: takes back what its last end said that a retry shall forget
-- (`cut`), and its cancel. Children that were retried meanwhile are waited for again.
create function headway.retry_flow(p_job headway.jobs, p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_from integer;
begin
  select (f.value ->> 'from')::integer
    into v_from
    from headway.effective(p_job.id) f
   where f.kind = 'cut'
   order by f.seq desc
   limit 1;
  if found then
    perform headway.take_back(p_job, v_from, p_now);
  end if;
  delete from headway.signals s where s.job_id = p_job.id and s.dedup_key = '$cancel' and s.name = '$cancel';
  update headway.edges e
     set state = 'pending'
   where e.child_id = p_job.id
     and e.fence = -1
     and e.state in ('done', 'failed')
     and exists (select from headway.jobs c where c.id = e.parent_id and c.finished_at is null);
end
$$;
