-- Artifacts: rows about bytes that are elsewhere. Bytes are noted as trash before they are written, so that none are ever
-- unknown; keeping them takes them off that list, under the fence of their attempt.

-- Lock the row of a running attempt, so that it does not end meanwhile; gives its tenant. Raises HW002.
create function headway.lock_attempt(p_job_id uuid, p_fence integer) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  select j.tenant_id
    into v_tenant
    from headway.jobs j
   where j.id = p_job_id
     and j.fence = p_fence
     and j.status = 'running'
     for share;
  if not found then
    raise exception 'job % does not run under fence % any more: this worker lost its claim, and the job may run elsewhere; nothing was written: roll back', p_job_id, p_fence
      using errcode = 'HW002';
  end if;
  return v_tenant;
end
$$;

-- Raises HW003 if this attempt has another artifact of that name.
create function headway.refuse_artifact_name(p_id uuid, p_job_id uuid, p_fence integer, p_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from headway.artifacts a
              where a.job_id = p_job_id and a.fence = p_fence and a.name = p_name and a.id <> p_id) then
    raise exception 'attempt % of job % has an artifact "%" already: nothing was stored; give each a name of its own', p_fence, p_job_id, p_name
      using errcode = 'HW003';
  end if;
end
$$;

-- Note that a running attempt is about to write bytes there. Locks its job's row for a moment. Raises HW002 if it does not
-- run any more, HW003 if it has an artifact of that name.
create function headway.begin_artifact(p_id uuid, p_job_id uuid, p_fence integer, p_name text, p_store text, p_path text)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform headway.lock_attempt(p_job_id, p_fence);
  perform headway.refuse_artifact_name(p_id, p_job_id, p_fence, p_name);
  insert into headway.artifact_trash (id, job_id, fence, store, path, since)
  values (p_id, p_job_id, p_fence, p_store, p_path, headway.now())
  on conflict (id) do nothing;
end
$$;

-- Make whole bytes an artifact of the attempt that wrote them; repeated, it is the same one. Locks its job's row first,
-- which the attempt's end waits for. Raises HW002, HW003 as begin_artifact does.
create function headway.keep_artifact(
  p_id uuid, p_job_id uuid, p_fence integer, p_name text, p_content_type text, p_size bigint, p_sha256 text, p_store text,
  p_path text)
returns setof headway.artifacts
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  return query select * from headway.artifacts a where a.id = p_id and a.job_id = p_job_id;
  if found then
    return;
  end if;
  v_tenant := headway.lock_attempt(p_job_id, p_fence);
  perform headway.refuse_artifact_name(p_id, p_job_id, p_fence, p_name);
  delete from headway.artifact_trash t where t.id = p_id;
  return query
  insert into headway.artifacts as a
    (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)
  values (p_id, v_tenant, p_job_id, p_fence, p_name, p_content_type, p_size, p_sha256, p_store, p_path, headway.now())
  returning a.*;
end
$$;

-- Delete the artifacts of jobs that are being deleted; their bytes become trash. One probe where there are none at all.
create function headway.delete_artifacts(p_ids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.artifacts limit 1;
  if found then
    with gone as (
      delete from headway.artifacts a where a.job_id = any (p_ids) returning a.id, a.store, a.path
    )
    insert into headway.artifact_trash (id, store, path, since)
    select g.id, g.store, g.path, headway.now() from gone g;
  end if;
end
$$;

-- What a row has instead of a payload or a result, as reference() in model/spill.py writes it.
create function headway.reference(p_id uuid) returns text
language sql immutable
as $$
  select '{"$artifact":"' || p_id || '"}'
$$;

-- Note that bytes are about to be written for jobs that are about to be enqueued. Their path is made here: trash is deleted,
-- and nobody may name another tenant's bytes. Raises HW003 for another tenant, HW008 for a suspended one.
create function headway.begin_payloads(p_ids uuid[], p_tenants uuid[], p_jobs uuid[], p_stores text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into headway.artifact_trash (id, job_id, fence, store, path, since)
  select u.id, u.job_id, 0, u.store, concat_ws('/', a.tenant_id, u.job_id, u.id), headway.now()
    from unnest(p_ids, p_tenants, p_jobs, p_stores) as u (id, tenant_id, job_id, store)
    join (select t.tenant_id as named, headway.acting_tenant(t.tenant_id) as tenant_id
            from (select distinct unnest(p_tenants)) as t (tenant_id)) as a on a.named is not distinct from u.tenant_id
   where not exists (select from headway.artifacts a where a.id = u.id)
  on conflict (id) do nothing;
end
$$;

-- In the transaction that enqueued them: make each payload an artifact of the job that refers to it, in place of an earlier
-- one of that job; where no job does, its bytes are trash. Locks the rows of the trash: a sweep cannot take them meanwhile.
-- Raises HW003 if a sweep has taken the bytes, and for another tenant's; HW005 if a tenant's max_bytes is exceeded.
create function headway.keep_payloads(p_ids uuid[], p_jobs uuid[], p_sizes bigint[], p_sha256 text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope uuid := headway.acting_tenant(null);
  v_tenant uuid;
  v_store text;
  v_path text;
  v_kept uuid[] := '{}';
begin
  for v_at in 1 .. cardinality(p_ids) loop
    if exists (select from headway.artifacts a where a.id = p_ids[v_at] and a.job_id = p_jobs[v_at]) then
      continue;  -- repeated
    end if;
    select j.tenant_id
      into v_tenant
      from headway.jobs j
     where j.id = p_jobs[v_at]
       and j.payload::text = headway.reference(p_ids[v_at])
       and (v_scope is null or j.tenant_id = v_scope);
    if not found then
      update headway.artifact_trash t
         set job_id = null
       where t.id = p_ids[v_at]
         and t.fence = 0
         and (v_scope is null or starts_with(t.path, v_scope || '/'));
      continue;
    end if;
    delete from headway.artifact_trash t
     where t.id = p_ids[v_at]
       and t.job_id is not null
       and t.fence = 0
       and starts_with(t.path, v_tenant || '/')
    returning t.store, t.path into v_store, v_path;
    if not found then
      raise exception 'the payload of job %, which is too large for its row, was written more than an hour ago and may be deleted already: nothing was enqueued; enqueue it again', p_jobs[v_at]
        using errcode = 'HW003';
    end if;
    with gone as (
      delete from headway.artifacts a where a.job_id = p_jobs[v_at] and a.fence = 0 returning a.id, a.store, a.path
    )
    insert into headway.artifact_trash (id, store, path, since)
    select g.id, g.store, g.path, headway.now() from gone g;
    insert into headway.artifacts (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)
    values (p_ids[v_at], v_tenant, p_jobs[v_at], 0, '.payload.json', 'application/json', p_sizes[v_at], p_sha256[v_at],
            v_store, v_path, headway.now());
    v_kept := v_kept || p_ids[v_at];
  end loop;
  perform headway.check_byte_quota(a.tenant_id, sum(a.size)::bigint)
     from headway.artifacts a
    where a.id = any (v_kept)
    group by a.tenant_id;
end
$$;

-- Share the spilled payload of a job with the new job that retries it: both refer to the same bytes, which become trash
-- once neither does.
create function headway.copy_payload(p_from uuid, p_to uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into headway.artifacts (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)
  select p_to, a.tenant_id, p_to, 0, a.name, a.content_type, a.size, a.sha256, a.store, a.path, headway.now()
    from headway.artifacts a
    join headway.jobs j on j.id = a.job_id
   where a.job_id = p_from
     and a.fence = 0
     and j.payload::text = headway.reference(a.id);
  if found then
    update headway.jobs j set payload = headway.reference(p_to)::json where j.id = p_to;
  end if;
end
$$;

-- Bytes in these stores that no artifact has and none can have any more: deleted ones, those of an attempt that does not
-- run, since no attempt ever runs again under the same fence, and payloads that no job has an hour after they were begun: an
-- enqueue that is still open has locked theirs. What follows the @ in a store's name is for people only.
create function headway.trash(p_stores text[], p_limit integer) returns table (id uuid, store text, path text)
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.artifact_trash t
     set job_id = null
    from (select o.id
            from headway.artifact_trash o
           where o.fence = 0
             and o.job_id is not null
             and o.since < headway.now() - interval '1 hour'
             for update skip locked) as old
   where t.id = old.id;
  select t.id, t.store, t.path
    from headway.artifact_trash t
   where split_part(t.store, '@', 1) = any (p_stores)
     and not exists (select from headway.jobs j
                      where j.id = t.job_id and j.fence = t.fence and j.status = 'running')
     and (t.job_id is null or t.fence <> 0)
     -- the payload of a job and of those that retried it as new ones
     and not exists (select from headway.artifacts a where a.path = t.path and a.fence = 0)
   order by t.id
   limit p_limit
$$;

-- These bytes are gone.
create function headway.empty_trash(p_ids uuid[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from headway.artifact_trash t where t.id = any (p_ids)
$$;
