-- Change a job that waits.

-- Change a job that is neither running nor finished. p_change has only the fields to set: priority, queue,
-- max_attempts, max_losses, timeout_ms, scheduled_for (null: now) or delay_ms, expires_at, payload (only while it
-- never ran), meta (null: none) and tags. Meta and tags alone may be set once it is finished, too. An untrusted caller may set queue and timeout_ms only as `restrict_change` allows.
-- Gives the status afterwards, or null if there is no such job. Raises HW001, HW003, HW004.
create function headway.change(p_id uuid, p_change json, p_tenant uuid default null, p_actor text default null)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return headway.change_job(p_id, p_change, p_tenant, p_actor, false);
end
$$;

-- The same; with p_retried by the retry that puts the job back, which may give another payload to one that ran, unless
-- it is a machine.
create function headway.change_job(p_id uuid, p_change json, p_tenant uuid, p_actor text, p_retried boolean)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_set jsonb := p_change::jsonb;
  v_job headway.jobs;
  v_old json;
  v_tags text[] := headway.checked_tags(headway.texts(nullif(p_change::jsonb -> 'tags', 'null')));
begin
  perform headway.check_json('payload', p_change -> 'payload'), headway.check_json('meta', p_change -> 'meta', 65536);
  select j.*
    into v_job
    from headway.jobs j
   where j.id = p_id
     and (v_tenant is null or j.tenant_id = v_tenant)
     for update;
  if not found then
    return null;
  end if;
  if v_job.status = 'running'
     or v_job.finished_at is not null and v_set - '{meta,tags}'::text[] <> '{}' then
    raise exception 'job % is % and cannot be changed: %', p_id, v_job.status,
      case v_job.status when 'running' then 'cancel it, or wait until it is done' else 'retry it' end
      using errcode = 'HW003';
  end if;
  if v_set ? 'payload' and v_job.fence > 0 and p_retried and v_job.step is not null then
    raise exception 'job % is a machine that has run (fence %), so its payload stays as it is: retry it without one, or fork it with another state',
      p_id, v_job.fence
      using errcode = 'HW003';
  end if;
  if v_set ? 'payload' and v_job.fence > 0 and not p_retried then
    raise exception 'job % has run (fence %), so its payload stays as it is: cancel it and enqueue a new one with the other payload',
      p_id, v_job.fence
      using errcode = 'HW003';
  end if;
  if v_set ? 'queue' and v_set ->> 'queue' !~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$' then
    raise exception 'queue name % is not valid: 1 to 128 letters, digits and . _ - : /', v_set ->> 'queue'
      using errcode = 'HW004';
  end if;
  v_old := headway.changeable(v_job);
  if not headway.trusted() and v_set ?| '{queue,timeout_ms}' then
    v_set := headway.restrict_change(v_job.kind, v_set);
  end if;
  if v_set ? 'scheduled_for' or v_set ? 'delay_ms' then
    v_job.scheduled_for := coalesce(
      (v_set ->> 'scheduled_for')::timestamptz, v_now + (v_set ->> 'delay_ms')::bigint * interval '1 millisecond');
    if v_job.status in ('queued', 'scheduled') then
      v_job.status := case when v_job.scheduled_for > v_now then 'scheduled' else 'queued' end;
      if v_job.status = 'queued' then
        v_job.queued_at := v_now;
        v_job.position := coalesce(v_job.position, nextval('headway.position'));
      end if;
    end if;
  end if;
  if v_set ?| '{meta,tags}' then
    update headway.jobs j
       set meta = case when v_set ? 'meta' then case when v_set -> 'meta' <> 'null' then p_change -> 'meta' end else j.meta end,
           tags = case when v_set ? 'tags' then v_tags else j.tags end
     where j.id = p_id;
    delete from headway.job_tags t
     where t.job_id = p_id
       and t.tag = any (v_job.tags)
       and v_set ? 'tags';
    perform headway.index_tags(array[p_id]);
  end if;
  perform headway.offer_keys(p_id) where v_job.finished_at is null;
  begin
    update headway.jobs j
       set status = v_job.status,
           scheduled_for = v_job.scheduled_for,
           queued_at = v_job.queued_at,
           position = v_job.position,
           -- in another queue, or later, its limits are checked again
           limited_by = case when v_job.status = 'queued' and not v_set ? 'queue' then j.limited_by end,
           fair = case when v_set ? 'queue'
                       then headway.is_marked(j.tenant_id, v_set ->> 'queue')
                       else j.fair end,
           priority = case when v_set ? 'priority' then (v_set ->> 'priority')::smallint else j.priority end,
           queue = case when v_set ? 'queue' then v_set ->> 'queue' else j.queue end,
           max_attempts = case when v_set ? 'max_attempts' then (v_set ->> 'max_attempts')::integer else j.max_attempts end,
           max_losses = case when v_set ? 'max_losses' then (v_set ->> 'max_losses')::integer else j.max_losses end,
           timeout_ms = case when v_set ? 'timeout_ms' then (v_set ->> 'timeout_ms')::bigint else j.timeout_ms end,
           expires_at = case when v_set ? 'expires_at' then (v_set ->> 'expires_at')::timestamptz else j.expires_at end,
           payload = case when v_set ? 'payload' then p_change -> 'payload' else j.payload end
     where j.id = p_id
       and v_job.finished_at is null;
  exception when unique_violation then
    raise exception 'job % cannot be queued: its unique key "%" is taken by job %; nothing was changed. Cancel that job, or let it finish first',
      p_id, v_job.unique_key, headway.holder(v_job)
      using errcode = 'HW001', detail = coalesce(headway.holder(v_job), p_id)::text;
  end;
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail, changes)
  select j.tenant_id, p_id, v_now, p_actor, 'change', p_change::text,
         headway.values_changed(v_old, headway.changeable(j), v_old)
    from headway.jobs j
   where j.id = p_id;
  return v_job.status;
end
$$;

-- What can be changed of a job.
create function headway.changeable(p_job headway.jobs) returns json
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select json_build_object(
    'priority', p_job.priority, 'queue', p_job.queue, 'max_attempts', p_job.max_attempts, 'max_losses', p_job.max_losses,
    'timeout_ms', p_job.timeout_ms, 'scheduled_for', p_job.scheduled_for, 'expires_at', p_job.expires_at,
    'payload', p_job.payload, 'meta', p_job.meta, 'tags', p_job.tags)
$$;

-- Lock a job, trigger, template, connector, tenant, worker (by id), definition (by kind) or setting ("queue mail") until the
-- transaction ends, for a caller that compares it with what it saw before. Raises HW003.
create function headway.lock_row(p_noun text, p_ref text, p_tenant uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
begin
  case p_noun
    when 'job' then
      perform from headway.jobs j where j.id = p_ref::uuid and (v_tenant is null or j.tenant_id = v_tenant) for update;
    when 'trigger' then
      perform from headway.triggers t where t.id = p_ref::uuid and (v_tenant is null or t.tenant_id = v_tenant) for update;
    when 'template' then
      perform from headway.templates m where m.id = p_ref::uuid and (v_tenant is null or m.tenant_id = v_tenant) for update;
    when 'connector' then
      perform from headway.connector_configs c where c.id = p_ref::uuid and (v_tenant is null or c.tenant_id = v_tenant) for update;
    when 'definition' then
      perform from headway.definitions d where d.kind = p_ref and headway.trusted() for update;
    when 'tenant' then
      perform from headway.tenants t where t.id = p_ref::uuid and headway.trusted() for update;
    when 'worker' then
      perform from headway.workers w where w.id = p_ref::uuid and headway.trusted() for update;
    when 'setting' then
      perform headway.lock_setting(p_ref) where headway.trusted();
  end case;
end
$$;

-- Lock what operators set for a queue, kind or tenant, as those who change it do; waits at most five seconds (55P03).
create function headway.lock_setting(p_setting text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
begin
  perform pg_advisory_xact_lock(headway.setting_lock(p_setting));
end
$$;
